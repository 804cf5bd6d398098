// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The rules and the flow hash of crates/limiter/src/classify.rs.
#pragma once
#include "types.h"

static __always_inline int within(const u32 *address, const u32 *prefix, const u32 *mask)
{
	return !(((address[0] ^ prefix[0]) & mask[0]) | ((address[1] ^ prefix[1]) & mask[1])
		 | ((address[2] ^ prefix[2]) & mask[2]) | ((address[3] ^ prefix[3]) & mask[3]));
}

// The two ports of a packet are in network order.
static __always_inline int fits(const struct rule *rule, const struct packet *p)
{
	if (rule->protocol != ANY_PROTOCOL && rule->protocol != p->protocol)
		return 0;
	if (!(rule->dscp >> (p->dscp & 63) & 1))
		return 0;
	if (rule->ports) {
		u16 source = __builtin_bswap16(p->ports & 0xffff), destination = __builtin_bswap16(p->ports >> 16);
		if (!p->has_ports || source < rule->source_low || source > rule->source_high
		    || destination < rule->destination_low || destination > rule->destination_high)
			return 0;
	}
	return within(p->source, rule->source, rule->source_mask)
		&& within(p->destination, rule->destination, rule->destination_mask);
}

// The hashes of crates/limiter/src/classify/flow_key.rs.
static __always_inline u32 finish(u64 sum)
{
	sum = (sum ^ sum >> 33) * 0xff51afd7ed558ccdULL;
	sum = (sum ^ sum >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return sum ^ sum >> 33;
}

ASIDE u32 host_hash(const struct packet *p, const u64 *key)
{
	const u32 *address = p->direction ? p->source : p->destination;
	return finish(key[0] + key[1] * address[0] + key[2] * address[1] + key[3] * address[2] + key[4] * address[3]);
}

// What all flows of IPv4 have in common: both addresses begin with the same words.
static __always_inline u64 hash_of_four(const u64 *key)
{
	return key[0] + (key[3] + key[7]) * MAPPED;
}

static __always_inline u32 flow_hash(const struct packet *p, const u64 *key, u64 four)
{
	u64 sum = four;
	if (p->family != 4)
		sum = key[0] + key[1] * p->source[0] + key[2] * p->source[1] + key[3] * p->source[2] + key[5] * p->destination[0]
			+ key[6] * p->destination[1] + key[7] * p->destination[2];
	return finish(sum + key[4] * p->source[3] + key[8] * p->destination[3] + key[9] * p->ports + key[10] * p->protocol);
}

// The same, computed once for each packet.
static __always_inline u32 flow_of(struct packet *p, const u64 *key)
{
	if (!(p->known & HASHED)) {
		p->flow = flow_hash(p, key, hash_of_four(key));
		p->known |= HASHED;
	}
	return p->flow;
}

// The same for packets whose flow was not looked up ahead.
ASIDE u32 flow_now(struct packet *p, const u64 *key) { return flow_of(p, key); }

// Notes the class of a packet, and the queue of it that the flow's hash gives.
static __always_inline void set_class(struct packet *p, u32 flow, u32 first, u32 queues)
{
	p->first = first;
	p->queues = queues;
	p->queue = first + ((u64)flow * queues >> 32);
}
