/* Sends to the first who connects, paced, and says how it goes: send CGROUP RATE SECONDS */
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

int main(int count, char **arguments)
{
	static char block[65536];
	struct tidegate_pace_target target = { 0 };
	struct tidegate_pace_stats stats;
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	struct tidegate_pace *pace;
	int listener, fd;
	time_t end;

	if (count != 4)
		return 2;
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
	fflush(stdout);
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
	end = time(NULL) + atoi(arguments[3]);
	while (time(NULL) < end)
		if (write(fd, block, sizeof block) < 0)
			fail("write");
	if (tidegate_pace_get(pace, fd, &stats, sizeof stats))
		fail("get");
	printf("state %u clamp %u window %u rate %llu delivered %llu due %llu\n", stats.state,
	       stats.clamp, stats.window, (unsigned long long)stats.rate,
	       (unsigned long long)stats.delivered, (unsigned long long)stats.due);
	if (tidegate_pace_remove(pace, fd) || tidegate_pace_state(pace, fd) != -ENOENT)
		fail("remove");
	tidegate_pace_close(pace);
	printf("done\n");
	return 0;
}
