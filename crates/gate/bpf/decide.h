// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The decision about a packet of a subscriber.
#pragma once
#include "maps.h"
#include "bucket.h"
#include "fair.h"
#include "nodes.h"
#include "place.h"
#include "rules.h"

enum { STEPS = 64 };	// most steps of a decision

// Empties all queues, for another policy or for the first packet of a limiter. If the queues stay the
// `same`, their counters stay as well.
static __always_inline void start(struct limiter *s, const struct plan *plan, u64 now, int same)
{
	volatile u64 *words = (u64 *)s->shares;	// otherwise the loop becomes a call of memset
	for (u32 i = 0; i < SHARES * sizeof(struct share) / 8; i++)
		words[i] = 0;
	for (u32 i = 0; i < QUEUES; i++) {
		volatile struct queue *queue = s->queues + i;
		u64 kept = -(u64)(same && i < plan->all);
		queue->length = 0;
		queue->seen = 0;
		queue->magic = 0;
		queue->accepted = 0;
		queue->served = 0;
		queue->mark = 0;
		queue->passed &= kept;
		queue->excess &= kept;
	}
	s->at = now;
	s->remainder = 0;
	s->tokens = plan->scheme == POLICER ? plan->size : 0;
}

// Puts a limiter under another plan. Queues that shrink begin empty. Otherwise a queue with more than
// its new size would drop all packets until the difference is drained, for minutes after a step from a
// fast plan to a slow one. An empty queue lets through at most its size at once.
static __always_inline void switch_plan(struct limiter *s, const struct plan *plan, const struct seat *seat, const u32 *granted,
					u64 now)
{
	// All is saved before the first packet.
	u64 saved = s->shape ? s->saved : plan->boost;
	if (s->shape != plan->shape) {
		start(s, plan, now, 0);
	} else if (plan->scheme == PHANTOM && plan->size < s->size) {
		start(s, plan, now, 1);
	} else {
		u64 old = s->rate ? rate_of(granted, s->rate) : 0, direct = old ? (ENDLESS - BYTE) / old : ENDLESS;
		if (plan->scheme == POLICER) {
			bucket_refill(s, old, direct, s->size, now);
			s->tokens = least(s->tokens, plan->size);
		} else {
			phantom_advance(s, granted, old, direct, s->boost, now);
			saved = s->saved;
			// The old plan had no periods: count from time 0, as Queue::set_period of the limiter
			// does. Or the new one has none: burst buckets begin empty.
			if ((s->control == PAPER) != (plan->control == PAPER)) {
				u64 kept = -(u64)(s->control == PAPER);
				for (u32 i = 0; i < QUEUES; i++) {
					if (i >= plan->all)
						break;
					volatile struct queue *queue = s->queues + i;
					queue->mark = queue->served & kept;
					queue->accepted &= kept;
				}
			}
		}
	}
	s->due = plan->control ? 0 : ENDLESS;
	look_of(s)[1] = 0;
	s->rate = plan->rate;
	s->size = plan->size;
	s->control = plan->control;
	s->saved = least(saved, plan->boost);
	s->boost = plan->boost;
	s->shape = plan->shape;
	s->plan = seat->plan;
	s->version = seat->version;
}

static __always_inline struct limiter *limiter_of(const struct packet *p)
{
	u32 page_number = p->seat.limiter >> PAGE_BITS, place = p->seat.limiter & (PAGE - 1);
	void *page = bpf_map_lookup_elem(&pages, &page_number);
	return page ? bpf_map_lookup_elem(page, &place) : 0;
}

static __always_inline int is_newer(const struct limiter *s, const struct packet *p)
{
	return !s->shape || (s32)(p->seat.version - s->version) > 0;
}

