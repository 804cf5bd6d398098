// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verdict on a parsed packet.
#pragma once
#include "decide.h"
#include "origin.h"

// A subscriber's seat for packets in this direction, if there is one.
static __always_inline const struct seat *seat_of(const struct seats *both, u32 direction)
{
	if (!both)
		return 0;
	const struct seat *seat = both->way + (direction & 1);
	return seat->known ? seat : 0;
}

// The seat of a packet: tags before addresses, longer prefixes before shorter ones.
static __always_inline const struct seat *sought(const struct packet *p, const struct settings *set)
{
	// Tables read whole words, which a processor gets soonest from where whole words were written.
	union {
		u64 words[3];
		struct link_key link;
		struct key4 four;
		struct key6 six;
	} key = {};
	const struct seat *seat = 0;
	u32 direction = p->direction & 1, links = set->links;
	if (links) {
		if (p->pppoe && links >> PPPOE & 1) {
			key.link.kind = PPPOE;
			key.link.id = p->session;
			seat = seat_of(bpf_map_lookup_elem(&seats_link, &key.link), direction);
		}
		if (!seat && p->tags == 2 && links >> QINQ & 1) {
			key.link.kind = QINQ;
			key.link.id = (u32)p->outer << 16 | p->inner;
			seat = seat_of(bpf_map_lookup_elem(&seats_link, &key.link), direction);
		}
		if (!seat && p->tags == 1 && links >> VLAN & 1) {
			key.link.kind = VLAN;
			key.link.id = p->outer;
			seat = seat_of(bpf_map_lookup_elem(&seats_link, &key.link), direction);
		}
	}
	const u32 *address = direction ? p->source : p->destination;
	if (!seat && p->family == 4) {
		u32 count = set->count4, word = address[3];
		for (u32 i = 0; i < LENGTHS; i++) {
			if (i >= count)
				break;
			const struct length4 *length = &set->lengths4[i];
			key.words[0] = (word & length->mask) | (u64)length->length << 32;
			seat = seat_of(bpf_map_lookup_elem(&seats4, &key.four), direction);
			if (seat)
				break;
		}
	} else if (!seat && p->family == 6) {
		u32 count = set->count6;
		for (u32 i = 0; i < LENGTHS; i++) {
			if (i >= count)
				break;
			const struct length6 *length = &set->lengths6[i];
			key.words[0] = (address[0] & length->mask[0]) | (u64)(address[1] & length->mask[1]) << 32;
			key.words[1] = (address[2] & length->mask[2]) | (u64)(address[3] & length->mask[3]) << 32;
			key.words[2] = length->length;
			seat = seat_of(bpf_map_lookup_elem(&seats6, &key.six), direction);
			if (seat)
				break;
		}
	}
	return seat;
}

static __always_inline int find(struct packet *p, const struct settings *set)
{
	const struct seat *seat = sought(p, set);
	if (!seat)
		return 0;
	p->seat = *seat;
	if (p->direction && p->seat.known & BOUND)
		p->spoofed = is_spoofed(p);
	return 1;
}

// The same by the number of the settings. It is a part since the keys would take stack that later steps need.
PART int find_seat(struct packet *p, u32 index)
{
	if (!p)
		return 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &index);
	return set ? find(p, set) : 0;
}

// Whether a sender of frames without IP keeps to a low rate: 64 kbit/s towards the network and 1 Mbit/s
// towards subscribers, where one router asks for the addresses of all of them. Two seconds' worth may come
// at once.
static __always_inline int is_modest(struct packet *p)
{
	u32 sender = p->family ? p->source[0] ^ p->source[1] ^ p->source[2] ^ p->source[3] : p->sender;
	u32 direction = p->direction & 1;
	u32 number = (sender * 0x9e3779b1u >> 22) + direction * SENDERS;
	struct sender *s = bpf_map_lookup_elem(&senders, &number);
	if (!s)
		return 1;
	u64 now = packet_time(), takes = (u64)p->bytes * (direction ? 125000 : 8000), most = 2000000000;
	bpf_spin_lock(&s->lock);
	u64 until = s->until > now ? s->until : now;
	int fits = until - now + takes <= most;
	s->until = fits ? until + takes : until;
	bpf_spin_unlock(&s->lock);
	return fits;
}

