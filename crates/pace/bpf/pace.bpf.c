// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Trickle [Trickle §2, Algorithm 1] in the kernel: for each socket that a server handed over, a bound
// on the congestion window of headroom * R * RTT / MSS segments, checked once in a round trip.
//
// Two programs on a cgroup, and a storage on each paced socket. A server hands a socket over with
// setsockopt(fd, PACE_LEVEL, PACE_SET): "tidegate_arm" answers, since only a program may turn on the round
// trip callback of a socket that is established already. So sockets that nobody paces call "tidegate_clamp"
// in their handshake and never again. Both run with the socket locked.
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
#define SECOND 1000000000ull
#define MICROSECONDS 1000000ull

#define ENOENT 2
#define ENOMEM 12
#define EINVAL 22
#define EOPNOTSUPP 95

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Written before loading.
const volatile __u64 owner = 0;

// The few fields of the kernel's that are needed here; loading finds where they are.
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

// What Algorithm 1 looks at, from either program's view of the socket.
struct seen {
	__u64 acked; // bytes
	__u32 rtt;   // microseconds, smoothed
	__u32 mss;   // bytes
	__u32 window;
	__u32 threshold;
	__u32 state; // of congestion control
};

// The slow start threshold as congestion control left it: what is seen, or what was seen before the
// clamp wrote its own over it.
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

// TCP_BPF_SNDCWND_CLAMP writes the slow start threshold too, which the paper's kernel patch did not.
// Congestion control must not lose what it learned from a loss by that, so the clamp is set only
// where the threshold does no harm: where the window is at the clamp already (no slow start can
// follow), or where it would slow-start that far anyway. A window that losses hold below the clamp
// is not bound by it, and needs no other one.
static __always_inline void bound(void *to, struct pace *pace, __u32 segments, struct seen *seen)
{
	if (segments == pace->clamp)
		return;
	if (seen->window >= segments || seen->threshold >= segments ||
	    (pace->clamp && seen->window >= pace->clamp))
		set(to, pace, segments, seen);
}

// No clamp: it goes before the window. Not at once to infinity, since the threshold would go there
// too, and what follows congestion would be a slow start.
static __always_inline void ahead(void *to, struct pace *pace, struct seen *seen)
{
	if (pace->clamp && seen->window >= pace->clamp)
		set(to, pace, seen->window + seen->window / 8 + 1, seen);
}

// No more clamp, or none for now, because pacing ends: the threshold becomes what congestion control
// had learned, and with it the clamp, which then goes before the window. Without a loss that was
// infinity for both, and nothing is left.
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

// The kernel applies the clamp when an acknowledgement would let the window grow, so not while the
// client's window, or a server without data, is what limits. A window that was left above the clamp
// would be sent at once when that ends: until it is at the clamp, the kernel paces, at the same rate.
static __always_inline void spread(void *to, struct pace *pace, _Bool on)
{
	__u64 rate = pace->asked.rate * pace->asked.headroom / 1000;
	__u32 value = ~0u; // No limit.

	if (on && rate < ~0u)
		value = rate;
	if (value == (pace->pacing ? pace->pacing : ~0u))
		return;
	if (bpf_setsockopt(to, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)) == 0)
		pace->pacing = value == ~0u ? 0 : value;
}

// due = R * elapsed, exactly, at the rate that was asked for until now.
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
	_Bool behind, over;

	pace->calls++;
	if (pace->state == PACE_REMOVED) {
		restore(to, pace, seen);
		return;
	}
	if (pace->state == PACE_STARTUP) {
		if (acked < pace->begin) {
			// On a connection that is clamped from the video before.
			restore(to, pace, seen);
			return;
		}
		pace->begin = acked;
		pace->at = bpf_ktime_get_ns();
		pace->state = PACE_CLAMPED;
	}
	if (!rtt || !mss)
		return;

	settle(pace, acked);

	// goodput < R: behind by more than is under way (what was sent in this round trip is not yet
	// acknowledged, and a throttled writer sends a floor at a time); until all is caught up.
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
	if (target < pace->asked.floor)
		target = pace->asked.floor;
	pace->target = target;

	// Congestion control is at work: the threshold is what it brings the window down to.
	if (seen->state >= CA_CWR)
		return;
	over = pace->clamp && seen->window > pace->clamp;
	spread(to, pace, over && !behind && !(pace->asked.flags & PACE_CLAMP_ONLY));
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
	call->optlen = -1; // Answered: the kernel's own setsockopt is not asked.
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
	// What another's programs are asked is not ours to answer, since any error overrides their success.
	// What nobody answers, the kernel refuses: ENOPROTOOPT.
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
			// The next round trip begins to move the clamp away.
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
	// The time until now is the old rate's. What the new one makes of it is for the next round trip
	// to say: data is under way, and congestion control may be at work.
	if (!flags && pace->state != PACE_STARTUP)
		settle(pace, tcp->bytes_acked);
	pace->asked = *request;
	if (flags) {
		// Start-up again: the clamp of the video before goes with the next round trip.
		if (request->queued)
			spread(socket, pace, 0);
		pace->begin = tcp->bytes_acked + request->queued;
		pace->due = 0;
		pace->carry = 0;
		pace->delivered = 0;
		pace->state = PACE_STARTUP;
	}
	if (callback(socket, 1)) {
		bpf_sk_storage_delete(&sockets, socket);
		return answer(call, EOPNOTSUPP); // Before Linux 6.12.
	}
	// Nothing is under way, so nothing is lost, and no callback comes before something is.
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
