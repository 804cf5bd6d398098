// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The limiter of crates/limiter/src/phantom.rs and phantom/tree.rs, which explain it. Two things differ.
// Active children are bits, not lists, since their order does not matter. And all settling goes through
// one loop, which the kernel's verifier has to follow to its end.
#pragma once
#include "marks.h"
#include "meter.h"
#include "nodes.h"
#include "numbers.h"
#include "surplus.h"

// Most rounds of settling while the lock is held. Then other packets may take it.
enum { ROUNDS = 2 };
// Bytes of a full packet.
enum { PACKET = 1500 };
// Silence is long from this many periods on after a look was due.
enum { SILENT = 4 };
// The part of a filled queue's burst bucket that shows that a sender exceeds the rate.
enum { LASTS = 4 };
// RFC 3168: congestion was experienced before.
enum { ALREADY = 3 };

// Settles a set of sharing nodes, given as bits, parents before children. A round is a step of one node's
// clock, or all that the node hands on by priority. Returns whether all nodes are settled. If not, the
// next call continues at the cursor. It ends: in each round except two per node, something runs empty.
static __always_inline int settle(struct limiter *s, const struct shape *t, u32 set, u32 *cursor)
{
	for (u32 round = 0; round < ROUNDS; round++) {
		u32 slot = FRESH(*cursor);
		if (slot >= SHARES)
			break;
		struct share *at = s->shares + slot;
		u32 next = FRESH(t->next[slot & 7]);
		if (!(set >> slot & 1)) {
			*cursor = next;
			continue;
		}
		u64 priority = -(u64)(FRESH(t->priority) >> slot & 1);	// as a mask
		u64 pulls = -(u64)(FRESH(t->weighted) >> slot & 1);
		u32 parent = t->parent[slot & 7];
		BELOW(parent, SHARES);
		struct share *above = s->shares + parent;
		// If the node is empty, the clock may have advanced by any amount.
		pulls &= -any(at->length);
		u64 share = ((above->clock - at->seen) * t->weight[slot & 7]) & pulls;
		u64 drained = least(share, at->length);
		at->seen = above->clock;
		at->length -= drained;
		u64 credit = at->credit + drained, some = at->length, clock = at->clock;
		u32 weight = at->weight;
		u64 step = credit / (weight | (1 - any(weight))), until = at->empties - clock;
		// A node that serves by priority hands on what it has. One that shares by weight and got
		// all it was owed is empty, even if the last bytes are less than a step.
		if (!(FRESH(t->priority) >> slot & 1) && (!weight || (step < until && some))) {
			at->clock = clock + step;
			at->credit = credit - step * weight;
			*cursor = next;
			continue;
		}
		some = any(FRESH(at->length)) | (priority & 1);
		until = until & -some & ~priority;
		clock += until;
		credit -= until * weight;
		u64 rest = some - 1, surplus = 0, empties = 1ULL << 62;
		u32 first = t->first[slot & 7], count = t->count[slot & 7];
		u32 active = at->active | (u32)priority, left = 0;
		weight = 0;
		for (u32 child = 0; child < PARTS; child++) {
			if (child >= count)
				break;
			u32 number = t->order[(first + child) & 31];
			BELOW(number, PARTS);
			if (!(active >> number & 1))
				continue;
			struct share *part = s->shares + number;
			u32 part_weight = t->weight[number];
			u64 length = part->length, due = (clock - part->seen) * part_weight;
			due = ((due & ~priority) | (credit & priority)) & -any(length);
			drained = least(due, length);
			credit -= drained & priority;
			surplus += (due - drained) & ~priority;
			length -= drained;
			drained += length & rest;
			length &= ~rest;
			part->length = length;
			part->seen = clock;
			part->credit += drained;
			u64 stays = any(length);
			left |= (u32)stays << number;
			weight += part_weight & -(u32)stays;
			empties = least(empties, divide_up(length, part_weight) | (1 - stays) << 62);
		}
		at->clock = clock;
		at->active = left;
		at->weight = weight;
		at->empties = clock + empties;
		at->credit = (credit + surplus) & ~rest & ~priority;
		if (!(left & ~(u32)priority))
			*cursor = next;
	}
	if (FRESH(*cursor) < SHARES)
		return 0;
	*cursor = 0;
	return 1;
}

// Brings a queue up to the clock above it, once that is settled.
static __always_inline void settle_queue(struct limiter *s, const struct shape *t, u32 part)
{
	u32 parent = t->parent[part & 31];
	BELOW(parent, SHARES);
	struct share *at = s->shares + part;
	u64 pulls = -(u64)(FRESH(t->weighted) >> (part & 31) & 1), clock = s->shares[parent].clock;
	u64 length = at->length & -(u64)(FRESH(s->shares[parent].active) >> (part & 31) & 1);
	pulls &= -any(length);	// if it is empty, the clock may have advanced by any amount
	u64 drained = least(((clock - at->seen) * t->weight[part & 31]) & pulls, length);
	at->seen = clock;
	at->length = length - drained;
	at->credit += drained;	// a queue's `served`
}