// The verdict on a packet of no subscriber.
PART int stranger(struct packet *p)
{
	u32 zero = 0;
	if (!p)
		return PASS;
	u32 *which = bpf_map_lookup_elem(&current, &zero);
	if (!which)
		return PASS;
	u32 index = *which & 1;
	struct settings *set = bpf_map_lookup_elem(&settings, &index);
	if (!set)
		return PASS;
	if (p->reason > NOT_IP)
		count(p->reason, p->packets, p->bytes);
	// The headers below too many tags are not known. Such packets must not avoid the limit.
	if (!p->family && p->reason == MANY_TAGS)
		return EXCESS;
	int other = !p->family;
	u32 drop = other ? set->other_drop[p->direction & 1] : set->unknown_drop;
	u32 reason = other ? NOT_IP : p->family == 6 ? UNKNOWN_IPV6 : UNKNOWN_IPV4, interface = p->interface;
	u32 strict = !other && !drop && set->known_sources && bpf_map_lookup_elem(&ports, &interface);
	if (strict && has_no_address(p))
		p->kind = NEIGHBOURS;
	if (drop || strict) {
		drop = 1;
		reason = other ? OTHER_DROPPED : strict ? UNKNOWN_SOURCE_DROPPED : UNKNOWN_DROPPED;
		if (set->link_frames >> (p->kind & 7) & 1) {
			drop = !is_modest(p);
			reason = drop ? LINK_FRAMES_DROPPED : other ? NOT_IP : p->family == 6 ? UNKNOWN_IPV6 : UNKNOWN_IPV4;
		}
	}
	count(reason, p->packets, p->bytes);
	return drop ? EXCESS : PASS;
}

// The bytes that are charged for a parsed packet.
static __always_inline void charge(struct packet *p, const struct settings *set)
{
	// The charge includes the overhead of each packet on the wire.
	u64 frame = p->length;
	if (set->layer == 3)
		frame -= (u64)p->ip * p->packets;
	long long charged = (long long)frame + (long long)set->overhead * p->packets;
	if (charged < 1)
		charged = 1;
	if (charged > 0x7fffffff)
		charged = 0x7fffffff;
	p->bytes = charged;
}

// The verdict on a packet whose seat was found.
static __always_inline int seated(struct packet *p)
{
	if (p->spoofed) {
		count(SPOOFED_DROPPED, p->packets, p->bytes);
		return EXCESS;
	}
	p->counted = p->used = 0;
	int step = offer(p);
	// More steps than queues can run empty. A packet that meets another one at each step passes.
	for (u32 i = 1; i < STEPS && step >= OFFER; i++)
		step = take(p, step);
	if (step >= OFFER) {
		count(RACED, p->packets, p->bytes);
		return PASS;
	}
	if (p->counted)
		count_below(p->node, p->counted);
	if (p->used)
		tell_below(p->node, p->used);
	if (step != EXCESS)
		return step;
	p->watched |= EXCEEDS;
	return p->excess;
}

// The verdict on a parsed packet: PASS, EXCESS, CE, or MARKED plus a code point.
PART int judge(struct packet *p)
{
	u32 zero = 0;
	if (!p)
		return PASS;
	u32 *which = bpf_map_lookup_elem(&current, &zero);
	if (!which)
		return PASS;
	u32 index = *which & 1;
	struct settings *set = bpf_map_lookup_elem(&settings, &index);
	if (!set)
		return PASS;
	charge(p, set);
	p->watched |= set->modes;
	return find_seat(p, index) ? seated(p) : stranger(p);
}
