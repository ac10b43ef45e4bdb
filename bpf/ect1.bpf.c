// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * ECT(1) for TCP that knows only ECT(0): at a host's egress, in the IP headers of sockets with our mark.
 *
 * Theory of operation
 * The kernel's TCP says ECT(0) on what a network may mark, whatever its congestion control. A network with L4S gives early
 * and frequent marks to ECT(1) only (RFC 9331), which is what DCTCP wants. So ECT(0) becomes ECT(1) here, behind TCP and IP
 * and before the frame leaves; Not-ECT and CE stay, since they mean the same to both. Receivers take CE for CE.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "weir.h"

#define ECT_0 2
#define ECT_1 1
#define ECN 3
/* In IPv6 the field is four bits further up. */
#define SHIFT_6 4
/* Offset of the checksum in an IPv4 header. */
#define CHECKSUM 10
/* Go on with whoever comes next, and in the end with the frame. */
#define NEXT -1

SEC("tcx/egress")
int weir_ect1(struct __sk_buff *skb)
{
	__u8 old[2], new[2];
	int shift;

	if (skb->mark != WEIR_ECT1_MARK)
		return NEXT;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		shift = 0;
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		shift = SHIFT_6;
	else
		return NEXT;
	/* The second byte of either header has the field. */
	if (bpf_skb_load_bytes(skb, ETH_HLEN, old, sizeof(old)) || ((old[1] >> shift) & ECN) != ECT_0)
		return NEXT;
	new[0] = old[0];
	new[1] = old[1] ^ ((ECT_0 ^ ECT_1) << shift);
	if (!shift)
		bpf_l3_csum_replace(skb, ETH_HLEN + CHECKSUM, *(__u16 *)old, *(__u16 *)new, sizeof(new));
	bpf_skb_store_bytes(skb, ETH_HLEN, new, sizeof(new), 0);
	return NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
