// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * DCTCP (RFC 8257), a congestion control for hosts whose network marks early and often.
 *
 * Theory of operation
 * 1. The sender keeps alpha, an average of the share of marked packets, and updates it once a window: alpha falls by a
 *    sixteenth of itself and rises by a sixteenth of the window's share (section 3.3, g = 1/16).
 * 2. When marks are echoed, the window shrinks by alpha/2, once a window: TCP asks for the new threshold at that moment. A loss
 *    still halves it (section 3.5).
 * 3. The receiver echoes each packet's mark exactly: while CE comes, every ACK carries ECE; when CE begins or ends and an
 *    ACK is due for what came before, that ACK goes out at once with the old echo (section 3.2).
 *
 * Everything else is TCP's own: slow start and congestion avoidance as in RFC 5681. The types below name only what is used of
 * the kernel's; where it lies is found when this is loaded.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define KERNEL __attribute__((preserve_access_index))

struct sock {
} KERNEL;

struct inet_sock {
	struct sock sk;
} KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 delivered;
	__u32 delivered_ce;
	__u8 ecn_flags;
} KERNEL;

enum tcp_ca_event {
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

/* weir fills in the name before it loads this, so it comes first. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

/* Both ends ask for ECN in the handshake. */
#define NEEDS_ECN 2
/* States that TCP enters for a loss: fast recovery, and the retransmission timeout. */
#define STATE_RECOVERY 3
#define STATE_LOSS 4
/* An ACK waits for its timer. */
#define ACK_DELAYED 2
/* ACKs carry ECE. */
#define ECHO 4

/* alpha of one. */
#define ONE 1024
/* 1/g, as a shift. */
#define GAIN_SHIFT 4
#define LEAST_WINDOW 2

struct dctcp {
	/* Share of marked packets, 0 to ONE. */
	__u32 alpha;
	/* When this sequence number is acknowledged, the window is over. */
	__u32 window_end;
	/* Counters at its begin. */
	__u32 delivered;
	__u32 marked;
	/* Congestion window when TCP last asked for a threshold. */
	__u32 before;
	/* The receiver: how far packets with the present state of CE had come. */
	__u32 last_rcv_nxt;
	__u32 ce;
};

static struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static struct dctcp *state(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __u32 at_least(__u32 window)
{
	return window > LEAST_WINDOW ? window : LEAST_WINDOW;
}

static void begin_window(struct tcp_sock *tp, struct dctcp *ca)
{
	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->marked = tp->delivered_ce;
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *ca = state(sk);

	/* Section 3.3: the first marks are taken as a sign of heavy congestion. */
	ca->alpha = ONE;
	ca->before = tp->snd_cwnd;
	ca->last_rcv_nxt = tp->rcv_nxt;
	ca->ce = 0;
	begin_window(tp, ca);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *ca = state(sk);
	__u32 window = tp->snd_cwnd;

	ca->before = window;
	return at_least(window - (__u32)((__u64)window * ca->alpha / (2 * ONE)));
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp(sk);

	if (new_state == STATE_RECOVERY || new_state == STATE_LOSS)
		tp->snd_ssthresh = at_least(state(sk)->before / 2);
}

SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *ca = state(sk);
	__u32 delivered, marked, alpha;

	if ((__s32)(tp->snd_una - ca->window_end) < 0)
		return;
	delivered = tp->delivered - ca->delivered;
	marked = tp->delivered_ce - ca->marked;
	if (delivered > 0) {
		if (marked > delivered)
			marked = delivered;
		/* Rounded up, so that alpha does not stay above zero for ever. */
		alpha = ca->alpha - ((ca->alpha + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT);
		alpha += (__u32)(((__u64)marked * (ONE >> GAIN_SHIFT)) / delivered);
		ca->alpha = alpha < ONE ? alpha : ONE;
	}
	begin_window(tp, ca);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *ca = state(sk);
	__u32 ce;

	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		ce = 1;
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		ce = 0;
	else
		return;
	if (ce != ca->ce && tp->inet_conn.icsk_ack.pending & ACK_DELAYED) {
		/* What came before is told with the echo that was true for it. */
		if (ca->ce)
			tp->ecn_flags |= ECHO;
		else
			tp->ecn_flags &= ~ECHO;
		bpf_tcp_send_ack(tp, ca->last_rcv_nxt);
	}
	ca->ce = ce;
	ca->last_rcv_nxt = tp->rcv_nxt;
	if (ce)
		tp->ecn_flags |= ECHO;
	else
		tp->ecn_flags &= ~ECHO;
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	__u32 window = tcp(sk)->snd_cwnd, before = state(sk)->before;

	return window > before ? window : before;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.name = "weir_dctcp",
	.flags = NEEDS_ECN,
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