static __always_inline void account(struct limiter *s, struct queue *queue, int verdict, struct packet *p)
{
	u32 bytes = p->bytes, packets = p->packets;
	if (verdict == PASS || verdict == CE) {
		if (p->node)
			p->counted = counted(p, s->passed_bytes);
		// It cannot say which part of its rate it uses.
		if (p->node && p->counted && (s->control != BUCKET || s->boost) && s->rate)
			p->used = WHOLE;
		s->passed_packets += packets;
		s->passed_bytes += bytes;
		queue->passed += bytes;
		if (verdict == CE && p->ecn != ALREADY)
			s->marked_packets += packets;
	} else if (verdict == EXCESS) {
		if (p->node && p->excess != EXCESS)
			p->counted = counted(p, s->excess_bytes);
		s->excess_packets += packets;
		s->excess_bytes += bytes;
		queue->excess += bytes;
		u32 number = FRESH(p->queue);
		if (p->crowded && number < FEW) {
			u32 dropped = s->crowd.dropped[number] + bytes;
			s->crowd.dropped[number] = dropped < bytes ? ~0U : dropped;
		}
	}
}

// The queues that a packet's class has, and of how many hosts.
struct class {
	u8 first, queues, hosts;
};

// The class that a plan's rules choose, or the default one.
ASIDE struct class ruled(const struct plan *plan, const struct packet *p, struct class class)
{
	u32 place = place_of(plan->rules);
	struct rules *rules = bpf_map_lookup_elem(&rule_sets, &place);
	for (u32 i = 0; rules && i < RULES; i++) {
		if (i >= rules->count)
			break;
		const struct rule *rule = &rules->rule[i];
		if (fits(rule, p))
			return (struct class) { rule->first, rule->queues, rule->hosts };
	}
	return class;
}

// The parts of a decision. Each takes the lock and is verified separately. Between two parts, decisions
// about other packets may be made, as if these had come earlier.

// Finds the queue of a packet and decides, unless another step must come first.
PART int offer(struct packet *p)
{
	u32 zero = 0;
	if (!p)
		return PASS;
	u32 *which = bpf_map_lookup_elem(&current, &zero);
	if (!which)
		return PASS;
	u32 index = *which & 1;
	struct settings *set = bpf_map_lookup_elem(&settings, &index);
	if (!set)
		return PASS;
	struct limiter *s = limiter_of(p);
	if (!s) {
		count(NO_LIMITER, p->packets, p->bytes);
		return PASS;
	}
	int newer = is_newer(s, p);
	u32 number = newer ? p->seat.plan : *(volatile u32 *)&s->plan;
	struct plan *plan = bpf_map_lookup_elem(&plans, &number);
	if (!plan || !plan->shape) {
		count(NO_PLAN, p->packets, p->bytes);
		return PASS;
	}
	u32 ahead = p->known & CLASSED ? p->ahead : 0;
	p->plan = number;
	p->cursor = 0;
	p->crowded = plan->control == BUCKET && plan->all <= FEW;
	p->excess = plan->mark < COUNTED ? MARKED + plan->mark : plan->mark == COUNTED ? PASS : EXCESS;
	struct class class = { plan->first, plan->queues, plan->hosts };
	if (plan->rules)
		class = ruled(plan, p, class);
	u32 first = class.first, queues = class.queues;
	p->hosts = class.hosts;
	// After the flow was placed, another plan may have come.
	int same = first == p->first && queues == p->queues, placed = same && p->known & PLACED;
	if (!same || !(p->known & (PLACED | CLASSED)))
		set_class(p, queues > 1 ? flow_now(p, set->hash) : 0, first, queues);
	p->known &= ~CLASSED;
	u32 scheme = plan->scheme;
#ifndef __bpf__
	if (scheme == BESIDE) {
		flow_now(p, set->hash);
		p->node = 0;
		return HELD;
	}
#endif
	u64 now = packet_time();
	find_share(p, plan, now);
	// The owners of queues are read without the lock: at worst the queue has another owner since.
	if (still_owned(s, p, ahead)) {
		p->queue = ahead - 1;
	} else if (plan->control == BUCKET && queues > 1 && !placed && !newer) {
		u32 found = owned(s, p);
		p->now = now;
		if (found == NONE) {
			p->host = p->hosts > 1 ? host_hash(p, set->hash) : 0;
			return PLACE;
		}
		p->queue = found;
	}
	u32 queue = FRESH(p->queue);
	BELOW(queue, QUEUES);
	int verdict = PASS;
	bpf_spin_lock(&s->lock);
	newer = is_newer(s, p);
	if (number != (newer ? p->seat.plan : s->plan))
		verdict = OFFER;
	else if (newer)
		verdict = CHANGE;
#ifndef __bpf__
	else if (scheme == PHANTOM && is_plain(plan, p))
		verdict = phantom_plain(s, plan, p, &now, queue);
#endif
	else if (scheme == PHANTOM)
		verdict = phantom_offer(s, plan, &p->share, p, &now, queue);
	else if (scheme == POLICER)
		verdict = bucket_offer(s, plan, rate_of(&p->share, plan->rate), now, p->bytes);
	account(s, s->queues + queue, verdict, p);
	bpf_spin_unlock(&s->lock);
	p->now = now;
	return verdict;
}

