// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The short way where all queues are children of one fair node, and the first step of a decision, which most packets end with.
#pragma once
#include "phantom.h"

// Serves the queues of a fair node until the first of them is empty.
ASIDE void run_empty(struct limiter *s)
{
	struct share *root = s->shares;
	u64 clock = root->empties, credit = root->credit - (clock - root->clock) * root->weight;
	u32 active = root->active >> SHARES, left = 0, number = 0, weight = 0;
	u64 empties = 1ULL << 62;
	for (u32 i = 0; i < QUEUES; i++) {
		u32 rest = active >> (number & 31);
		if (!rest)
			break;
		number += lowest(rest);
		BELOW(number, QUEUES);
		struct queue *queue = s->queues + number;
		u64 share = clock - queue->seen, length = queue->length, drained = least(share, length);
		credit += share - drained;
		length -= drained;
		queue->length = length;
		queue->seen = clock;
		queue->served += drained;
		u64 stays = any(length);
		left |= (u32)stays << (SHARES + number);
		weight += stays;
		empties = least(empties, length | (1 - stays) << 62);
		number++;
	}
	root->clock = clock;
	root->credit = credit;
	root->empties = clock + empties;
	root->weight = weight;
	root->active = left;
}

// What `settle` does, without nodes above and without weights. A queue that is empty and not active may keep an old length.
static __always_inline int settle_fair(struct limiter *s)
{
	struct share *root = s->shares;
	for (u32 round = 0; round < ROUNDS; round++) {
		u64 credit = root->credit, clock = root->clock;
		u32 weight = root->weight;
		if (!weight)
			return 1;
		if (!root->length) {
			root->credit = 0;
			root->weight = root->active = 0;
			return 1;
		}
		u64 step = credit >> 32 ? credit / weight : (u32)credit / weight;
		if (step < root->empties - clock) {
			root->clock = clock + step;
			root->credit = credit - step * weight;
			return 1;
		}
		run_empty(s);
	}
	return 0;
}

// Fills a queue of a fair node that has more in its burst bucket than what is left to it. Returns EXCESS if it does. Or CE if it
// soon will, and its sender `listens`: RFC 3168.
ASIDE int fill_fair(struct limiter *s, const struct plan *plan, const u32 *granted, u32 number, u32 listens)
{
	struct share *root = s->shares;
	BELOW(number, QUEUES);
	struct queue *queue = s->queues + number;
	u32 parts = root->weight ?: 1;
	u64 share = allowance(s, plan, granted, s->at) / parts, length = queue->length;
	int exceeds = burst_of(queue) > share;
	if (!exceeds && !(listens && lasts(queue, granted_of(granted, plan->upper) / LASTS / parts)))
		return PASS;
	u64 room = exceeds ? 0 : burst_room(queue, share), free = plan->size - length, added = free - least(free, room);
	queue->magic = magic_of(queue) + added;
	queue->accepted = granted_of(granted, plan->lower) / parts * 2;
	queue->length = length + added;
	root->length += added;
	s->filled |= 1ULL << number;
	return exceeds ? EXCESS : CE;
}

// Whether a packet that left this much room in a queue of a fair node is marked.
ASIDE int mark_fair(const struct limiter *s, const struct plan *plan, const u32 *granted, const struct queue *queue, u64 filled,
		    u64 room, u32 ecn)
{
	u32 parts = s->shares->weight ?: 1;
	s64 more = filled && plan->control ? exceeded(plan, queue, s->due - s->at, granted_of(granted, plan->upper) / parts) : 0;
	return mark_below(plan, room, granted_of(granted, plan->room) / parts, more, ecn);
}

