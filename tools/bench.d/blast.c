// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends UDP as fast as it goes. Run as: blast ADDRESS PAYLOAD SECONDS
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

int main(int argc, char **argv) {
	static char payload[1472];
	struct iovec bytes = {payload, argc > 2 ? atoi(argv[2]) : 0};
	struct mmsghdr batch[64];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	if (argc != 4 || bytes.iov_len > sizeof payload || !inet_aton(argv[1], &to.sin_addr))
		return fprintf(stderr, "blast ADDRESS PAYLOAD SECONDS\n"), 2;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (connect(fd, (void *)&to, sizeof to)) return perror("connect"), 1;
	for (int i = 0; i < 64; i++) batch[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &bytes, .msg_iovlen = 1}};
	unsigned long sent = 0;
	for (time_t end = time(0) + atoi(argv[3]); time(0) < end;) {
		int n = sendmmsg(fd, batch, 64, 0);
		if (n > 0) sent += n;
	}
	printf("%lu\n", sent);
}
