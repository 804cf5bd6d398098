// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Limiters beside those of bpf/judge.h: FairPolicers, and shapers, which hold packets. They are those of the limiter crate,
// and src/dpdk/beside.rs calls them.
#pragma once
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include "memory.h"

// A packet on its way through such a limiter. src/dpdk/beside.rs has the same.
struct offered {
	struct rte_mbuf *packet;
	u32 limiter, plan, version;
	u32 flow;	// the hash
	u32 bytes;	// that are charged
	u8 queue;
	u8 from, direction;	// where it came in, and which direction of a subscriber's packets it was limited as
	u8 spare;
};

enum { LEFT = 512 };	// most packets that leave at once

// Offers packets to a core's limiters, which are made at the first call and may hold `most` packets. Writes the packets that
// leave now, at most `room`, and a 1 for each of the offered ones that is dropped. Returns the number of those that leave.
typedef u32 (*beside_offer)(void **limiters, u32 most, u64 now, const struct offered *offered, u32 count, struct offered *left,
			    u32 room, u8 *dropped);
// Resets a limiter, before its number is used again. Frees the packets that it holds, and returns the number of these packets.
typedef u32 (*beside_forget)(void *limiters, u32 limiter, void (*free)(struct rte_mbuf *packet));
// Gives up a core's limiters. Frees the packets that they hold.
typedef void (*beside_end)(void *limiters, void (*free)(struct rte_mbuf *packet));

static struct {
	beside_offer offer;
	beside_forget forget;
	beside_end end;
	u32 most;	// packets that a core's limiters may hold
} beside;

// The state of a limiter for counters and views, under the lock.
static __always_inline void note_queue(struct limiter *s, u32 queue, u64 length)
{
	u32 active = s->shares[0].active, bit = 1u << (SHARES + queue);
	s->queues[queue].length = length;
	s->shares[0].active = length ? active | bit : active & ~bit;
}

// Follows a packet's seat to another plan, as `change` does.
static __always_inline void follow(struct limiter *s, const struct packet *p, const struct plan *plan, u64 now)
{
	if (is_newer(s, p)) {
		if (s->shape != plan->shape)
			start(s, plan, now, 0);
		s->shape = plan->shape;
		s->control = s->saved = s->boost = 0;
		s->plan = p->seat.plan;
		s->version = p->seat.version;
	}
	s->at = now;
}

// Calls this core's limiters. What leaves is put behind what left before.
static __always_inline void call_beside(u64 now, const struct offered *offered, u32 count, u8 *dropped)
{
	self->left_count += beside.offer(&self->limiters, beside.most, now, offered, count, self->left + self->left_count,
					 LEFT - self->left_count, dropped);
}

// Offers the packets of a burst with these numbers. Writes their verdicts: EXCESS, or HELD if a limiter took the packet. In a
// `shadow` all pass, and no limiter sees them.
static inline void offer_beside(struct rte_mbuf **packets, struct packet *all, const u8 *numbers, u32 held, u8 from, bool shadow,
				int *verdicts)
{
	struct offered offered[BURST];
	u8 which[BURST], dropped[BURST] = { 0 };
	u64 now = packet_time();
	u32 taken = 0;
	for (u32 i = 0; i < held; i++) {
		struct packet *p = all + numbers[i];
		struct limiter *s = limiter_of(p);
		p->now = now;
		bpf_spin_lock(&s->lock);
		follow(s, p, memory.plans + p->plan, now);
		u32 plan = s->plan, version = s->version;
		bpf_spin_unlock(&s->lock);
		// While seats change, an earlier packet of the burst may have brought another plan, with other queues.
		if (plan != p->plan) {
			count(RACED, p->packets, p->bytes);
			verdicts[numbers[i]] = PASS;
			continue;
		}
		which[taken] = numbers[i];
		offered[taken++] = (struct offered) {
			packets[numbers[i]], p->seat.limiter, plan, version, p->flow, p->bytes, FRESH(p->queue), from, p->direction, 0,
		};
	}
	if (!shadow && taken)
		call_beside(now, offered, taken, dropped);
	for (u32 i = 0; i < taken; i++) {
		struct packet *p = all + which[i];
		struct limiter *s = limiter_of(p);
		u32 queue = offered[i].queue;
		int verdict = shadow ? PASS : dropped[i] ? EXCESS : HELD;
		bpf_spin_lock(&s->lock);
		account(s, s->queues + queue, verdict, p);	// what is held counts when it leaves
		if (verdict == HELD)
			note_queue(s, queue, s->queues[queue].length + p->bytes);
		bpf_spin_unlock(&s->lock);
		self->waits += verdict == HELD;
		p->watched |= verdict == EXCESS ? EXCEEDS : 0;
		verdicts[which[i]] = verdict;
	}
}

// Counts a packet that a limiter lets go, and fetches what counting a later one needs.
static inline void account_left(const struct offered *one)
{
	enum { AFTER = 8 };
	u32 queue = one->queue;
	struct limiter *s = limiter_at(one->limiter);
	if (one + AFTER < self->left + self->left_count) {
		struct limiter *later = limiter_at(one[AFTER].limiter);
		rte_prefetch0(later);
		rte_prefetch0(later->shares);
		rte_prefetch0(later->queues + one[AFTER].queue);
	}
	self->waits--;
	bpf_spin_lock(&s->lock);
	// Meanwhile it may be reset, or under a plan of another kind.
	if (s->version && memory.plans[s->plan & (PLANS - 1)].scheme == BESIDE) {
		u64 length = s->queues[queue].length;
		note_queue(s, queue, length > one->bytes ? length - one->bytes : 0);
		s->queues[queue].passed += one->bytes;
		s->passed_packets++;
		s->passed_bytes += one->bytes;
	}
	bpf_spin_unlock(&s->lock);
}

// Has packets leave whose time has come.
static inline void let_go(void)
{
	if (self->waits)
		call_beside(self->now, 0, 0, 0);
}
