// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The gate: one instance per NIC, run for every frame that arrives there.
 *
 * Theory of operation
 * 1. Is there a socket for the receive queue of this frame, and has its owner shown itself
 *    within stale_ns? Then the arrival time goes in front of the frame, and the frame to the
 *    socket.
 * 2. Else nobody shapes this frame, and it does what the owner asked for beforehand: straight to
 *    the other NIC, to this machine's stack, or nowhere. So a dead or frozen owner costs the
 *    traffic its shaping and not its way.
 * 3. Each outcome is counted.
 *
 * No frame is looked into. No type of the running kernel is needed, so this loads without kernel
 * BTF.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "weir.h"

const volatile struct weir_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, WEIR_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The other NIC. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} peer SEC(".maps");

/* When the owner was last seen; user space writes it through a mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heartbeat SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_counters);
} counters SEC(".maps");

static const __u32 zero;

static __always_inline int unserved(struct weir_counters *count)
{
	int verdict;

	switch (config.on_failure) {
	case WEIR_PASS:
		count->passed++;
		return XDP_PASS;
	case WEIR_DROP:
		count->dropped++;
		return XDP_DROP;
	default:
		verdict = bpf_redirect_map(&peer, 0, XDP_DROP);
		if (verdict == XDP_REDIRECT) {
			count->bypassed++;
		} else {
			count->redirect_failed++;
			count->dropped++;
		}
		return verdict;
	}
}

static __always_inline void stamp(struct xdp_md *ctx, __u64 now, struct weir_counters *count)
{
	struct weir_stamp *stamp;
	void *data;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*stamp))) {
		count->unstamped++;
		return;
	}
	stamp = (void *)(long)ctx->data_meta;
	data = (void *)(long)ctx->data;
	if ((void *)(stamp + 1) > data) {
		count->unstamped++;
		return;
	}
	stamp->arrived_ns = now;
	stamp->magic = WEIR_STAMP_MAGIC;
}

SEC("xdp")
int weir_gate(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	struct weir_counters *count;
	__u64 *beat, now;
	int verdict;

	count = bpf_map_lookup_elem(&counters, &zero);
	beat = bpf_map_lookup_elem(&heartbeat, &zero);
	if (!count || !beat)
		return XDP_ABORTED;

	if (!bpf_map_lookup_elem(&sockets, &queue)) {
		count->no_socket++;
		return unserved(count);
	}
	/* Signed: the owner's clock may have been read a little after ours on another CPU. */
	now = bpf_ktime_get_ns();
	if ((__s64)(now - *(volatile __u64 *)beat) > (__s64)config.stale_ns) {
		count->stale++;
		return unserved(count);
	}
	stamp(ctx, now, count);
	verdict = bpf_redirect_map(&sockets, queue, XDP_DROP);
	if (verdict == XDP_REDIRECT) {
		count->redirected++;
	} else {
		count->redirect_failed++;
		count->dropped++;
	}
	return verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
