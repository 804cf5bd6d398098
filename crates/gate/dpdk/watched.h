// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The flows and lines of bpf/watch.h in DPDK's memory, for its code, which is included unchanged.
//
// A flow is in the bucket that its hash gives. A bucket that is full forgets the flow that was silent for the longest
// time. As in the kernel's table, a core may write to a flow that another core replaces at that moment.
#pragma once
#include "memory.h"

enum { WAYS = 15 };	// flows of a bucket; their tags and the lock share a cache line

struct bucket {
	struct bpf_spin_lock lock;	// of cores that put a flow
	u32 tags[WAYS];	// parts of the flows' hashes; 0: none
	struct {
		struct flow_key key;
		struct flow flow;
	} slots[WAYS];
} __rte_cache_aligned;

static struct {
	struct bucket *buckets;
	u32 count;	// of buckets; 0: nothing is watched
	u64 seed;
	struct line *lines[PAGES];	// of the subscribers of a page of limiters
} watching;

static __always_inline void *watched_value(void *map, const void *key);
static __always_inline int watched_put(void *map, const void *key, const void *value, u64 flags);
#undef bpf_map_lookup_elem
#define bpf_map_lookup_elem watched_value
#define bpf_map_update_elem watched_put
#include "watch.h"
#undef bpf_map_lookup_elem
#define bpf_map_lookup_elem looked_up

_Static_assert(sizeof(struct flow_key) % 8 == 0, "the hash takes words");

// Where a flow belongs, and its tag.
static __always_inline struct bucket *bucket_of(const struct flow_key *key, u32 *tag)
{
	u64 sum = watching.seed, word;
	for (u32 at = 0; at < sizeof(*key); at += 8) {
		memcpy(&word, (const u8 *)key + at, 8);
		sum = mixed(sum ^ word);
	}
	*tag = (u32)sum | 1;
	return watching.buckets + ((sum >> 32) * watching.count >> 32);
}

static __always_inline struct flow *flow_in(struct bucket *b, u32 tag, const struct flow_key *key)
{
	for (u32 i = 0; i < WAYS; i++) {
		if (__atomic_load_n(b->tags + i, __ATOMIC_ACQUIRE) == tag && !memcmp(&b->slots[i].key, key, sizeof(*key)))
			return &b->slots[i].flow;
	}
	return 0;
}

static inline void put_flow(const struct flow_key *key)
{
	u32 tag, chosen = 0;
	struct bucket *b = bucket_of(key, &tag);
	lock_limiter(&b->lock);
	// Another core may have put it.
	if (!flow_in(b, tag, key)) {
		for (u32 i = 0; i < WAYS && b->tags[chosen]; i++) {
			if (!b->tags[i] || b->slots[i].flow.latest < b->slots[chosen].flow.latest)
				chosen = i;
		}
		__atomic_store_n(b->tags + chosen, 0, __ATOMIC_RELEASE);
		b->slots[chosen].key = *key;
		memset(&b->slots[chosen].flow, 0, sizeof(struct flow));
		__atomic_store_n(b->tags + chosen, tag, __ATOMIC_RELEASE);
	}
	unlock_limiter(&b->lock);
}

static __always_inline struct line *line_of(u32 subscriber)
{
	u32 page = subscriber >> (PAGE_BITS - 1);
	if (page >= PAGES || !watching.lines[page])
		return 0;
	return watching.lines[page] + (subscriber & (PAGE / 2 - 1));
}

// The address of a map is known when this is compiled, except that of the table of flows.
static __always_inline void *watched_value(void *map, const void *key)
{
	static struct blank zeros;
	u32 tag;
	if (map == (void *)&flow_tables)
		return watching.buckets;
	if (map == (void *)&lines)
		return line_of(*(const u32 *)key);
	if (map == (void *)&blank)
		return &zeros;
	struct bucket *b = bucket_of(key, &tag);
	return flow_in(b, tag, key);
}

// Lines are there before their subscribers have packets.
static __always_inline int watched_put(void *map, const void *key, const void *value, u64 flags)
{
	(void)value;
	(void)flags;
	if (map != (void *)&lines)
		put_flow(key);
	return 0;
}

// Makes the lines of a page of limiters.
static inline int make_lines(u32 page)
{
	if (watching.lines[page])
		return 0;
	struct line *made = rte_zmalloc("lines", PAGE / 2 * sizeof(struct line), 64);
	if (!made)
		return -ENOMEM;
	__atomic_store_n(watching.lines + page, made, __ATOMIC_RELEASE);
	return 0;
}

static inline void free_lines(void)
{
	for (u32 page = 0; page < PAGES; page++) {
		rte_free(watching.lines[page]);
		watching.lines[page] = 0;
	}
}