static __always_inline u64 magic_of(const struct queue *queue)
{
	return queue->magic < queue->length ? queue->magic : queue->length;
}

// The part of `total` with which a queue is served. Queues of higher priority count if `behind` is a mask of
// all bits, not if it is 0.
static __always_inline u64 share_of(struct limiter *s, const struct shape *t, u32 part, u64 total, u32 behind)
{
	for (u32 level = 0; level < SHARES; level++) {
		u32 slot = t->parent[part & 31];
		BELOW(slot, SHARES);
		struct share *above = s->shares + slot;
		// By priority: all or nothing.
		u64 priority = -(u64)(FRESH(t->priority) >> (slot & 31) & 1);
		u64 nothing = any(t->before[part & 31] & above->active & behind) & priority;
		u32 weight = (above->weight & ~(u32)priority) | (priority & 1);
		u32 alone = 1 - any(weight);
		total = (total * t->weight[part & 31] / (weight | alone)) & (nothing - 1);
		if (!slot)
			break;
		part = slot;
	}
	return total;
}

static __always_inline u64 is_filled(const struct limiter *s, u32 number)
{
	return s->filled >> (number & 63) & 1;
}

// Bytes in a queue's burst bucket.
static __always_inline u64 burst_of(const struct queue *queue)
{
	u64 burst = queue->mark - queue->served;
	return burst & ((burst >> 63) - 1);
}

// Puts accepted bytes into a queue's burst bucket, which has `burst` bytes: three quarters if it is filled.
static __always_inline void pour(struct queue *queue, u64 burst, u64 bytes, u64 filled)
{
	queue->mark = queue->served + burst + bytes - (bytes >> 2 & -filled);
	queue->accepted += bytes;
}

// Removes the magic bytes of a queue.
static __always_inline void remove_magic(struct limiter *s, const struct shape *t, struct queue *queue, u32 part)
{
	u64 gone = magic_of(queue), left = queue->length - gone;
	queue->magic = 0;
	queue->length = left;
	s->filled &= ~(1ULL << ((part - SHARES) & 63));
	for (u32 level = 0; level < SHARES; level++) {
		u32 slot = t->parent[part & 31];
		BELOW(slot, SHARES);
		struct share *above = s->shares + slot;
		u32 priority = FRESH(t->priority) >> (slot & 31) & 1;
		// A node that shares by weight updates its active children when it is settled.
		above->active &= ~(((u32)(1 - any(left)) & priority) << (part & 31));
		above->empties = above->clock;
		left = above->length;
		gone = least(gone, left);
		left -= gone;
		above->length = left;
		if (!slot)
			break;
		part = slot;
	}
}

// Ends a period of the paper's, and removes the magic bytes of a queue that accepted less than its share of
// `lower`.
static __always_inline void end_period(struct limiter *s, const struct plan *plan, const u32 *granted,
				       const struct shape *t, struct queue *queue, u32 part, u64 now)
{
	u64 periods = (now - queue->began) / plan->period;
	u64 accepted = queue->accepted & -(1 - any(periods - 1));
	queue->began += periods * plan->period;
	queue->accepted = 0;
	u64 share = share_of(s, t, part, granted_of(granted, plan->lower), ~0U), behind = -(u64)(FRESH(t->behind) >> (part & 31) & 1);
	share = (share & ~behind) | (any(share) & behind);
	if (accepted < share)
		remove_magic(s, t, queue, part);
}

// Removes the magic bytes of a queue that accepted less than its share of `lower` lately. The others get
// back what it made no use of.
static __always_inline void look_back(struct limiter *s, const struct plan *plan, const u32 *granted,
				      const struct shape *t, struct queue *queue, u32 part, u64 now)
{
	u64 due = s->due, missed = due ? (now - due) / plan->period : 0;
	u64 accepted = queue->accepted >> least(missed, 63);
	queue->accepted = accepted >> 1;
	u64 few = share_of(s, t, part, granted_of(granted, plan->lower), ~0U), fewer = few >> 3;
	few = few > PACKET ? few - PACKET : 0;
	if (accepted >= few && accepted >= fewer)
		return;
	u64 refund = least(plan->size - queue->length, share_of(s, t, part, granted_of(granted, plan->upper), ~0U));
	remove_magic(s, t, queue, part);
	refund = least(refund, s->shares->length);
	s->shares->length -= refund;
	s->shares->credit += refund;
}

