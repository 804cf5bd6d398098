// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Hash tables in DPDK's memory. A key and its value share a cache line. Only one thread writes, while no core
// reads.
#pragma once
#include <stdbool.h>
#include <string.h>
#include <rte_malloc.h>
#include "types.h"

struct table {
	u8 *slots;
	u32 mask;	// number of slots, a power of two, less one; at most half of them are used
	u32 count, room;
	const char *name;
	u32 key, value;	// bytes
	u64 seed;
};

// A slot begins with a word that is 1 if it is used. Its key follows, at least 8 bytes, and its value.
static __always_inline u32 value_at(u32 key) { return 8 + (key < 8 ? 8 : key); }
static __always_inline u32 stride_of(u32 key) { return key > 4 ? 64 : 32; }

static __always_inline u64 mixed(u64 sum)
{
	sum = (sum ^ sum >> 33) * 0xff51afd7ed558ccdULL;
	return sum ^ sum >> 33;
}

// Keys are of 4 bytes, or of a multiple of 8.
static __always_inline u32 home_of(const struct table *t, const void *key, u32 bytes)
{
	u64 sum = t->seed, word;
	if (bytes == 4) {
		u32 half;
		memcpy(&half, key, 4);
		sum = mixed(sum ^ half);
	} else {
		for (u32 at = 0; at < bytes; at += 8) {
			memcpy(&word, (const u8 *)key + at, 8);
			sum = mixed(sum ^ word);
		}
	}
	return sum & t->mask;
}

static __always_inline u8 *slot_of(const struct table *t, u32 number, u32 bytes)
{
	return t->slots + (size_t)number * stride_of(bytes);
}

// The slot of a key, or the free one where it would be.
static __always_inline u8 *table_find(const struct table *t, const void *key, u32 bytes, bool *found)
{
	u32 number = home_of(t, key, bytes);
	for (;; number = (number + 1) & t->mask) {
		u8 *slot = slot_of(t, number, bytes);
		if (!*slot) {
			*found = false;
			return slot;
		}
		if (!memcmp(slot + 8, key, bytes)) {
			*found = true;
			return slot;
		}
	}
}

static __always_inline void *table_value(const struct table *t, const void *key, u32 bytes)
{
	bool found;
	if (!t->count)
		return 0;
	u8 *slot = table_find(t, key, bytes, &found);
	return found ? slot + value_at(bytes) : 0;
}

static inline u8 *table_slots(const struct table *t, u32 slots)
{
	return rte_zmalloc(t->name, (size_t)slots * stride_of(t->key), 64);
}

static inline int table_create(struct table *t, u64 seed)
{
	t->seed = seed;
	t->mask = 255;
	t->slots = table_slots(t, 256);
	return t->slots ? 0 : -1;
}

// The slots of a larger table with the same content, or 0 if none is needed. `mask` is set to its mask. Cores may
// read meanwhile.
static inline u8 *table_grown(const struct table *t, u32 more, u32 *mask, bool *failed)
{
	u64 needed = 2 * ((u64)t->count + more), slots = t->mask + 1ULL;
	*failed = false;
	if (needed <= slots)
		return 0;
	while (slots < needed)
		slots *= 2;
	struct table next = *t;
	next.mask = slots - 1;
	next.slots = table_slots(t, slots);
	if (!next.slots) {
		*failed = true;
		return 0;
	}
	for (u32 number = 0; number <= t->mask; number++) {
		const u8 *from = slot_of(t, number, t->key);
		bool found;
		if (*from)
			memcpy(table_find(&next, from + 8, t->key, &found), from, stride_of(t->key));
	}
	*mask = next.mask;
	return next.slots;
}

static inline void table_put(struct table *t, const void *key, const void *value)
{
	bool found;
	u8 *slot = table_find(t, key, t->key, &found);
	memcpy(slot + 8, key, t->key);
	memcpy(slot + value_at(t->key), value, t->value);
	*slot = 1;
	t->count += !found;
}

// Entries behind the removed one move up, if it was in their way.
static inline bool table_remove(struct table *t, const void *key)
{
	bool found;
	u8 *slot = table_find(t, key, t->key, &found);
	if (!found)
		return false;
	u32 hole = (slot - t->slots) / stride_of(t->key);
	for (u32 number = hole;;) {
		number = (number + 1) & t->mask;
		u8 *next = slot_of(t, number, t->key);
		if (!*next)
			break;
		u32 home = home_of(t, next + 8, t->key);
		if (((number - home) & t->mask) >= ((number - hole) & t->mask)) {
			memcpy(slot_of(t, hole, t->key), next, stride_of(t->key));
			hole = number;
		}
	}
	memset(slot_of(t, hole, t->key), 0, stride_of(t->key));
	t->count--;
	return true;
}
