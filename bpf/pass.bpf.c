// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Passes every frame. On the host's end of a veth it gives the interface NAPI, which a redirect into the other end needs.
 * Loaded by ip(8), so it does without libbpf's headers.
 */
#include <linux/bpf.h>

__attribute__((section("xdp"), used))
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] __attribute__((section("license"), used)) = "Dual BSD/GPL";
