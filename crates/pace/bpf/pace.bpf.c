// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Trickle [Trickle §2, Algorithm 1] in the kernel: for each socket that a server handed over, a bound
// on the congestion window of headroom * R * RTT / MSS segments, checked once in a round trip.
//
// There are two programs on a cgroup, and a storage on each paced socket. A server hands a socket over with
// setsockopt(fd, PACE_LEVEL, PACE_SET), and "tidegate_arm" answers. Only a program can turn on the round trip
// callback of an established socket. A socket that is not paced calls "tidegate_clamp" in its handshake, and
// never again. Both programs run with the socket locked.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "pace.h"

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define CALLBACK_FLAGS 1008 /* TCP_BPF_SOCK_OPS_CB_FLAGS: Linux 6.12, older headers lack it */
#define RTT_CALLBACK 8	    /* BPF_SOCK_OPS_RTT_CB_FLAG */
#define CA_CWR 2	    /* TCP_CA_CWR, and above it Recovery and Loss */
#define NO_CLAMP 0x7fffffff
#define CATCH_UP 2 /* times headroom * R */
#define SECOND 1000000000ull
#define MICROSECONDS 1000000ull

#define ENOENT 2
#define ENOMEM 12
#define EINVAL 22
#define EOPNOTSUPP 95

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// User space writes it before it loads the programs: the number of the library's instance.
const volatile __u64 owner = 0;

// The fields of the kernel's structures that are read here. libbpf finds their offsets when it loads the programs.
struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_acked;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pace);
} sockets SEC(".maps");

// The inputs of Algorithm 1. Both programs fill this in from their view of the socket.
struct seen {
	__u64 acked; // bytes
	__u32 rtt;   // microseconds, smoothed
	__u32 mss;   // bytes
	__u32 window;
	__u32 threshold;
	__u32 state; // of congestion control
};

// The slow start threshold that congestion control set last. Setting the clamp overwrites it, so the value from
// before is kept.
static __always_inline __u32 learned(struct pace *pace, struct seen *seen)
{
	return pace->clamp && seen->threshold == pace->clamp ? pace->threshold : seen->threshold;
}

static __always_inline void set(void *to, struct pace *pace, __u32 segments, struct seen *seen)
{
	int clamp = segments;

	pace->threshold = learned(pace, seen);
	if (bpf_setsockopt(to, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &clamp, sizeof(clamp)) == 0) {
		pace->clamp = segments;
		pace->sets++;
	}
}

// TCP_BPF_SNDCWND_CLAMP also writes the slow start threshold; the paper's kernel patch did not. Congestion
// control must keep the threshold that it learned from a loss. So the clamp is set in two cases only. Either the
// window is at the clamp already, and no slow start can follow; or slow start would go that far anyway. If losses
// hold the window below the clamp, the clamp does not bind, and need not change.
static __always_inline void bound(void *to, struct pace *pace, __u32 segments, struct seen *seen)
{
	if (segments == pace->clamp)
		return;
	if (seen->window >= segments || seen->threshold >= segments ||
	    (pace->clamp && seen->window >= pace->clamp))
		set(to, pace, segments, seen);
}

// Keeps the clamp above the window, so that it does not bind. An infinite clamp would make the threshold infinite
// too, and a slow start would follow congestion.
static __always_inline void ahead(void *to, struct pace *pace, struct seen *seen)
{
	if (pace->clamp && seen->window >= pace->clamp)
		set(to, pace, seen->window + seen->window / 8 + 1, seen);
}

// Removes the clamp when pacing ends. The threshold becomes the one that congestion control had learned. The clamp
// gets the same value, and then stays above the window. Without a loss both become infinite, and no trace of the
// clamp is left.
static __always_inline void restore(void *to, struct pace *pace, struct seen *seen)
{
	__u32 threshold = learned(pace, seen);

	if (!pace->clamp || pace->clamp >= NO_CLAMP || seen->state >= CA_CWR)
		return;
	if (threshold > pace->clamp && threshold > seen->window)
		set(to, pace, threshold < NO_CLAMP ? threshold : NO_CLAMP, seen);
	else
		ahead(to, pace, seen);
}