// Puts a limiter under the plan of the packet's seat.
RARE int change(struct packet *p)
{
	if (!p)
		return PASS;
	struct limiter *s = limiter_of(p);
	u32 number = p->seat.plan;
	struct plan *plan = bpf_map_lookup_elem(&plans, &number);
	if (!s || !plan)
		return PASS;
	u64 now = p->now;
	bpf_spin_lock(&s->lock);
	if (is_newer(s, p))
		switch_plan(s, plan, &p->seat, &p->share, now);
	bpf_spin_unlock(&s->lock);
	return OFFER;
}

static __always_inline int settled(struct packet *p, enum verdict step)
{
	if (!p)
		return PASS;
	struct limiter *s = limiter_of(p);
	u32 number = p->plan;
	struct plan *plan = bpf_map_lookup_elem(&plans, &number);
	if (!s || !plan)
		return PASS;
	u32 place = place_of(plan->shape);
	struct shape *shape = bpf_map_lookup_elem(&shapes, &place);
	if (!shape) {
		count(NO_PLAN, p->packets, p->bytes);
		return PASS;
	}
	u64 now = p->now;
	u32 queue = p->queue;
	BELOW(queue, QUEUES);
	int verdict;
	bpf_spin_lock(&s->lock);
	if (s->plan != number) {
		verdict = OFFER;
	} else {
		// A decision about a later packet may have been made already.
		if (now < s->at)
			now = s->at;
		if (step == PLACE) {
			u64 since = silent_since(s, plan);
			int silent = now > since;
			now = phantom_advance(s, &p->share, rate_of(&p->share, plan->rate), plan->direct, plan->boost,
					      silent ? since : now);
			verdict = silent ? PERIODS : PLACE;
			if (!silent && settle(s, shape, ~0U, &p->cursor)) {
				place_flow(s, shape, p, now);
				verdict = OFFER;
			}
		} else if (step == PERIODS) {
			// Several packets may find a look due. One of them ends it.
			verdict = now < s->due ? OFFER : phantom_periods(s, plan, &p->share, shape, p, now);
		} else
			verdict = phantom_settled(s, plan, &p->share, shape, now, queue, p->bytes, p->ecn, &p->cursor);
	}
	if (step == DECIDE)
		account(s, s->queues + queue, verdict, p);
	bpf_spin_unlock(&s->lock);
	return verdict;
}

RARE int placement(struct packet *p)
{
	return settled(p, PLACE);
}

RARE int periods(struct packet *p)
{
	return settled(p, PERIODS);
}

RARE int decision(struct packet *p)
{
	return settled(p, DECIDE);
}

RARE int take(struct packet *p, int step)
{
	if (step == OFFER)
		return offer(p);
	if (step == CHANGE)
		return change(p);
	if (step == PLACE)
		return placement(p);
	if (step == PERIODS)
		return periods(p);
	return decision(p);
}
