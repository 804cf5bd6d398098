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
	SILENCE = 1000000000,	// ns after which a core is silent that has done no burst
};

static struct {
	u16 number[2];	// of the ports
	u32 limits[2];	// directions that are limited of the packets that come in at each
	u32 workers, is_open, sleeps;
	struct rte_mempool *pool;
} wire;

// What the control thread knows of cores that did not answer: how many bursts they had done then.
static struct {
	u64 bursts;
	bool is_silent;
} heard[CORES];

// The clock that the kernel's programs have. The time stamp counter is not used: its frequency is only known roughly.
static u64 ns_now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (u64)time.tv_sec * 1000000000 + time.tv_nsec;
}

static bool is_running(u32 number) { return __atomic_load_n(&cores[number].is_running, __ATOMIC_ACQUIRE); }
static u64 bursts_of(u32 number) { return __atomic_load_n(&cores[number].bursts, __ATOMIC_ACQUIRE); }

// Whether a core did not answer, and has done no burst since.
static bool is_silent(u32 number) { return heard[number].is_silent && heard[number].bursts == bursts_of(number); }

static u32 note_silent(u32 number)
{
	heard[number].bursts = bursts_of(number);
	heard[number].is_silent = true;
	return number + 1;
}

// Waits until each core has ended the burst that it is at, while packets pass. Returns 0, or the number of a core plus one that
// does not within a second. A core that was silent gets no further second until it has done a burst.
static u32 await_bursts(void)
{
	u64 before[CORES], until = ns_now() + SILENCE;
	for (u32 i = 0; i < wire.workers; i++) {
		if (is_running(i) && is_silent(i))
			return i + 1;
		heard[i].is_silent = false;
		before[i] = bursts_of(i);
	}
	for (u32 i = 0; i < wire.workers; i++) {
		while (is_running(i) && bursts_of(i) == before[i]) {
			if (ns_now() > until)
				return note_silent(i);
			rte_pause();
		}
	}
	return 0;
}

// Makes all cores wait between two bursts. Returns 0, or the number of a core plus one that does not within a second. No core is
// asked to wait for one that is stuck already. A pause has a number, so that a core that still leaves the one before is not taken
// for one that waits.
static u32 pause_cores(void)
{
	static u32 number;
	u32 silent = await_bursts();
	if (silent)
		return silent;
	number += number + 1 ? 1 : 2;
	__atomic_store_n(&memory.pause, number, __ATOMIC_SEQ_CST);
	u64 until = ns_now() + SILENCE;
	for (u32 i = 0; i < wire.workers; i++) {
		while (is_running(i) && __atomic_load_n(&cores[i].paused, __ATOMIC_ACQUIRE) != number) {
			if (ns_now() > until) {
				__atomic_store_n(&memory.pause, 0, __ATOMIC_RELEASE);
				return note_silent(i);
			}
			rte_pause();
		}
	}
	return 0;
}

static void resume_cores(void) { __atomic_store_n(&memory.pause, 0, __ATOMIC_RELEASE); }

static void wait_if_asked(struct core *core)
{
	u32 number = __atomic_load_n(&memory.pause, __ATOMIC_ACQUIRE);
	if (__builtin_expect(!number, 1))
		return;
	__atomic_store_n(&core->paused, number, __ATOMIC_RELEASE);
	while (__atomic_load_n(&memory.pause, __ATOMIC_ACQUIRE) == number)
		rte_pause();
}

// Has the cores send what has come in, and end. Returns 0, or the number of a core plus one that does not end.
static u32 end_cores(void)
{
	u32 stuck = 0;
	u64 until = ns_now() + LINGERS + SILENCE;
	for (u32 i = 0; i < wire.workers; i++)
		__atomic_store_n(&cores[i].ends, 1, __ATOMIC_RELEASE);
	for (u32 i = 0; i < wire.workers; i++) {
		while (is_running(i) && !is_silent(i) && ns_now() < until)
			rte_delay_us_sleep(100);
		if (is_running(i))
			stuck = note_silent(i);
	}
	return stuck;
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
		core->now = ns_now();
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
	core->now = ns_now();
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
		core->now = ns_now();
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
		__atomic_store_n(&core->bursts, core->bursts + 1, __ATOMIC_RELEASE);
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
