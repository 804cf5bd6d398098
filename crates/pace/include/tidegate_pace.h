/*
 * Bounds the congestion window of sockets to the size that a target rate needs: Trickle (USENIX ATC
 * 2012), in an unmodified Linux kernel. If the kernel or the rights do not allow it, the library
 * reports this and falls back: it sets SO_MAX_PACING_RATE, and the writer has to throttle.
 *
 * Functions that return int return 0, or a negative error number; then tidegate_pace_error() returns
 * a description. All may be called from any thread. Rates are bits per second. All descriptors of a
 * socket stand for the same socket. Limits end with the socket, not with a descriptor.
 *
 *     struct tidegate_pace *pace = tidegate_pace_open(NULL);
 *     struct tidegate_pace_target target = { .rate = 2500000 };
 *     tidegate_pace_set(pace, fd, &target, sizeof target);     after the start-up is written
 *     ...
 *     tidegate_pace_close(pace);
 */
#ifndef TIDEGATE_PACE_H
#define TIDEGATE_PACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidegate_pace;

/* How sockets are paced. */
#define TIDEGATE_PACE_FALLBACK 0
#define TIDEGATE_PACE_KERNEL 1

/* What bounds the rate of a paced socket at the moment. */
#define TIDEGATE_PACE_STARTUP 0	 /* nothing, data written before is under way: throttle what comes after it */
#define TIDEGATE_PACE_CLAMPED 1	 /* the clamp: write everything, unless it was at its floor before */
#define TIDEGATE_PACE_FLOOR 2	 /* the clamp at its floor: throttle your writes to the rate */
#define TIDEGATE_PACE_BEHIND 3	 /* nothing, because goodput is below the rate: write everything */
#define TIDEGATE_PACE_NO_CLAMP 4 /* fallback: throttle your writes to the rate; the kernel spaces packets */
#define TIDEGATE_PACE_SPACED 5	 /* the clamp is or was at its floor, and the kernel spaces packets: throttle */
/* For tidegate_pace_writer_ready alone: several transfers share the connection, so nothing holds this one: throttle. */
#define TIDEGATE_PACE_UNHELD 6

/* Flags of a target. */
#define TIDEGATE_PACE_HOLD_AVERAGE 1u /* no headroom while ahead: the average is the rate */
#define TIDEGATE_PACE_CLAMP_ONLY 2u   /* no pacing where the clamp does not hold the window */

/* Fields that are 0 have the value in parentheses. A larger struct, of a newer header, is rejected if
 * its unknown fields are not 0. */
struct tidegate_pace_target {
	uint64_t rate;	   /* bit/s; 125 % of the encoding rate in the paper */
	uint64_t credit;   /* bytes that may be caught up at most (no bound) */
	uint32_t headroom; /* per mille of rate * RTT (1200) */
	uint32_t floor;	   /* least clamp, segments (10) */
	uint32_t flags;
	uint32_t reserved;
};

struct tidegate_pace_stats {
	uint32_t state;		/* TIDEGATE_PACE_STARTUP and so on */
	uint32_t clamp;		/* segments; 0 before the first round trip, or without a clamp */
	uint32_t window;	/* congestion window, segments */
	uint32_t srtt;		/* microseconds */
	uint32_t mss;		/* bytes */
	uint32_t sent;		/* data segments of the connection, with retransmissions */
	uint32_t retransmitted; /* segments of the connection */
	uint32_t round_trips;	/* in which the clamp was checked */
	uint32_t sets;		/* how often the clamp was set */
	uint32_t lifts;		/* how often goodput fell behind the rate */
	uint64_t rate;		/* bit/s */
	uint64_t delivered;	/* bytes acknowledged since the throttling phase began */
	uint64_t due;		/* bytes that the rate asked for until then */
	uint64_t pacing;	/* bit/s at which the kernel paces, or 0; see docs/explanation/pace.md */
};