// Adds bytes to a queue that is settled.
static __always_inline void add(struct limiter *s, const struct shape *t, u32 part, u64 bytes)
{
	struct share *below = s->shares + part;
	u64 idle = 1 - any(below->length);
	below->length += bytes;
	for (u32 level = 0; level < SHARES; level++) {
		u32 slot = t->parent[part & 31];
		BELOW(slot, SHARES);
		struct share *above = s->shares + slot;
		u32 priority = FRESH(t->priority) >> (slot & 31) & 1;
		if (idle) {
			// The child may still be active, if the node was not settled since.
			u32 is_new = ~above->active >> (part & 31) & 1;
			u32 weight = t->weight[part & 31];
			u64 empties = divide_up(below->length, weight);
			below->seen = above->clock;
			if (!above->weight || empties < above->empties - above->clock)
				above->empties = above->clock + empties;
			above->weight += weight * is_new & (priority - 1);
			above->active |= 1U << (part & 31);
		}
		idle = 1 - any(above->length);
		above->length += bytes;
		if (!slot)
			break;
		part = slot;
		below = above;
	}
}

// Leaves this much room to a queue. This many bytes count as accepted lately.
static __always_inline void fill(struct limiter *s, const struct plan *plan, const struct shape *t, u32 number,
				 u64 room, u64 accepted)
{
	BELOW(number, QUEUES);
	struct queue *queue = s->queues + number;
	u64 free = plan->size - queue->length, bytes = free - least(free, room);
	queue->magic = magic_of(queue) + bytes;
	queue->accepted = accepted;
	s->filled |= 1ULL << number;
	add(s, t, SHARES + number, bytes);
}

// Whether a queue that is not filled has more than `share` in its burst bucket and was served as much without a
// pause.
static __always_inline int lasts(const struct queue *queue, u64 share)
{
	u64 burst = burst_of(queue);
	return burst > PACKET && burst > share && queue->accepted > burst + share;
}

// What may still pass until a queue that is not filled has more than its share of the allowance in its burst
// bucket.
static __always_inline u64 burst_room(const struct queue *queue, u64 share)
{
	return (share - least(burst_of(queue), share)) / 3;
}

static __always_inline u64 is_over(const struct plan *plan, const struct queue *queue, u64 now)
{
	return queue->length && now - queue->began >= plan->period;
}

// The queues that may hold bytes, as bits from 0 on. Looking at the others would cost a cache line each.
static __always_inline u32 active_queues(const struct limiter *s, const struct shape *t)
{
	u32 parts = s->shares[0].active;
	if (FRESH(t->next[0]) != NONE) {
		for (u32 slot = 1; slot < SHARES; slot++)
			parts |= s->shares[slot].active;
	}
	return parts >> SHARES;
}

// The time after which silence is long. The magic bytes of flows that ended are taken out as of then, where subscribers
// save what is left of their rate.
static __always_inline u64 silent_since(const struct limiter *s, const struct plan *plan)
{
	u64 due = s->due, since = due + SILENT * plan->period;
	return plan->boost && plan->control == BUCKET && due && since > due ? since : ENDLESS;
}

ASIDE void look_later(struct limiter *s, const struct plan *plan, const u32 *granted, struct packet *p, u64 now)
{
	if (p->node)
		p->used = used_since(s, plan, now);
	u64 next = now + plan->period, left = s->due ? surplus(s, plan, granted, now) : 0;
	s->base = s->passed_bytes - least(left, granted_of(granted, plan->upper));
	s->due = next < now ? ENDLESS : next;
}

// The look at all queues that is under way: when it was due, and the number of queues that it has looked at.
static __always_inline u64 *look_of(struct limiter *s) { return s->shares[SHARES - 1].unused; }

// Ends all periods that are over, also of queues without further packets, a few at a time. A packet goes on where another one
// has come to in this look.
static __always_inline int phantom_periods(struct limiter *s, const struct plan *plan, const u32 *granted,
					   const struct shape *t, struct packet *p, u64 now)
{
	u64 *look = look_of(s);
	u32 number = look[0] == s->due ? look[1] : 0;
	if (!number && !settle(s, t, ~0U, &p->cursor))
		return PERIODS;
	p->cursor = 0;
	u32 active = active_queues(s, t);
	for (u32 i = 0; i < 6; i++) {
		u32 rest = active >> (number & 31);
		number = rest ? number + lowest(rest) : QUEUES;
		OPAQUE(number);
		if (number >= QUEUES)
			break;
		struct queue *queue = s->queues + number;
		settle_queue(s, t, SHARES + number);
		s->filled &= ~((1 - any(queue->length)) << number);
		if (plan->control == BUCKET) {
			if (is_filled(s, number))
				look_back(s, plan, granted, t, queue, SHARES + number, now);
		} else if (is_over(plan, queue, now)) {
			end_period(s, plan, granted, t, queue, SHARES + number, now);
		}
		number++;
	}
	look[0] = s->due;
	look[1] = number;
	if (number < QUEUES)
		return PERIODS;
	s->filled &= active;
	look_later(s, plan, granted, p, now);
	// After a silence, time is still to be credited.
	return s->at < now ? OFFER : DECIDE;
}