// The kernel paces at headroom * R where the clamp does not hold the rate alone. At its floor the clamp allows more than
// R; so the kernel paces from then on, as the writer throttles from then on [Trickle, Algorithm 1: write_throttle]. And
// the kernel applies a clamp only when an acknowledgement would let the window grow, which it does not while the
// client's window limits the sender, or the server has no data. Afterwards a window above the clamp would be sent at
// once. So it paces until the window is at the clamp.
//
// A throttled socket that is behind is paced too, but faster. Its window may be as wide as the start-up made it, and all
// that the socket holds would leave at once.
static __always_inline void spread(void *to, struct pace *pace, __u32 times)
{
	__u64 rate = pace->asked.rate * pace->asked.headroom / 1000 * times;
	__u32 value = ~0u; // No limit.

	if (times && rate < ~0u)
		value = rate;
	if (value == (pace->pacing ? pace->pacing : ~0u))
		return;
	if (bpf_setsockopt(to, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)) == 0)
		pace->pacing = value == ~0u ? 0 : value;
}

// Brings `due` up to now: due = R * elapsed, exactly, at the rate that was requested until now.
static __always_inline void settle(struct pace *pace, __u64 acked)
{
	__u64 now = bpf_ktime_get_ns(), rate = pace->asked.rate;
	__u64 passed = now - pace->at;
	__u64 part = rate * (passed % SECOND) + pace->carry;

	pace->at = now;
	pace->carry = part % SECOND;
	pace->due += rate * (passed / SECOND) + part / SECOND;
	pace->delivered = acked - pace->begin;
	if (pace->due > pace->delivered && pace->due - pace->delivered > pace->asked.credit)
		pace->due = pace->delivered + pace->asked.credit;
}

// One step of Algorithm 1.
static __always_inline void step(void *to, struct pace *pace, struct seen *seen)
{
	__u64 acked = seen->acked;
	__u64 rate = pace->asked.rate, rtt = seen->rtt, mss = seen->mss;
	__u64 round, slack, target;
	_Bool behind, first = 0;
	__u32 times, clamp;

	pace->calls++;
	if (pace->state == PACE_REMOVED) {
		restore(to, pace, seen);
		return;
	}
	if (pace->state == PACE_STARTUP) {
		if (acked < pace->begin) {
			// The clamp may be left from the video before on the same connection.
			restore(to, pace, seen);
			return;
		}
		pace->begin = acked;
		pace->at = bpf_ktime_get_ns();
		pace->state = PACE_CLAMPED;
		first = 1;
	}
	if (!rtt || !mss)
		return;

	settle(pace, acked);

	// goodput < R. Data in flight is not acknowledged yet, and a throttled writer sends `floor` segments at a
	// time: both are allowed for when the state begins. It lasts until all bytes that are due are delivered.
	round = rate * rtt / MICROSECONDS;
	slack = round + pace->asked.floor * mss;
	behind = pace->due > pace->delivered + (pace->state == PACE_BEHIND ? 0 : slack);

	target = (round * pace->asked.headroom / 1000 + mss / 2) / mss;
	if ((pace->asked.flags & PACE_HOLD_AVERAGE) && pace->delivered > pace->due + slack)
		target = round / mss;
	if (target > NO_CLAMP)
		target = NO_CLAMP;
	if (behind) {
		if (pace->state != PACE_BEHIND)
			pace->lifts++;
		pace->state = PACE_BEHIND;
	} else {
		pace->state = target < pace->asked.floor ? PACE_FLOOR : PACE_CLAMPED;
	}
	if (target < pace->asked.floor) {
		target = pace->asked.floor;
		pace->throttled = 1;
	}
	pace->target = target;

	// Congestion control is reducing the window to the threshold: do not change either.
	if (seen->state >= CA_CWR)
		return;
	// The first clamp may be far below the window that the start-up made, and that would leave in the next round trip. A
	// later one must be able to bind the window first: a paced socket does not fill its window, which then stays.
	clamp = first ? target : pace->clamp;
	times = pace->throttled || (clamp && seen->window > clamp);
	if (behind)
		times = pace->throttled ? CATCH_UP : 0;
	spread(to, pace, pace->asked.flags & PACE_CLAMP_ONLY ? 0 : times);
	if (!behind)
		bound(to, pace, target, seen);
	else
		ahead(to, pace, seen);
}

