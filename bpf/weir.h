/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the gate and user space agree on: limits, map names, structs.
 * src/port/xdp/program.rs mirrors every struct here and its tests compare the sizes.
 */
#ifndef WEIR_H
#define WEIR_H

#include <linux/types.h>

/* Receive queues a gate can serve. */
#define WEIR_MAX_QUEUES 256

/* What becomes of a frame when nobody serves its queue. */
enum weir_on_failure {
	WEIR_BYPASS = 0, /* straight out of the other NIC */
	WEIR_PASS = 1,	 /* to this machine's own stack */
	WEIR_DROP = 2,
};

/* Set once before the program is loaded. */
struct weir_config {
	__u64 stale_ns;	  /* a heartbeat older than this means that the owner hangs */
	__u32 on_failure; /* enum weir_on_failure */
	__u32 reserved;
};

/* Outcomes, one count each; a frame adds to exactly one of the first four. */
struct weir_counters {
	__u64 redirected;      /* handed to the socket of its queue */
	__u64 bypassed;	       /* sent straight to the other NIC */
	__u64 passed;	       /* left to the stack */
	__u64 dropped;	       /* dropped here */
	__u64 no_socket;       /* of the last three: no socket on the queue */
	__u64 stale;	       /* of the last three: the owner's heartbeat was old */
	__u64 redirect_failed; /* of those dropped: the redirect itself was refused */
	__u64 unstamped;       /* of those redirected: no room for the arrival time */
};

/*
 * Right in front of the frame. The magic says that the time is this frame's. Written two bytes at
 * a time: that is how far packets are aligned on machines that care (NET_IP_ALIGN).
 */
struct weir_stamp {
	__u64 arrived_ns; /* CLOCK_MONOTONIC */
	__u64 magic;
} __attribute__((packed, aligned(2)));

#define WEIR_STAMP_MAGIC 0x7765697273746d70ULL

/* SO_MARK of sockets whose ECT(0) becomes ECT(1): bpf/ect1.bpf.c, src/port/xdp/ect1.rs. */
#define WEIR_ECT1_MARK 0x77654531

#endif