/* Attaches to this cgroup's folder, or to the process's own cgroup if NULL. Returns NULL only if the
 * library has a fault. Other functions refuse NULL: those that return an error number return -EINVAL,
 * tidegate_pace_mode returns TIDEGATE_PACE_FALLBACK, and tidegate_pace_why returns "". */
struct tidegate_pace *tidegate_pace_open(const char *cgroup);
/* Frees the sockets that this process has open, by any descriptor (it searches /proc/self/fd), and
 * everything else. A socket that is open only in another process keeps its last clamp. */
void tidegate_pace_close(struct tidegate_pace *pace);

/* TIDEGATE_PACE_KERNEL or TIDEGATE_PACE_FALLBACK. */
int tidegate_pace_mode(const struct tidegate_pace *pace);
/* Why it is the fallback, or "". Lives as long as pace. */
const char *tidegate_pace_why(const struct tidegate_pace *pace);

/* Begins the throttling phase of a connected socket. Data written before is sent at full speed. In the
 * fallback, the first call of tidegate_pace_state or tidegate_pace_get after it is acknowledged sets the
 * rate: call tidegate_pace_state before each write. */
int tidegate_pace_set(const struct tidegate_pace *pace, int fd,
		      const struct tidegate_pace_target *target, size_t size);
/* Another target in the same phase. */
int tidegate_pace_change(const struct tidegate_pace *pace, int fd,
			 const struct tidegate_pace_target *target, size_t size);
int tidegate_pace_remove(const struct tidegate_pace *pace, int fd);
/* One of TIDEGATE_PACE_STARTUP and so on; one system call, in the fallback two during the start-up. */
int tidegate_pace_state(const struct tidegate_pace *pace, int fd);
/* size: the size of *stats, not 0. Unknown fields of a larger struct, of a newer header, become 0. */
int tidegate_pace_get(const struct tidegate_pace *pace, int fd, struct tidegate_pace_stats *stats,
		      size_t size);

/* The error of this thread's last call, or "". Lives until this thread's next call of this library,
 * or its end; copy it to keep it. */
const char *tidegate_pace_error(void);

/* Says when a server may write, and how much. It has no clock and does not wait. One thread at a
 * time. */
struct tidegate_pace_writer;

#define TIDEGATE_PACE_WAY_NONE 0
#define TIDEGATE_PACE_WAY_APPLICATION 1	    /* a block when a token bucket has enough for it */
#define TIDEGATE_PACE_WAY_MAX_PACING_RATE 2 /* set SO_MAX_PACING_RATE yourself */
#define TIDEGATE_PACE_WAY_TRICKLE 3

/* A transfer of a video of this encoding rate (bit/s), whose first startup bytes are sent at full
 * speed. block: bytes, for application pacing, 0 for 65536; percent of the encoding rate, 0 for 125.
 * NULL if there is no such way, or if the encoding rate is 0 and the way is not TIDEGATE_PACE_WAY_NONE;
 * tidegate_pace_error() says which. */
struct tidegate_pace_writer *tidegate_pace_writer_new(int way, uint64_t block, uint32_t percent,
						      uint64_t encoding_rate, uint64_t startup);
void tidegate_pace_writer_free(struct tidegate_pace_writer *writer);
/* 1 once the start-up is written: then call tidegate_pace_set. */
int tidegate_pace_writer_throttling(const struct tidegate_pace_writer *writer);
/* How many bytes may be written now (ns, from any beginning). If 0, *wait is the time to wait in ns.
 * state: from tidegate_pace_state, or -1 before tidegate_pace_set. If it is an error number, or -1 after the
 * start-up, nothing is known to hold the socket, and the writer throttles as with TIDEGATE_PACE_UNHELD. If
 * writer is NULL, this function and tidegate_pace_writer_throttling return 0, *wait is 0, and
 * tidegate_pace_error() says so. */
uint64_t tidegate_pace_writer_ready(struct tidegate_pace_writer *writer, uint64_t now, int state,
				    uint64_t *wait);
void tidegate_pace_writer_wrote(struct tidegate_pace_writer *writer, uint64_t bytes, uint64_t now);

#ifdef __cplusplus
}
#endif

#endif
