// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Watches the flows of subscribers: what passes, how soon TCP answers, and what TCP sends again. crates/gate/src/line.rs
// reads the counts of a subscriber, crates/gate/src/flow.rs those of a flow.
//
// A packet with data is waited for, one of a flow in each direction at a time. Its answer echoes its timestamp
// (RFC 7323 §3.2), or acknowledges its last byte. The packet passed here, as its answer does, so the time between them is
// the round trip on one side of the gate: the subscriber's for packets to it, the network's for packets from it.
#pragma once
#include "maps.h"

enum {
	PATIENCE = 34,	// a packet without an answer is given up after 2^PATIENCE ns
	UNTOLD = 64,	// a flow's segments that its subscriber's counts may lack
};

// Of flows, with as many as the file says. There is none unless flows are watched.
struct flow_table {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	// The compiler does not describe types that only maps in maps name.
	__uint(key_size, sizeof(struct flow_key));
	__uint(value_size, sizeof(struct flow));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct flow_table);
} flow_tables SEC(".maps");

// By subscriber: half the number of its limiters.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WATCHED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct line);
} lines SEC(".maps");

// Zeros, from which new values are made. The stack has no room for them.
struct blank {
	u64 words[sizeof(struct line) / 8];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct blank);
} blank SEC(".maps");

// The number of the group of trips of about this length.
static __always_inline u32 trip_group(u64 ns)
{
	u32 shift = LEAST_TRIP - STEPS_SHIFT, doublings = 0;
	u64 rest = ns >> LEAST_TRIP;
	if (rest >> (TRIPS >> STEPS_SHIFT))
		return TRIPS - 1;
	for (u32 i = 0; i < TRIPS >> STEPS_SHIFT; i++) {
		doublings += rest > 0;
		rest >>= 1;
	}
	// Shorter trips are all in the first group.
	if (!doublings)
		return 0;
	shift += doublings - 1;
	u32 group = ((doublings - 1) << STEPS_SHIFT) + ((ns >> shift) & ((1 << STEPS_SHIFT) - 1));
	return group < TRIPS ? group : TRIPS - 1;
}

// Adds to a subscriber's counts what a flow has in one direction, and a round trip of this group unless it is NONE.
static __always_inline void tell_line(u32 subscriber, struct way *w, u32 direction, u32 group, u64 now)
{
	u32 zero = 0, window = now >> LATELY;
	struct line *l = bpf_map_lookup_elem(&lines, &subscriber);
	if (!l) {
		struct blank *none = bpf_map_lookup_elem(&blank, &zero);
		if (!none)
			return;
		bpf_map_update_elem(&lines, &subscriber, none, BPF_NOEXIST);
		l = bpf_map_lookup_elem(&lines, &subscriber);
		if (!l)
			return;
	}
	u32 segments = w->segments - w->told_segments, again = w->again - w->told_again, present = window & 1;
	w->told_segments = w->segments;
	w->told_again = w->again;
	direction &= 1;
	bpf_spin_lock(&l->lock);
	// Another core may be ahead.
	u32 ahead = window - l->window;
	if (ahead && (s32)ahead > 0) {
		for (u32 i = 0; i < 2; i++) {
			if (i != present && ahead == 1)
				continue;
			volatile u64 *words = (u64 *)(l->lately + i);	// otherwise the loop becomes a call of memset
			for (u32 word = 0; word < sizeof(struct lately) / 8; word++)
				words[word] = 0;
		}
		l->window = window;
	}
	struct lately *lately = l->lately + present;
	l->segments[direction] += segments;
	l->again[direction] += again;
	lately->segments[direction] += segments;
	lately->again[direction] += again;
	if (group < TRIPS) {
		u16 *count = lately->trips[direction] + group;
		l->trips[direction]++;
		*count += *count < 0xffff;
	}
	bpf_spin_unlock(&l->lock);
}

