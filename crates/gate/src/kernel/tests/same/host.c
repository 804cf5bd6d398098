// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs' C code in user space, around one limiter. Standard input gives the content of the
// maps. Each packet's fate is written to standard output as one byte.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long now;
static void *looked_up(void *map, const void *key);
#define bpf_map_lookup_elem looked_up
#define bpf_ktime_get_ns() now
// One packet at a time.
#define bpf_spin_lock(lock) ((void)(lock))
#define bpf_spin_unlock(lock) ((void)(lock))
#include "gate.bpf.c"

static struct {
	struct settings settings;
	struct plan plan;
	struct shape shape;
	struct rules rules;
	struct seats seats;
} told;
static struct limiter limiter;
static struct tally tallies[REASONS];

static void *looked_up(void *map, const void *key)
{
	static u32 zero;
	if (map == &current)
		return &zero;
	if (map == &settings)
		return &told.settings;
	if (map == &plans)
		return &told.plan;
	if (map == &shapes)
		return &told.shape;
	if (map == &rule_sets)
		return &told.rules;
	if (map == &strangers)
		return tallies + *(const u32 *)key;
	if (map == &seats4)	// of 192.0.2.0/29 alone
		return ((const struct key4 *)key)->address == 0x000200c0 ? &told.seats : 0;
	if (map == &pages || map == &limiter)
		return &limiter;
	return 0;
}

static int take_in(void *to, size_t size)
{
	return fread(to, size, 1, stdin) == 1;
}

// Reads a packet and its headers.
static int next_packet(struct packet *p)
{
	struct {
		u64 now;
		u32 length, given;	// bytes of the frame, and those of them that follow
	} next;
	if (!take_in(&next, sizeof(next)))
		return 0;
	now = next.now;
	// Exactly this many bytes, so that a read beyond them is detected.
	u8 *frame = malloc(next.given);
	if (next.given && !take_in(frame, next.given))
		return 0;
	*p = (struct packet) { .packets = 1, .length = next.length };
	struct bytes from = { .data = frame, .end = frame + next.given, .length = next.length };
	u32 type = parse_frame(p, &from);
	parse_ip(p, &from, type, 0);
	free(frame);
	return 1;
}

static int finish_steps(struct packet *p, int step)
{
	for (u32 i = 1; i < STEPS && step >= OFFER; i++)
		step = take(p, step);
	return step;
}

// Decides about two packets of one time that meet at the limiter: while a look at all queues is under way for the one, the other
// one finds it due as well. The one is decided about first.
static void meet(struct packet *one, struct packet *other)
{
	struct packet *both[] = { one, other };
	for (u32 i = 0; i < 2; i++) {
		charge(both[i], &told.settings);
		find(both[i], &told.settings);
	}
	int first = offer(one), second = OFFER, looks = first == PERIODS;
	if (looks)
		second = offer(other);
	for (; looks && first == PERIODS && second == PERIODS; looks++) {
		if (looks & 1)
			first = take(one, first);
		else
			second = take(other, second);
	}
	putchar(finish_steps(one, first) == EXCESS);
	putchar(finish_steps(other, second) == EXCESS);
}

int main(void)
{
	struct packet p, other;
	for (int what; (what = getchar()) != EOF;) {
		if (what == 'M') {
			if (!take_in(&told.settings, sizeof(told.settings)) || !take_in(&told.plan, sizeof(told.plan))
			    || !take_in(&told.shape, sizeof(told.shape)) || !take_in(&told.rules, sizeof(told.rules))
			    || !take_in(&told.seats, sizeof(told.seats)))
				return 1;
			continue;
		}
		if (!next_packet(&p) || (what == 'T' && !next_packet(&other)))
			return 1;
		if (what == 'T')
			meet(&p, &other);
		else
			putchar(judge(&p) == EXCESS);
	}
	return 0;
}
