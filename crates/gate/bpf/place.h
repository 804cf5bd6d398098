// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The placement of crates/limiter/src/phantom/placement.rs, which explains it.
#pragma once
#include "phantom.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

// A flow without a queue shares another one after 2^WHILE ns. A generation of those that flood is of 2^GENERATION ns.
enum { WHILE = 33, GENERATION = 28 };

// The queue of a packet's flow, or NONE: the queue that its hash gives, or else the first one of its class that
// it has. Several owners are compared at a time, without a branch that the processor could guess wrong.
static __always_inline u32 owned(const struct limiter *s, const struct packet *p)
{
	u32 found = 0, home = p->queue & 31;
#ifdef __SSE2__
	const __m128i *owners = (const __m128i *)s->owners, flow = _mm_set1_epi16((short)p->flow);
	__m128i same[3];
	for (u32 i = 0; i < 3; i++)
		same[i] = _mm_cmpeq_epi16(_mm_loadu_si128(owners + i), flow);
	found = (u32)_mm_movemask_epi8(_mm_packs_epi16(same[0], same[1]))
		| (u32)_mm_movemask_epi8(_mm_packs_epi16(same[2], _mm_setzero_si128())) << 16;
#else
	const u64 low = 0x7fff7fff7fff7fffULL;
	u64 flow = (u16)p->flow * 0x0001000100010001ULL;
	for (u32 word = 0; word < QUEUES / 4; word++) {
		u64 differs = s->owners[word] ^ flow;
		u64 same = ~(((differs & low) + low) | differs | low) >> 15;	// a bit at 0, 16, 32 and 48
		found |= (u32)(same * 0x0001000200040008ULL >> 48 & 15) << 4 * word;
	}
#endif
	found &= ((1U << (p->queues & 31)) - 1) << (p->first & 31);
	u32 other = any(found) ? lowest(found) : NONE;
	return found >> home & 1 ? home : other;
}

// Whether the flow still has the queue that was looked up ahead, see struct packet. Meanwhile another one may have got it.
static __always_inline int still_owned(const struct limiter *s, const struct packet *p, u32 ahead)
{
#ifdef __bpf__
	return 0;
#else
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "owners are read one by one");
	u32 queue = ahead - 1;
	return queue - p->first < p->queues && ((const u16 *)s->owners)[queue] == (u16)p->flow;
#endif
}

// Another hash for each while, as a fraction of a number.
static __always_inline u32 drawn(u32 hash, u64 now, u32 of)
{
	u32 drawn = (hash ^ (u32)(now >> WHILE) * 0x9e3779b9) * 0x85ebca6b;
	drawn = (drawn ^ drawn >> 15) * 0xc2b2ae35;
	return (u64)drawn * of >> 32;
}

// The first queue of the packet's host, of the class's queues: `each` for a host. If it has none, it gets a part in
// which nothing is, or shares another one's for a while.
static __always_inline u32 part_of(struct limiter *s, const struct shape *t, const struct packet *p, u64 now, u32 idle,
				   u32 each)
{
	u32 home = (u64)p->host * p->hosts >> 32, found = NONE, free = NONE, free_behind = NONE;
	for (u32 part = 0; part < SHARES - 1; part++) {
		u32 first = (p->first + part * each) & 31, all = ((1U << (each & 31)) - 1) << first;
		u32 slot = t->parent[(SHARES + first) & 31];
		if (part >= p->hosts)
			break;
		if (s->hosts[(slot - 1) & 3] == (u16)p->host && found == NONE)
			found = part;
		if ((idle & all) != all)
			continue;
		if (part >= home && free_behind == NONE)
			free_behind = part;
		if (free == NONE)
			free = part;
	}
	if (free_behind != NONE)
		free = free_behind;
	if (found != NONE)
		return p->first + found * each;
	if (free == NONE)
		return p->first + drawn(p->host, now, p->hosts) * each;
	u32 first = (p->first + free * each) & 31, slot = t->parent[(SHARES + first) & 31];
	s->hosts[(slot - 1) & 3] = p->host;
	for (u32 queue = 0; queue < QUEUES; queue++) {
		if (queue - first < each)
			s->owners[queue >> 2] &= ~(0xffffULL << (queue & 3) * 16);
	}
	return first;
}

// Begins another generation if it is time.
static __always_inline void crowd_advance(struct limiter *s, u32 active, u64 now)
{
	struct crowd *crowd = &s->crowd;
	u32 generation = now >> GENERATION, flooded = 0;
	if (generation == crowd->generation)
		return;
	u64 kept = -(u64)(generation == crowd->generation + 1);
	for (u32 queue = 0; queue < FEW; queue++) {
		u64 excess = crowd->dropped[queue] - least(s->queues[queue].accepted / 2, crowd->dropped[queue]);
		flooded |= (u32)any(excess) << queue;
		crowd->dropped[queue] = 0;
	}
	for (u32 word = 0; word < SEEN / 64; word++) {
		crowd->seen[1][word] = crowd->seen[0][word] & kept;
		crowd->seen[0][word] = 0;
	}
	crowd->flooded = flooded & active;
	crowd->generation = generation;
}

