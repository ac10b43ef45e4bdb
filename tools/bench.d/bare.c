// SPDX-License-Identifier: MIT OR Apache-2.0
// A bare AF_XDP forwarder: what weir is measured against. Two interfaces, one queue each, one memory, one thread that
// spins. No checks, no time stamps, no counters, no queue. Run as: bare IF IF SECONDS
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RING = 2048, FRAMES = 4096, CHUNK = 2048, BATCH = 64 };
struct ring { __u32 *producer, *consumer, *flags; void *entries; };
struct nic { int fd; __u32 index; struct ring fill, completion, rx, tx; __u64 free[FRAMES]; int nfree; };

static long must(long result, const char *what) {
	if (result < 0) { perror(what); exit(1); }
	return result;
}

static struct ring map(int fd, struct xdp_ring_offset at, int entry, off_t page) {
	char *p = mmap(0, at.desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
	if (p == MAP_FAILED) must(-1, "mmap");
	return (struct ring){(void *)(p + at.producer), (void *)(p + at.consumer), (void *)(p + at.flags), p + at.desc};
}

static void open_nic(struct nic *n, const char *name, char *memory, int shared) {
	struct xdp_umem_reg reg = {(__u64)memory, 2L * FRAMES * CHUNK, CHUNK, 0, 0};
	struct xdp_mmap_offsets at;
	socklen_t len = sizeof at;
	int size = RING;
	n->index = if_nametoindex(name);
	n->fd = must(socket(AF_XDP, SOCK_RAW, 0), "socket");
	if (shared < 0) must(setsockopt(n->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg), "memory");
	for (int option = XDP_RX_RING; option <= XDP_UMEM_COMPLETION_RING; option++)
		if (option != XDP_UMEM_REG) must(setsockopt(n->fd, SOL_XDP, option, &size, sizeof size), "ring");
	must(getsockopt(n->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len), "offsets");
	n->fill = map(n->fd, at.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
	n->completion = map(n->fd, at.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
	n->rx = map(n->fd, at.rx, 16, XDP_PGOFF_RX_RING);
	n->tx = map(n->fd, at.tx, 16, XDP_PGOFF_TX_RING);
	struct sockaddr_xdp to = {AF_XDP, shared < 0 ? XDP_COPY | XDP_USE_NEED_WAKEUP : XDP_SHARED_UMEM, n->index, 0,
				  shared < 0 ? 0 : shared};
	must(bind(n->fd, (void *)&to, sizeof to), "bind");
}

static long bpf(int command, union bpf_attr *attr) { return syscall(SYS_bpf, command, attr, sizeof *attr); }

// return redirect_map(sockets, ctx->rx_queue_index, XDP_PASS)
static void attach(struct nic *n) {
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
	int sockets = must(bpf(BPF_MAP_CREATE, &map), "map"), zero = 0;
	union bpf_attr put = {.map_fd = sockets, .key = (__u64)&zero, .value = (__u64)&n->fd};
	must(bpf(BPF_MAP_UPDATE_ELEM, &put), "socket into map");
	struct bpf_insn code[] = {
		{BPF_LDX | BPF_W | BPF_MEM, 2, 1, offsetof(struct xdp_md, rx_queue_index), 0},
		{BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, sockets}, {0, 0, 0, 0, 0},
		{BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS},
		{BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};
	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (__u64)code, .insn_cnt = 6, .license = (__u64) "GPL"};
	int program = must(bpf(BPF_PROG_LOAD, &load), "program");
	union bpf_attr link = {.link_create = {.prog_fd = program, .target_ifindex = n->index, .attach_type = BPF_XDP,
					       .flags = XDP_FLAGS_DRV_MODE}};
	must(bpf(BPF_LINK_CREATE, &link), "attach"); // lasts as long as this process
}

#define LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

// One burst that arrived at `from` goes out at `to`; the frames stay with this direction.
static void forward(struct nic *from, struct nic *to) {
	__u32 c = *to->completion.consumer, n = LOAD(to->completion.producer) - c;
	for (__u32 i = 0; i < n; i++) from->free[from->nfree++] = ((__u64 *)to->completion.entries)[(c + i) % RING];
	STORE(to->completion.consumer, c + n);
	__u32 r = *from->rx.consumer, got = LOAD(from->rx.producer) - r, t = *to->tx.producer;
	if (got > BATCH) got = BATCH;
	if (got > RING - (t - LOAD(to->tx.consumer))) got = 0;
	for (__u32 i = 0; i < got; i++)
		((struct xdp_desc *)to->tx.entries)[(t + i) % RING] = ((struct xdp_desc *)from->rx.entries)[(r + i) % RING];
	STORE(from->rx.consumer, r + got);
	STORE(to->tx.producer, t + got);
	__u32 f = *from->fill.producer, room = RING - (f - LOAD(from->fill.consumer)), give = 0;
	for (; give < room && from->nfree > 0; give++)
		((__u64 *)from->fill.entries)[(f + give) % RING] = from->free[--from->nfree] / CHUNK * CHUNK;
	STORE(from->fill.producer, f + give);
	for (int tries = 0; LOAD(to->tx.consumer) != *to->tx.producer && tries < 10; tries++)
		sendto(to->fd, 0, 0, MSG_DONTWAIT, 0, 0);
}

int main(int argc, char **argv) {
	static struct nic a, b;
	if (argc != 4) return fprintf(stderr, "bare IF IF SECONDS\n"), 2;
	char *memory = mmap(0, 2L * FRAMES * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	open_nic(&a, argv[1], memory, -1);
	open_nic(&b, argv[2], memory, a.fd);
	for (int i = 0; i < FRAMES; i++) {
		a.free[a.nfree++] = (__u64)i * CHUNK;
		b.free[b.nfree++] = (__u64)(FRAMES + i) * CHUNK;
	}
	forward(&a, &b), forward(&b, &a);
	attach(&a), attach(&b);
	puts("forwarding"), fflush(stdout);
	for (time_t end = time(0) + atoi(argv[3]); time(0) < end;)
		for (int i = 0; i < 1000; i++) forward(&a, &b), forward(&b, &a);
}