SEC("sockops")
int tidegate_clamp(struct bpf_sock_ops *ops)
{
	struct bpf_sock *socket;
	struct tcp_sock *tcp;
	struct pace *pace;
	struct seen seen;

	if (ops->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	socket = ops->sk;
	if (!socket)
		return 1;
	pace = bpf_sk_storage_get(&sockets, socket, 0, 0);
	if (!pace)
		return 1; // Another program wanted this callback.
	tcp = bpf_skc_to_tcp_sock(socket);
	if (!tcp)
		return 1;
	seen.acked = tcp->bytes_acked;
	seen.rtt = tcp->srtt_us >> 3;
	seen.mss = tcp->mss_cache;
	seen.window = tcp->snd_cwnd;
	seen.threshold = tcp->snd_ssthresh;
	seen.state = tcp->inet_conn.icsk_ca_state;
	step(ops, pace, &seen);
	return 1;
}

static __always_inline int answer(struct bpf_sockopt *call, int error)
{
	if (error) {
		bpf_set_retval(-error);
		return 0;
	}
	call->optlen = -1; // The kernel does not handle the option itself.
	return 1;
}

static __always_inline long callback(struct bpf_sock *socket, _Bool on)
{
	int flags = 0;

	bpf_getsockopt(socket, SOL_TCP, CALLBACK_FLAGS, &flags, sizeof(flags));
	flags = on ? flags | RTT_CALLBACK : flags & ~RTT_CALLBACK;
	return bpf_setsockopt(socket, SOL_TCP, CALLBACK_FLAGS, &flags, sizeof(flags));
}

SEC("cgroup/setsockopt")
int tidegate_arm(struct bpf_sockopt *call)
{
	struct pace_request *request = call->optval;
	struct bpf_sock *socket = call->sk;
	struct bpf_tcp_sock *tcp;
	struct pace *pace;
	struct seen seen;
	__u32 flags;

	if (call->level != PACE_LEVEL)
		return 1;
	// The request may be for another process's programs. Leave it alone: an error from here would override their
	// success. If no program answers, the kernel returns ENOPROTOOPT.
	if ((void *)(&request->owner + 1) > call->optval_end || request->owner != owner)
		return 1;
	if (!socket)
		return answer(call, EINVAL);
	tcp = bpf_tcp_sock(socket);
	if (!tcp)
		return answer(call, EINVAL);
	if (call->optname == PACE_REMOVE || call->optname == PACE_FREE) {
		pace = bpf_sk_storage_get(&sockets, socket, 0, 0);
		if (pace) {
			spread(socket, pace, 0);
			// The next round trip begins to raise the clamp.
			pace->state = PACE_REMOVED;
			if (pace->clamp == 0 || pace->clamp >= NO_CLAMP ||
			    call->optname == PACE_FREE) {
				int none = NO_CLAMP;

				callback(socket, 0);
				if (pace->clamp && pace->clamp < NO_CLAMP)
					bpf_setsockopt(socket, SOL_TCP, TCP_BPF_SNDCWND_CLAMP,
						       &none, sizeof(none));
				bpf_sk_storage_delete(&sockets, socket);
			}
		}
		return answer(call, 0);
	}
	if (call->optname != PACE_SET && call->optname != PACE_CHANGE)
		return answer(call, EINVAL);
	if ((void *)(request + 1) > call->optval_end)
		return answer(call, EINVAL);
	if (request->rate == 0 || request->rate > PACE_RATE_MOST || request->floor == 0 ||
	    request->floor > 65535 || request->headroom < 1000 || request->headroom > 10000)
		return answer(call, EINVAL);

	flags = call->optname == PACE_SET ? BPF_SK_STORAGE_GET_F_CREATE : 0;
	pace = bpf_sk_storage_get(&sockets, socket, 0, flags);
	if (!pace)
		return answer(call, flags ? ENOMEM : ENOENT);
	if (!flags && pace->state == PACE_REMOVED)
		return answer(call, ENOENT);
	// The old rate holds until now. The next round trip applies the new one: data is in flight, and congestion
	// control may be reducing the window.
	if (!flags && pace->state != PACE_STARTUP)
		settle(pace, tcp->bytes_acked);
	pace->asked = *request;
	if (flags) {
		// A new start-up. The next round trip removes the clamp of the previous video.
		if (request->queued)
			spread(socket, pace, 0);
		pace->begin = tcp->bytes_acked + request->queued;
		pace->due = 0;
		pace->carry = 0;
		pace->delivered = 0;
		pace->throttled = 0;
		pace->state = PACE_STARTUP;
	}
	if (callback(socket, 1)) {
		bpf_sk_storage_delete(&sockets, socket);
		return answer(call, EOPNOTSUPP); // Before Linux 6.12.
	}
	// Nothing is in flight, so nothing can be lost, and the first callback comes only after data was sent.
	if (flags && !request->queued) {
		seen.acked = tcp->bytes_acked;
		seen.rtt = tcp->srtt_us >> 3;
		seen.mss = tcp->mss_cache;
		seen.window = tcp->snd_cwnd;
		seen.threshold = tcp->snd_ssthresh;
		seen.state = 0;
		step(socket, pace, &seen);
	}
	return answer(call, 0);
}