// The hash of a flow in a generation. Its halves choose two bits.
static __always_inline u32 crowd_hash(u16 flow, u32 generation)
{
	u32 hash = (flow ^ generation * 0x9e3779b9) * 0x85ebca6b;
	return (hash ^ hash >> 15) * 0xc2b2ae35;
}

static __always_inline u32 crowd_bit(u32 hash)
{
	return (u64)hash * SEEN >> 32;
}

static __always_inline u64 crowd_seen(const u64 *seen, u32 hash)
{
	u32 one = crowd_bit(hash), two = crowd_bit(hash << 16 | hash >> 16), word_one = one >> 6, word_two = two >> 6;
	BELOW(word_one, SEEN / 64);
	BELOW(word_two, SEEN / 64);
	return seen[word_one] >> (one & 63) & seen[word_two] >> (two & 63) & 1;
}

// A flow has no queue now.
static __always_inline void crowd_see(u64 *seen, u32 hash)
{
	u32 one = crowd_bit(hash), two = crowd_bit(hash << 16 | hash >> 16), word_one = one >> 6, word_two = two >> 6;
	BELOW(word_one, SEEN / 64);
	BELOW(word_two, SEEN / 64);
	seen[word_one] |= 1ULL << (one & 63);
	seen[word_two] |= 1ULL << (two & 63);
}

// A flow has this queue for its own from now on.
static __always_inline void own(struct limiter *s, u32 flow, u32 queue, u64 crowded)
{
	u64 *owners = s->owners + (queue >> 2 & 7);
	u32 at = (queue & 3) * 16;
	*owners = (*owners & ~(0xffffULL << at)) | (u64)(u16)flow << at;
	if (crowded && queue < FEW) {
		s->crowd.dropped[queue] = 0;
		s->crowd.flooded &= ~(1U << queue);
	}
}

// The first of a set of queues from a number on, or else the first of all.
static __always_inline u32 first_from(u32 set, u32 from)
{
	u32 behind = set >> (from & 31) << (from & 31);
	return lowest(behind ? behind : set);
}

// The queue for a flow without one, of this set of queues from the first on. NONE if none floods.
static __always_inline u32 crowd_place(struct limiter *s, u32 flow, u64 now, u32 set, u32 active, u32 first, u32 queues)
{
	struct crowd *crowd = &s->crowd;
	u32 lately = crowd_hash(flow, crowd->generation), before = crowd_hash(flow, crowd->generation - 1);
	u64 seen = crowd_seen(crowd->seen[0], lately) | crowd_seen(crowd->seen[1], before);
	crowd_see(crowd->seen[0], lately);
	u32 floods = crowd->flooded & set;
	if (!floods)
		return NONE;
	u32 crowded = first_from(floods, first + drawn(0, now, queues)), home = first + ((u64)flow * queues >> 32);
	u32 others = set & ~(1U << (crowded & 31)) & ((u32)seen - 1);
	// So it is for most flows of a flood: they were seen before.
	if (!others) {
		own(s, 0, crowded, 0);
		return crowded;
	}
	u64 loses = 1ULL << 62;
	for (u32 queue = 0; queue < FEW; queue++) {
		u64 some = -(u64)(active >> queue & 1), calm = (u64)(floods >> queue & 1) - 1;
		OPAQUE(some);
		OPAQUE(calm);
		u64 rank = some & (1 + (calm & (1 + least(s->queues[queue].accepted, 1ULL << 40))));
		rank = rank << 12 | ((queue - home) & 63) << 6 | queue;
		loses = least(loses, rank | (u64)(~others >> queue & 1) << 62);
	}
	u32 queue = loses & 31;
	u16 loser = s->owners[queue >> 2 & 7] >> (queue & 3) * 16;
	crowd_see(crowd->seen[0], crowd_hash(loser, crowd->generation));
	own(s, flow, queue, 1);
	return queue;
}

// Gives a queue to a flow that has none, once all queues are settled.
static __always_inline void place_flow(struct limiter *s, const struct shape *t, struct packet *p, u64 now)
{
	u32 first = p->first, queues = p->queues, home = p->queue, active = active_queues(s, t), queue = NONE;
	u32 crowded = p->crowded;
	if (crowded)
		crowd_advance(s, active, now);
	if (p->hosts > 1) {
		queues /= p->hosts;
		first = part_of(s, t, p, now, ~active, queues);
		home = first + ((u64)p->flow * queues >> 32);
	}
	u32 set = ((1U << (queues & 31)) - 1) << (first & 31), idle = ~active & set;
	if (crowded)
		queue = crowd_place(s, p->flow, now, set, active, first, queues);
	if (queue == NONE && idle) {
		queue = first_from(idle, home);
		own(s, p->flow, queue, crowded);
	}
	p->queue = queue == NONE ? first + drawn(p->flow, now, queues) : queue;
	p->known |= PLACED;
}
