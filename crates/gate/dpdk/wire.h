// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A bump in the wire between two ports, run to completion: a core takes packets from one port, decides, and sends them at the
// other. Where the ports spread a subscriber's packets over several cores, one of them has its limiter, and gets them by a ring.
#pragma once
#include <time.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include "burst.h"

enum {
	RING = 1024,	// descriptors of a queue of a port
	IDLE = 512,	// polls without a packet, after which a core may sleep
	RETRIES = 16,	// attempts to send what a port has no room for
	DRAINED = 3,	// polls without a packet that show that a port is drained
	LINGERS = 1000000000,	// ns that limiters have at the end to let go what they hold
};

static struct {
	u16 number[2];	// of the ports
	u32 limits[2];	// directions that are limited of the packets that come in at each
	u32 workers, is_open, sleeps;
	struct rte_mempool *pool;
	u64 hertz, cycles_at_start, ns_at_start;
} wire;

static u64 ns_now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (u64)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Cycles become nanoseconds by a product of 128 bits.
static __always_inline u64 ns_of_cycles(void)
{
	u64 cycles = rte_rdtsc() - wire.cycles_at_start;
	return wire.ns_at_start + (u64)((unsigned __int128)cycles * 1000000000 / wire.hertz);
}

// Makes all cores wait between two bursts. Returns 0, or the number of a core plus one that does not within a second.
static u32 pause_cores(void)
{
	__atomic_store_n(&memory.wants_pause, 1, __ATOMIC_SEQ_CST);
	u64 until = ns_now() + 1000000000;
	for (u32 i = 0; i < wire.workers; i++) {
		while (__atomic_load_n(&cores[i].is_running, __ATOMIC_ACQUIRE)
		       && !__atomic_load_n(&cores[i].is_paused, __ATOMIC_ACQUIRE)) {
			if (ns_now() > until) {
				__atomic_store_n(&memory.wants_pause, 0, __ATOMIC_RELEASE);
				return i + 1;
			}
			rte_pause();
		}
	}
	return 0;
}

static void resume_cores(void)
{
	__atomic_store_n(&memory.wants_pause, 0, __ATOMIC_RELEASE);
	// A core that still counts as waiting would be taken for one at the next pause.
	for (u32 i = 0; i < wire.workers; i++)
		while (__atomic_load_n(&cores[i].is_running, __ATOMIC_ACQUIRE)
		       && __atomic_load_n(&cores[i].is_paused, __ATOMIC_ACQUIRE))
			rte_pause();
}

static void wait_if_asked(struct core *core)
{
	if (__builtin_expect(!__atomic_load_n(&memory.wants_pause, __ATOMIC_ACQUIRE), 1))
		return;
	__atomic_store_n(&core->is_paused, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&memory.wants_pause, __ATOMIC_ACQUIRE))
		rte_pause();
	__atomic_store_n(&core->is_paused, 0, __ATOMIC_RELEASE);
}

static __always_inline void transmit(struct core *core, u32 to, struct rte_mbuf **packets, u32 count)
{
	u32 sent = 0;
	for (u32 attempt = 0; sent < count && attempt < RETRIES; attempt++)
		sent += rte_eth_tx_burst(wire.number[to], core - cores, packets + sent, count - sent);
	core->unsent += count - sent;
	if (sent < count)
		rte_pktmbuf_free_bulk(packets + sent, count - sent);
}

// Limits packets that came in at a port, from a direction on, and sends those that pass at the other port.
static __always_inline void forward(struct core *core, u32 from, u32 direction, struct rte_mbuf **packets, u32 count)
{
	for (u32 limits = wire.limits[from]; direction < 2; direction++)
		if (limits >> direction & 1)
			count = decided(packets, count, direction, from);
	transmit(core, !from, packets, count);
}

// Takes a burst from one port, and sends what passes at the other.
static __always_inline u32 pass(struct core *core, u32 from)
{
	struct rte_mbuf *packets[BURST];
	u32 count = rte_eth_rx_burst(wire.number[from], core - cores, packets, BURST);
	if (count) {
		core->now = ns_of_cycles();
		forward(core, from, 0, packets, count);
	}
	return count;
}

// Takes packets that other cores handed over. Those of a flow came by the same core, so they are in order.
static u32 take_over(struct core *core)
{
	struct rte_mbuf *packets[BURST], *ways[4][BURST];
	u32 counts[4] = { 0 }, count = rte_ring_dequeue_burst(core->handed, (void **)packets, BURST, 0);
	if (!count)
		return 0;
	core->now = ns_of_cycles();
	for (u32 i = 0; i < count; i++) {
		u32 way = packets[i]->port & 3;
		ways[way][counts[way]++] = packets[i];
	}
	for (u32 way = 0; way < 4; way++)
		if (counts[way])
			forward(core, way >> 1, way & 1, ways[way], counts[way]);
	return count;
}

// Sends packets that limiters of beside.h let go.
static u32 send_left(struct core *core)
{
	struct rte_mbuf *packets[2][BURST];
	u32 counts[2] = { 0 }, all = core->left_count;
	for (u32 i = 0; i < all; i++) {
		struct offered one = core->left[i];
		account_left(core->left + i);
		// The other direction is decided about one by one: only links between subscribers have both.
		u32 count = 1, from = one.from & 1;
		if (!one.direction && wire.limits[from] >> 1 & 1)
			count = decided(&one.packet, 1, 1, from);
		if (count)
			packets[from][counts[from]++] = one.packet;
		if (counts[from] == BURST) {
			transmit(core, !from, packets[from], BURST);
			counts[from] = 0;
		}
	}
	for (u32 from = 0; from < 2; from++)
		transmit(core, !from, packets[from], counts[from]);
	// What they let go meanwhile is behind the others.
	core->left_count -= all;
	memmove(core->left, core->left + all, core->left_count * sizeof(*core->left));
	return all;
}

static __always_inline u32 release(struct core *core)
{
	if (core->waits) {
		core->now = ns_of_cycles();
		let_go();
	}
	return core->left_count ? send_left(core) : 0;
}

static int work(void *argument)
{
	struct core *core = argument;
	// What a port has taken in is sent at the end, and what limiters hold. Neither may run dry.
	u32 idle = 0, silent = 0, left = 2 * RING / BURST;
	u64 until = 0;
	self = core;
	while (silent < DRAINED && left) {
		wait_if_asked(core);
		u32 count = pass(core, 0) + pass(core, 1);
		if (memory.locks)
			count += take_over(core);
		count += release(core);
		core->bursts++;
		idle = count ? 0 : idle + 1;
		if (__builtin_expect(__atomic_load_n(&core->ends, __ATOMIC_RELAXED), 0)) {
			u64 now = ns_now();
			until = until ? until : now + LINGERS;
			if (core->waits && now < until)
				continue;
			silent = count ? 0 : silent + 1;
			left--;
		} else if (wire.sleeps && idle > IDLE) {
			rte_delay_us_sleep(20);
		}
	}
	__atomic_store_n(&core->is_running, 0, __ATOMIC_RELEASE);
	return 0;
}
