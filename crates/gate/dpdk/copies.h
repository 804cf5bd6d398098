// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What user space asks of many limiters, lines and flows: copies, a few at a time while the cores wait. A part of gate.c.
#pragma once

// Values with numbers: which of them are copied, as far as can be seen while packets pass, and how one is.
struct wanted {
	bool (*is)(u32 at, u64 which);
	void (*copy)(u32 at, void *key, void *value, u32 place);
	u64 which;
};

// Copies wanted values, as they were between two bursts: at most CHUNK, from a number on and below another. `from` becomes the
// number after the last one that was looked at. Returns 0, or the number of a core that does not answer, plus one.
static int copy_wanted(const struct wanted *wanted, u32 *from, u32 below, void *keys, void *values, u32 *count)
{
	u32 at = *from;
	*count = 0;
	while (at < below && !wanted->is(at, wanted->which))
		at++;
	u32 paused = at < below;
	int core = paused ? pause_cores() : 0;
	if (core)
		return core;
	for (u32 end = at; at < below && at < end + CHUNK; at++) {
		if (wanted->is(at, wanted->which))
			wanted->copy(at, keys, values, (*count)++);
	}
	if (paused)
		resume_cores();
	*from = at;
	return 0;
}

static bool is_active(u32 number, u64 since)
{
	const volatile struct limiter *s = limiter_at(number);
	return s && s->version && s->at >= since;
}

static void copy_limiter(u32 number, void *numbers, void *limiters, u32 place)
{
	((u32 *)numbers)[place] = number;
	((struct limiter *)limiters)[place] = *limiter_at(number);
}

// Copies limiters that had packets since a time.
int tidegate_dpdk_active(u32 *from, u32 below, u64 since, u32 *numbers, struct limiter *to, u32 *count)
{
	struct wanted wanted = { is_active, copy_limiter, since };
	return copy_wanted(&wanted, from, below, numbers, to, count);
}

// The present time of the cores, ns.
u64 tidegate_dpdk_now(void) { return ns_now(); }

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

static bool has_counts(u32 subscriber, u64 which)
{
	(void)which;
	const volatile struct line *l = line_of(subscriber);
	return l && (l->trips[0] || l->trips[1] || l->segments[0] || l->segments[1]);
}

static void copy_line(u32 subscriber, void *numbers, void *lines, u32 place)
{
	((u32 *)numbers)[place] = subscriber;
	((struct line *)lines)[place] = *line_of(subscriber);
}

// Copies lines of subscribers that had segments of TCP.
int tidegate_dpdk_lines(u32 *from, u32 below, u32 *numbers, struct line *to, u32 *count)
{
	struct wanted wanted = { has_counts, copy_line, 0 };
	return copy_wanted(&wanted, from, below, numbers, to, count);
}

static bool is_of(u32 slot, u64 subscriber)
{
	const volatile struct bucket *b = watching.buckets + slot / WAYS;
	return b->tags[slot % WAYS] && b->slots[slot % WAYS].flow.subscriber == subscriber;
}

static void copy_flow(u32 slot, void *keys, void *flows, u32 place)
{
	const struct bucket *b = watching.buckets + slot / WAYS;
	((struct flow_key *)keys)[place] = b->slots[slot % WAYS].key;
	((struct flow *)flows)[place] = b->slots[slot % WAYS].flow;
}

// Copies watched flows of a subscriber, from a slot on. `from` becomes 0 at the end.
int tidegate_dpdk_flows(u32 *from, u32 subscriber, struct flow_key *keys, struct flow *flows, u32 *count)
{
	struct wanted wanted = { is_of, copy_flow, subscriber };
	u32 slots = watching.count * WAYS;
	int core = copy_wanted(&wanted, from, slots, keys, flows, count);
	if (!core && *from >= slots)
		*from = 0;
	return core;
}