// Decides about a packet after settling all nodes that it depends on.
static __always_inline int phantom_settled(struct limiter *s, const struct plan *plan, const u32 *granted,
					   const struct shape *t, u64 now, u32 number, u64 bytes, u32 ecn, u32 *cursor)
{
	if (!settle(s, t, t->path[(SHARES + number) & 31], cursor))
		return DECIDE;
	BELOW(number, QUEUES);
	u32 part = SHARES + number;
	struct queue *queue = s->queues + number;
	settle_queue(s, t, part);
	u32 control = plan->control;
	if (control == PAPER && is_over(plan, queue, now)) {
		end_period(s, plan, granted, t, queue, part, now);
		return DECIDE;
	}
	u64 length = queue->length;
	s->filled &= ~((1 - any(length)) << number);
	u64 filled = is_filled(s, number);
	int told = 0;
	if (control == BUCKET && length) {
		u64 burst = burst_of(queue), share = burst;
		if (burst > PACKET >> (1 - filled))
			share = share_of(s, t, part, filled ? granted_of(granted, plan->upper) : allowance(s, plan, granted, now), 0);
		int exceeds = burst > share;
		if (!filled && !exceeds && granted_of(granted, plan->room) && ecn)
			told = lasts(queue, share_of(s, t, part, granted_of(granted, plan->upper) / LASTS, 0));
		if (!filled && (exceeds || told)) {
			u64 room = exceeds ? 0 : burst_room(queue, share);
			fill(s, plan, t, number, room, 2 * share_of(s, t, part, granted_of(granted, plan->lower), ~0U));
			length = queue->length;
			filled = 1;
		}
		if (exceeds)
			return EXCESS;
	}
	if (length + bytes > plan->size)
		return EXCESS;
	queue->magic = magic_of(queue);
	if (control == PAPER) {
		if (!length) {
			queue->accepted = 0;
			queue->began = now;
		}
		queue->accepted += bytes;
	} else {
		if (!length) {
			queue->mark = queue->served;
			queue->accepted = 0;
		}
		pour(queue, burst_of(queue), bytes, filled);
	}
	add(s, t, part, bytes);
	if (told)
		return CE;
	if (granted_of(granted, plan->room) && ecn) {
		s64 more = 0;
		if (filled && control == BUCKET && !(FRESH(t->behind) >> (part & 31) & 1))
			more = exceeded(plan, queue, s->due - now, share_of(s, t, part, granted_of(granted, plan->upper), 0));
		u64 level = share_of(s, t, part, granted_of(granted, plan->room), 0);
		return mark_below(plan, plan->size - length - bytes, level, more, ecn);
	}
	if (control == PAPER) {
		u64 accepted = queue->accepted, share = share_of(s, t, part, granted_of(granted, plan->upper), ~0U);
		// A queue behind a busy one of higher priority is filled only once.
		if (accepted > share && (share || !queue->magic))
			fill(s, plan, t, number, 0, accepted);
	}
	return PASS;
}

// Serves the queues with what the subscriber saved, and saves what it leaves unused. Nodes that are full give no boost.
// Returns the bytes that the queues get.
ASIDE u64 boosted(struct limiter *s, const u32 *granted, u64 boost, u64 unused, u64 drained, u64 length)
{
	u64 is_whole = FRESH(*granted) >> SHARE_BITS, served = least(s->saved & -is_whole, length - drained);
	s->saved = least(s->saved - served + unused, boost);
	// What passes thanks to it is no surplus. Magic bytes may be among it.
	s->base += least(served, s->passed_bytes - s->base);
	return drained + served;
}

// Credits the bytes of the time that passed. Returns the time, which never goes back.
static __always_inline u64 phantom_advance(struct limiter *s, const u32 *granted, u64 rate, u64 direct, u64 boost, u64 now)
{
	struct share *root = s->shares;
	u64 bytes = meter_advance(s, rate, direct, now), drained = least(bytes, root->length);
	if (boost)
		drained = boosted(s, granted, boost, bytes - drained, drained, root->length);
	root->length -= drained;
	root->credit += drained;
	if (!root->length)
		s->remainder = 0;
	return s->at;
}
