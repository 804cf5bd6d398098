// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What user space asks of many limiters, lines and flows: copies, a few at a time while the cores wait. A part of gate.c.
#pragma once

// Whether a limiter had a packet since a time, as far as can be seen while packets pass.
static bool is_active(u32 number, u64 since)
{
	const volatile struct limiter *s = limiter_at(number);
	return s && s->version && s->at >= since;
}

// Copies limiters that had packets since a time, as they were between two bursts: at most CHUNK, from a number on and below
// another. `from` becomes the number after the last one that was looked at.
int tidegate_dpdk_active(u32 *from, u32 below, u64 since, u32 *numbers, struct limiter *to, u32 *count)
{
	u32 at = *from;
	*count = 0;
	while (at < below && !is_active(at, since))
		at++;
	u32 paused = at < below;
	int core = paused ? pause_cores() : 0;
	if (core)
		return core;
	for (u32 end = at; at < below && at < end + CHUNK; at++) {
		if (!is_active(at, since))
			continue;
		numbers[*count] = at;
		to[(*count)++] = *limiter_at(at);
	}
	if (paused)
		resume_cores();
	*from = at;
	return 0;
}

// The present time of the cores, ns.
u64 tidegate_dpdk_now(void) { return ns_of_cycles(); }

// Watches at most this many flows; 0: none. A table of another size begins empty. Returns 0, an error, or the number of a
// core that does not answer, plus one.
int tidegate_dpdk_watch(u32 flows)
{
	u32 count = (flows + WAYS - 1) / WAYS;
	if (count == watching.count)
		return 0;
	struct bucket *made = count ? rte_zmalloc("flows", (size_t)count * sizeof(*made), 64) : 0;
	int error = count && !made ? -ENOMEM : 0;
	for (u32 page = 0; !error && count && page < PAGES && memory.pages[page]; page++)
		error = make_lines(page);
	if (!error)
		error = pause_cores();
	if (error) {
		rte_free(made);
		if (!watching.count)
			free_lines();
		return error;
	}
	struct bucket *old = watching.buckets;
	watching.buckets = made;
	watching.count = count;
	watching.seed = rte_rand();
	if (!count)
		free_lines();
	resume_cores();
	rte_free(old);
	return 0;
}

// Copies lines to which TCP was told, as they were between two bursts: at most CHUNK, of subscribers from a number on and
// below another. `from` becomes the number after the last one that was looked at. Returns as the function above.
int tidegate_dpdk_lines(u32 *from, u32 below, u32 *numbers, struct line *to, u32 *count)
{
	u32 at = *from;
	*count = 0;
	while (at < below && !is_told(at))
		at++;
	u32 paused = at < below;
	int core = paused ? pause_cores() : 0;
	if (core)
		return core;
	for (u32 end = at; at < below && at < end + CHUNK; at++) {
		if (!is_told(at))
			continue;
		numbers[*count] = at;
		to[(*count)++] = *line_of(at);
	}
	if (paused)
		resume_cores();
	*from = at;
	return 0;
}

static bool is_of(u32 slot, u32 subscriber)
{
	const volatile struct bucket *b = watching.buckets + slot / WAYS;
	return b->tags[slot % WAYS] && b->slots[slot % WAYS].flow.subscriber == subscriber;
}

// Copies watched flows of a subscriber likewise, from a slot on. `from` becomes 0 at the end.
int tidegate_dpdk_flows(u32 *from, u32 subscriber, struct flow_key *keys, struct flow *flows, u32 *count)
{
	u32 at = *from, slots = watching.count * WAYS;
	*count = 0;
	while (at < slots && !is_of(at, subscriber))
		at++;
	u32 paused = at < slots;
	int core = paused ? pause_cores() : 0;
	if (core)
		return core;
	for (u32 end = at; at < slots && at < end + CHUNK; at++) {
		if (!is_of(at, subscriber))
			continue;
		const struct bucket *b = watching.buckets + at / WAYS;
		keys[*count] = b->slots[at % WAYS].key;
		flows[(*count)++] = b->slots[at % WAYS].flow;
	}
	if (paused)
		resume_cores();
	*from = at < slots ? at : 0;
	return 0;
}
