// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Capacities that subscribers share. It is the hierarchy of crates/limiter/src/hierarchy.rs, which explains it.
#pragma once
#include "maps.h"
#include "meter.h"

enum {
	LOOK = 50000000,	// ns between two looks at a node
	MOST_DEBT = 4,	// in parts of a second
	REPAID = 8,	// the part of a debt that is taken off the next interval
	GROWTH = 8,	// a share grows by this part at most
	TOLD = 3,	// after so many looks in a row, every limiter has told what it uses
	NEAR = 3,	// a way of at most this many sixteenths of the share is short
	GENTLE = 8,	// the part of a short way that is gone at a look
	MICROSECONDS = 1000000,
	MOST_LOAD_BITS = 43,
};

// Compares what passed below a node with its capacity, and moves the share. Of all packets that find it due, one does.
RARE int look(u32 number, u64 now)
{
	struct node *node = bpf_map_lookup_elem(&nodes, &number);
	if (!node)
		return 0;
	bpf_spin_lock(&node->lock);
	if (now >= node->due) {
		u64 is_first = !node->due, elapsed = now - node->at, passed = node->passed, load = passed - node->before;
		u64 rate = node->rate >> 3, share = node->share;
		node->at = now;
		node->due = now + LOOK < now ? ENDLESS : now + LOOK;
		node->before = passed;
		if (is_first) {
			share = WHOLE;
		} else {
			elapsed = elapsed < SECOND ? elapsed : SECOND;
			u64 capacity = rate * (elapsed / 1000) / MICROSECONDS, most_load = 1ULL << MOST_LOAD_BITS;
			load = load < most_load ? load : most_load;
			node->load = load * 8000 / (elapsed / 1000) * 1000;
			u64 debt = node->debt + load;
			debt = debt > capacity ? debt - capacity : 0;
			debt = debt < rate / MOST_DEBT ? debt : rate / MOST_DEBT;
			u64 repaid = debt / REPAID, target = capacity - (repaid < capacity / 4 ? repaid : capacity / 4);
			u32 over = load > capacity ? node->over + 1 : 0, used = node->most;
			if (over >= TOLD && used && used < share)
				share = used;
			if (!over || over >= TOLD)
				over = node->most = 0;
			u64 wanted = share * target / (load ? load : 1), most = share + share / GROWTH + 1;
			u64 gap = wanted > share ? wanted - share : share - wanted, near = share * NEAR / 16;
			u64 step = ((gap < near ? gap : near) + GENTLE - 1) / GENTLE + (gap > near ? gap - near : 0) / 2;
			wanted = wanted > share ? share + step : share - step;
			most = most < WHOLE ? most : WHOLE;
			share = wanted < 1 ? 1 : wanted < most ? wanted : most;
			node->debt = debt;
			node->over = over;
		}
		node->share = share;
	}
	bpf_spin_unlock(&node->lock);
	return 0;
}

// The share of their rate that limiters below a node may use now: the least of the nodes above.
ASIDE u32 share_below(u32 number, u64 now)
{
	u32 share = WHOLE;
	for (u32 level = 0; level < LEVELS; level++) {
		struct node *node = number ? bpf_map_lookup_elem(&nodes, &number) : 0;
		if (!node)
			break;
		u32 above = node->above;
		if (now >= *(volatile u64 *)&node->due)
			look(number, now);
		u32 here = *(volatile u32 *)&node->share;
		share = here < share ? here : share;
		number = above;
	}
	return share;
}

// What the nodes above a packet's limiter leave to it.
static __always_inline void find_share(struct packet *p, const struct plan *plan, u64 now)
{
	u32 node = plan->node;
	p->node = node;
	p->grain = plan->grain;
	p->share = node ? share_below(node, now) : WHOLE;
}

// Counts at the nodes above a limiter what it let pass.
ASIDE void count_below(u32 number, u64 bytes)
{
	for (u32 level = 0; level < LEVELS; level++) {
		struct node *node = number ? bpf_map_lookup_elem(&nodes, &number) : 0;
		if (!node)
			break;
		__sync_fetch_and_add(&node->passed, bytes);
		number = node->above;
	}
}

// The part of the whole rate that was used since the latest look, or more: 0 if there was none.
static __always_inline u32 used_since(const struct limiter *s, const struct plan *plan, u64 now)
{
	// What passes thanks to saved bytes is not in the books.
	if (plan->control != BUCKET || plan->boost || !s->due)
		return 0;
	u64 most = plan->upper * least(now + plan->period - s->due, SECOND) / (2 * plan->period);
	u64 passed = least(s->passed_bytes - s->base, 1ULL << MOST_LOAD_BITS) << SHARE_BITS;
	return least(passed / (most | !most), WHOLE);
}

// Tells the nodes above a limiter which part of its rate it used. If two do so at the same moment, the larger part may be
// lost until the next look of that limiter.
ASIDE void tell_below(u32 number, u32 used)
{
	for (u32 level = 0; level < LEVELS; level++) {
		struct node *node = number ? bpf_map_lookup_elem(&nodes, &number) : 0;
		if (!node)
			break;
		if (*(volatile u32 *)&node->most < used)
			node->most = used;
		number = node->above;
	}
}

// What a limiter counts at its nodes when these bytes pass: it writes to the memory that all cores share only from time
// to time. Limiters do so at different moments.
static __always_inline u64 counted(const struct packet *p, u64 before)
{
	u32 grain = p->grain & 63;
	before += p->seat.limiter * 0x9e3779b1ULL;
	return (((before + p->bytes) >> grain) - (before >> grain)) << grain;
}