// Notes a segment with data. It is waited for if it carries what was not seen before, and passes.
static __always_inline void watch_segment(struct way *w, const struct packet *p, int dropped, u64 now)
{
	u32 stamped = p->watched & STAMPED, end = p->end, known = w->known;
	u32 is_ahead = !known || (s32)(end - w->end) > 0;
	s32 newer = p->stamp - w->newest;
	w->segments += p->packets;
	if (is_ahead) {
		w->end = end;
	} else if (!stamped || newer >= 0) {
		// An older timestamp would show that the network reordered packets. Nothing tells the answers to a
		// segment and to its repetition apart but timestamps [Karn].
		w->again += p->packets;
		if (!stamped)
			w->sent = 0;
	}
	int is_fresh = stamped ? !known || newer > 0 : is_ahead;
	w->known = READ | stamped;
	if (!is_fresh)
		return;
	w->newest = p->stamp;
	if (!dropped && (!w->sent || (now - w->sent) >> PATIENCE)) {
		w->sent = now;
		w->token = stamped ? p->stamp : end;
	}
}

// The time from the packet that is waited for to this one, if it is the answer; 0 if not.
static __always_inline u64 watch_answer(struct way *w, const struct packet *p, u64 now)
{
	u32 stamped = p->watched & STAMPED;
	u64 sent = w->sent;
	if (!sent || !(p->watched & ANSWERS))
		return 0;
	s32 behind = p->answered - w->token;
	if ((w->known & STAMPED) == stamped && behind < 0)
		return 0;
	w->sent = 0;
	// A later timestamp is echoed if the packet was lost behind the gate, or acknowledged together with later ones.
	if ((w->known & STAMPED) != stamped || (stamped && behind) || now <= sent)
		return 0;
	return now - sent;
}

// Notes a packet of a subscriber after the verdict on it.
PART int watch(struct packet *p, int verdict)
{
	u32 zero = 0;
	if (!p)
		return 0;
	u64 now = p->now;
	void *table = bpf_map_lookup_elem(&flow_tables, &zero);
	// No limiter saw the packet if it has no time.
	if (!table || !now)
		return 0;
	u32 up = p->direction & 1, ports = p->ports;
	struct flow_key key = { .protocol = p->protocol };
	for (u32 i = 0; i < 4; i++) {
		key.local[i] = up ? p->source[i] : p->destination[i];
		key.remote[i] = up ? p->destination[i] : p->source[i];
	}
	key.ports = up ? ports : ports >> 16 | ports << 16;
	struct flow *f = bpf_map_lookup_elem(table, &key);
	if (!f) {
		struct blank *none = bpf_map_lookup_elem(&blank, &zero);
		if (!none)
			return 0;
		bpf_map_update_elem(table, &key, none, BPF_NOEXIST);
		f = bpf_map_lookup_elem(table, &key);
		if (!f)
			return 0;
		f->began = now;
	}
	u32 subscriber = p->seat.limiter / 2, packets = p->packets;
	f->latest = now;
	f->subscriber = subscriber;
	struct way *w = f->ways + up, *back = f->ways + (up ^ 1);
	w->queue = p->queue;
	if (p->watched & EXCEEDS) {
		w->excess_packets += packets;
		w->excess_bytes += p->bytes;
	} else {
		w->packets += packets;
		w->bytes += p->bytes;
		w->marked_packets += verdict == CE && p->ecn != 3 ? packets : 0;
	}
	if (!(p->watched & READ))
		return 0;
	u64 trip = watch_answer(back, p, now);
	if (trip)
		back->trip = trip >> 10 > ~0U ? ~0U : trip >> 10;
	if (p->watched & CARRIES)
		watch_segment(w, p, verdict == EXCESS, now);
	if (trip)
		tell_line(subscriber, back, up ^ 1, trip_group(trip), now);
	else if (w->segments - w->told_segments >= UNTOLD)
		tell_line(subscriber, w, up, NONE, now);
	return 0;
}
