/* Sends to the first client, paced, and prints the figures: send CGROUP RATE SECONDS */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tidegate_pace.h"

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s %s\n", what, strerror(errno), tidegate_pace_error());
	exit(1);
}

static uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int count, char **arguments)
{
	static char block[65536];
	struct tidegate_pace_target target = { 0 };
	struct tidegate_pace_stats stats;
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	struct tidegate_pace *pace;
	struct tidegate_pace_writer *writer;
	int listener, fd;
	uint64_t begin, now, end, most, wait;
	ssize_t wrote;

	if (count != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	pace = tidegate_pace_open(arguments[1]);
	printf("mode %d %s\n", tidegate_pace_mode(pace), tidegate_pace_why(pace));
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		fail("listen");
	if (setsockopt(listener, 6 /* TCP */, 13 /* TCP_CONGESTION */, "cubic", 5))
		fail("cubic");
	printf("port %d\n", ntohs(address.sin_port));
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");

	if (tidegate_pace_state(pace, fd) != -ENOENT)
		fail("a socket is paced that was never handed over");
	if (tidegate_pace_set(pace, fd, &target, sizeof target) != -EINVAL)
		fail("a rate of 0 is taken");
	printf("refused: %s\n", tidegate_pace_error());
	target.rate = strtoull(arguments[2], NULL, 10);
	if (tidegate_pace_set(pace, fd, &target, sizeof target))
		fail("set");
	/* R is 125 % of the encoding rate. */
	writer = tidegate_pace_writer_new(TIDEGATE_PACE_WAY_TRICKLE, 0, 0, target.rate * 100 / 125, 0);
	if (!writer || !tidegate_pace_writer_throttling(writer))
		fail("writer");
	begin = nanoseconds();
	end = begin + strtoull(arguments[3], NULL, 10) * 1000000000;
	while ((now = nanoseconds()) < end) {
		most = tidegate_pace_writer_ready(writer, now, tidegate_pace_state(pace, fd), &wait);
		if (!most) {
			struct timespec sleep = { wait / 1000000000, wait % 1000000000 };
			nanosleep(&sleep, NULL);
			continue;
		}
		wrote = write(fd, block, most < sizeof block ? most : sizeof block);
		if (wrote < 0)
			fail("write");
		tidegate_pace_writer_wrote(writer, wrote, nanoseconds());
	}
	tidegate_pace_writer_free(writer);
	if (tidegate_pace_get(pace, fd, &stats, sizeof stats))
		fail("get");
	printf("state %u clamp %u window %u srtt %u rate %llu delivered %llu due %llu\n", stats.state,
	       stats.clamp, stats.window, stats.srtt, (unsigned long long)stats.rate,
	       (unsigned long long)stats.delivered, (unsigned long long)stats.due);
	if (tidegate_pace_remove(pace, fd) || tidegate_pace_state(pace, fd) != -ENOENT)
		fail("remove");
	tidegate_pace_close(pace);
	printf("done\n");
	return 0;
}
