// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The maps of bpf/maps.h in DPDK's memory, for the code in bpf/judge.h, which is included unchanged.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include "types.h"
#include "table.h"

enum {
	CORES = 64,	// most cores that packets are decided on
	BURST = 32,	// packets that are decided about together
};

// What a core has for itself.
struct core {
	u64 now;	// ns, of the present burst
	struct tally tallies[REASONS];
	u64 unsent;	// packets that a port had no room for
	u64 unhanded;	// and that another core had none for
	u64 bursts;	// that it has done
	u32 is_running, ends;
	u32 paused;	// the number of the pause that it waits in, or of an earlier one
	struct rte_ring *handed;	// packets that other cores took in, whose limiters this core has
	void *limiters;	// those of beside.h
	u64 waits;	// packets that they hold
	u32 left_count;
	struct offered *left;	// packets that they let go, to be sent
} __rte_cache_aligned;

struct sender_state {
	u64 words[2];
};

static struct {
	struct settings settings[2];
	u32 current;
	struct table seats4, seats6, seats_link, bindings, ports;
	struct sender_state *senders;
	struct plan *plans;
	struct node *nodes;
	struct shape *shapes;
	struct rules *rule_sets;
	struct limiter *pages[PAGES];
	u8 *owners[PAGES];	// of each limiter: the core that has it, plus one
	u64 test_time;
	u32 locks;	// whether several cores may meet at a limiter
	u32 pause;	// the number of the pause that all cores are asked for; 0: none
} memory;

static struct core cores[CORES];
static __thread struct core *self;

static __always_inline void *looked_up(void *map, const void *key);
#define bpf_map_lookup_elem looked_up
#define bpf_ktime_get_ns() (self->now)
#define bpf_spin_lock(lock) lock_limiter(lock)
#define bpf_spin_unlock(lock) unlock_limiter(lock)

static __always_inline void lock_limiter(struct bpf_spin_lock *lock)
{
	if (__builtin_expect(!memory.locks, 1))
		return;
	while (__atomic_exchange_n(&lock->val, 1, __ATOMIC_ACQUIRE))
		rte_pause();
}

static __always_inline void unlock_limiter(struct bpf_spin_lock *lock)
{
	if (__builtin_expect(memory.locks, 0))
		__atomic_store_n(&lock->val, 0, __ATOMIC_RELEASE);
}

#include "judge.h"

// The address of a map is known when this is compiled, so only one of the cases is left.
static __always_inline void *looked_up(void *map, const void *key)
{
	u32 number = *(const u32 *)key;
	if (!__builtin_constant_p(map == (void *)&current))	// a page of limiters
		return number < PAGE ? (struct limiter *)map + number : 0;
	if (map == (void *)&current)
		return &memory.current;
	if (map == (void *)&settings)
		return memory.settings + (number & 1);
	if (map == (void *)&plans)
		return number < PLANS ? memory.plans + number : 0;
	if (map == (void *)&nodes)
		return number < NODES ? memory.nodes + number : 0;
	if (map == (void *)&shapes)
		return number < PLACES ? memory.shapes + number : 0;
	if (map == (void *)&rule_sets)
		return number < PLACES ? memory.rule_sets + number : 0;
	if (map == (void *)&pages)
		return number < PAGES ? memory.pages[number] : 0;
	if (map == (void *)&seats4)
		return table_value(&memory.seats4, key, sizeof(struct key4));
	if (map == (void *)&seats6)
		return table_value(&memory.seats6, key, sizeof(struct key6));
	if (map == (void *)&seats_link)
		return table_value(&memory.seats_link, key, sizeof(struct link_key));
	if (map == (void *)&bindings)
		return table_value(&memory.bindings, key, sizeof(u32));
	if (map == (void *)&ports)
		return table_value(&memory.ports, key, sizeof(u32));
	if (map == (void *)&strangers)
		return number < REASONS ? self->tallies + number : 0;
	if (map == (void *)&senders)
		return number < 2 * SENDERS ? memory.senders + number : 0;
	if (map == (void *)&test_time)
		return &memory.test_time;
	return 0;
}

static struct limiter *limiter_at(u32 number)
{
	u32 page = number >> PAGE_BITS;
	return page < PAGES && memory.pages[page] ? memory.pages[page] + (number & (PAGE - 1)) : 0;
}
