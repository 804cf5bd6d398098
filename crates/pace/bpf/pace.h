/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The structures that the kernel's side and the library exchange. build/wire.rs generates Rust code
 * from them.
 */
#ifndef TIDEGATE_PACE_WIRE_H
#define TIDEGATE_PACE_WIRE_H

/* setsockopt(fd, PACE_LEVEL, ...): a level that no protocol has, so a kernel without the program
 * answers ENOPROTOOPT. */
#define PACE_LEVEL 0x7467
#define PACE_SET 1    /* struct pace_request: begin a throttling phase */
#define PACE_CHANGE 2 /* struct pace_request: other numbers, same phase */
#define PACE_REMOVE 3 /* the owner: the clamp goes, in as many round trips as it takes */
#define PACE_FREE 4   /* the owner: the clamp goes at once, since the programs will */

/* The rate may not be more than 100 Gbit/s, so that products fit in 64 bits. */
#define PACE_RATE_MOST 12500000000ull

/* Once ahead of R, leave out the headroom: the average becomes R. */
#define PACE_HOLD_AVERAGE 1u
/* Never pace, even where the clamp does not hold the window: the paper's algorithm alone. */
#define PACE_CLAMP_ONLY 2u

/* All values begin with the owner, a number that each pair of programs is loaded with. Several pairs
 * may be attached to one cgroup, and each answers only its own library. */
struct pace_request {
	__u64 owner;
	__u64 rate;     /* bytes per second */
	__u64 credit;   /* bytes: what may be caught up, at most */
	__u32 headroom; /* per mille of R * RTT */
	__u32 floor;    /* segments */
	__u32 flags;
	__u32 queued; /* bytes written and not yet acknowledged: still start-up */
};

enum pace_state {
	PACE_STARTUP = 0, /* what was written before is still under way: no clamp */
	PACE_CLAMPED = 1, /* the clamp is headroom * R * RTT */
	PACE_FLOOR = 2,   /* the clamp is the floor: the writer has to throttle, and the kernel paces */
	PACE_BEHIND = 3,  /* goodput < R: no clamp */
	PACE_REMOVED = 4, /* not paced: the clamp goes before the window */
};

struct pace {
	struct pace_request asked;
	__u64 begin;     /* bytes acknowledged when the phase began, or will begin */
	__u64 at;        /* ns, when due was brought up to date */
	__u64 due;       /* bytes, R * time since the phase began */
	__u64 carry;     /* of the last division by a second */
	__u64 delivered; /* bytes acknowledged since the phase began */
	__u32 state;
	__u32 clamp;  /* segments, as last set; 0 never */
	__u32 calls;  /* round trips seen */
	__u32 sets;   /* how often the clamp was set */
	__u32 lifts;  /* how often goodput fell behind R */
	__u32 target; /* segments, headroom * R * RTT / MSS, no less than the floor */
	__u32 pacing; /* bytes per second, where the clamp does not hold the rate alone; else 0 */
	__u32 threshold; /* segments, of slow start, before the clamp wrote over it */
	__u32 throttled; /* 1: the clamp was at its floor in this phase, so the writer throttles */
	__u32 reserved;
};

#endif