// Decides about a packet to a queue of a fair node. It does what phantom_settled would do, without nodes above
// and without weights.
static __always_inline int phantom_fair(struct limiter *s, const struct plan *plan, const u32 *granted,
					u32 number, u64 bytes, u32 ecn)
{
	struct share *root = s->shares;
	struct queue *queue = s->queues + number;
	if (!settle_fair(s))
		return DECIDE;
	u64 clock = root->clock, length = 0;
	u32 weight = root->weight, bit = 1U << ((SHARES + number) & 31);
	if (root->active & bit) {
		u64 share = clock - queue->seen;
		length = queue->length;
		share = share < length ? share : length;
		length -= share;
		queue->seen = clock;
		queue->length = length;
		queue->served += share;
		if (!length)
			return DECIDE;
	}
	u64 filled = is_filled(s, number) & any(length), burst = length ? burst_of(queue) : 0;
	u32 listens = ecn && granted_of(granted, plan->room);
	int told = PASS;
	// All of it is computed for each packet, since a processor would often guess wrong.
	u64 most = granted_of(granted, plan->upper) >> (filled ? 0 : LEAST_SHIFT);
	u32 over = any(plan->control) & (burst > PACKET >> (1 - filled)) & (burst * weight > most);
	// RFC 3168: the sender may be told before.
	if (over || (listens && plan->control && !filled && burst > PACKET)) {
		if (filled)
			return EXCESS;
		told = fill_fair(s, plan, granted, number, listens);
		if (told == EXCESS)
			return EXCESS;
		filled = told == CE;
		length = queue->length;
	}
	u64 magic = least(queue->magic, length), full = length + bytes;
	if (full > plan->size)
		return EXCESS;
	if (!length) {
		queue->seen = clock;
		if (!weight || full < root->empties - clock)
			root->empties = clock + full;
		root->weight = weight + 1;
		root->active |= bit;
		queue->mark = queue->served;
		queue->accepted = 0;
		s->filled &= ~(1ULL << number);
	}
	pour(queue, burst, bytes, filled);
	queue->magic = magic;
	queue->length = full;
	root->length += bytes;
	return told || !listens ? told : mark_fair(s, plan, granted, queue, filled, plan->size - full, ecn);
}

// Decides about a packet once the time that passed is credited.
static __always_inline int phantom_credited(struct limiter *s, const struct plan *plan, const u32 *granted, struct packet *p, u64 now,
					    u32 number, u32 ecn)
{
	BELOW(number, QUEUES);
	if (now >= s->due) {
		if (s->filled)
			return PERIODS;
		look_later(s, plan, granted, p, now);
	}
	if (!plan->fair || plan->control == PAPER)
		return DECIDE;
	return phantom_fair(s, plan, granted, number, p->bytes, ecn);
}

// Decides about a packet if no settling is needed, or returns the next step.
ASIDE int phantom_offer(struct limiter *s, const struct plan *plan, const u32 *granted, struct packet *p, u64 *now, u32 number)
{
	u64 since = silent_since(s, plan), until = *now, at;
	int silent = until > since;
	at = phantom_advance(s, granted, rate_of(granted, plan->rate), plan->direct, plan->boost, silent ? since : until);
	if (silent) {
		if (s->filled)
			return PERIODS;
		look_later(s, plan, granted, p, until);
		return OFFER;
	}
	*now = at;
	return phantom_credited(s, plan, granted, p, at, number, p->ecn);
}

#ifndef __bpf__
// Whether no node leaves less than the whole rate, nothing is saved, and the packet is not marked. This is so for most packets.
static __always_inline int is_plain(const struct plan *plan, const struct packet *p)
{
	return p->share == WHOLE && !plan->boost && !(p->ecn && plan->room);
}

// The same for such packets. What is known of them spares most of the tests, and registers.
static __always_inline int phantom_plain(struct limiter *s, const struct plan *plan, struct packet *p, u64 *now, u32 number)
{
	const u32 whole = WHOLE;
	*now = phantom_advance(s, &whole, plan->rate, plan->direct, 0, *now);
	return phantom_credited(s, plan, &whole, p, *now, number, 0);
}
#endif
