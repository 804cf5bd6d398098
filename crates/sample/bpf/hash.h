// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which flows, or which clients, are sampled: a keyed hash must be below a limit.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "sample.h"

enum {
	TCP = 6,
	NETWORKS = 1024,	// of clients
	FROM_OTHERS = 3,	// PACKET_OTHERHOST of <linux/if_packet.h>: neither from nor to this machine
	OUTGOING = 4,	// PACKET_OUTGOING
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);	// so that it can be changed without any right
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETWORKS);
	__type(key, struct network);
	__type(value, u8);
} networks SEC(".maps");

// The addresses and ports of a packet, as its bytes are. Of IPv4 only the first half of an address is used.
struct ends {
	u64 source[2], destination[2];
	u16 ports[2];
	u8 version;
};

// The kernel checks functions that are not static alone, and once, whatever leads to them. Otherwise it would follow more
// ways through the program than it has patience for, at least for programs without CAP_PERFMON. It does not
// know that pointers are not 0 there.
#define CHECKED_ONCE __attribute__((noinline))

// MurmurHash3's finalizer for 32 bits (Appleby, in the public domain). It can be undone, so it makes no two hashes alike; sums of flows
// with neighbouring ports lie at equal distances, and it scatters them.
static __always_inline u32 scattered(u32 hash)
{
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}

// The hash is a sum of numbers of 32 bits, in network byte order, each times a secret word of 64 bits. Its upper half is taken, and scattered.
// Over all keys, each flow is sampled as often as the limit says, and two flows are sampled independently of each other, whatever they are
// [Lemire and Kaser, Strongly universal string hashing is fast, 2014, §3]. Somebody who does not know the key cannot choose addresses or ports that are
// sampled, or that are not. The products do not wait for each other, as the rounds of SipHash do, which cost several times as much.
static __always_inline u64 sum6(const u64 *words, const u64 *address)
{
	u64 first = bpf_be64_to_cpu(address[0]), second = bpf_be64_to_cpu(address[1]);
	return words[0] * (first >> 32) + words[1] * (u32)first + words[2] * (second >> 32) + words[3] * (u32)second;
}

static __always_inline u32 first4(const u64 *address)
{
	return bpf_ntohl(*(const u32 *)address);
}

// The hash of the two ends. The lower end comes first, so both directions have the same hash.
static __always_inline u32 flow_hash(const struct rule *rule, const struct ends *e)
{
	const u64 *words = rule->words;
	u32 from = bpf_ntohs(e->ports[0]), to = bpf_ntohs(e->ports[1]);
	if (e->version == 4) {
		// They change places without a branch, since nobody could foretell where it leads.
		u64 one = (u64)first4(e->source) << 16 | from, other = (u64)first4(e->destination) << 16 | to;
		u64 change = (one ^ other) & -((other - one) >> 63);
		one ^= change;
		other ^= change;
		u64 ports = (one & 0xffff) << 16 | (other & 0xffff);
		return scattered((words[0] + words[1] * (one >> 16) + words[2] * (other >> 16) + words[3] * ports) >> 32);
	}
	u64 one = bpf_be64_to_cpu(e->source[0]), other = bpf_be64_to_cpu(e->destination[0]);
	if (one == other) {
		one = bpf_be64_to_cpu(e->source[1]);
		other = bpf_be64_to_cpu(e->destination[1]);
	}
	u64 change = -(u64)(one > other || (one == other && from > to)), lower[2], upper[2];
	for (u32 i = 0; i < 2; i++) {
		u64 changed = (e->source[i] ^ e->destination[i]) & change;
		lower[i] = e->source[i] ^ changed;
		upper[i] = e->destination[i] ^ changed;
	}
	u64 changed = (from ^ to) & change, ports = (from ^ changed) << 16 | (to ^ changed);
	return scattered((words[0] + sum6(words + 1, lower) + sum6(words + 5, upper) + words[9] * ports) >> 32);
}

static __always_inline int is_client(const u64 *address, u8 version)
{
	struct network network = { .bits = 128 };
	u64 words[2] = { 0, 0 };
	if (version == 4) {
		u32 first = *(const u32 *)address;
		u8 mapped[8] = { 0, 0, 0xff, 0xff };
		__builtin_memcpy(mapped + 4, &first, 4);
		__builtin_memcpy(&words[1], mapped, 8);
	} else {
		words[0] = address[0];
		words[1] = address[1];
	}
	__builtin_memcpy(network.address, words, 16);
	return bpf_map_lookup_elem(&networks, &network) != 0;
}

// Whether the packet goes to the client, and does not come from it.
static __always_inline int to_client(struct __sk_buff *skb, const struct settings *settings, const struct ends *e,
				     u32 leaves)
{
	if (settings->networks) {
		int source = is_client(e->source, e->version), destination = is_client(e->destination, e->version);
		if (source != destination)
			return destination;
	}
	// This machine is the server, or the interface leads to the clients.
	if (leaves)
		return 1;
	// A bridge forwards packets that are neither from nor to this machine. The other end of those that leave is the client, so
	// it is the client of those that arrive, too.
	if (skb->pkt_type < FROM_OTHERS || settings->bridged)
		return 0;
	// Servers have the lower ports. With equal ports, the choice must be the same in both directions.
	u16 from = bpf_ntohs(e->ports[0]), to = bpf_ntohs(e->ports[1]);
	if (from != to)
		return from < to;
	if (e->source[0] != e->destination[0])
		return e->source[0] < e->destination[0];
	return e->source[1] < e->destination[1];
}

// The hash of the client's prefix.
CHECKED_ONCE u32 client_hash(struct __sk_buff *skb, const struct settings *settings, const struct rule *rule,
			     const struct ends *e, u32 leaves)
{
	if (!settings || !rule || !e)
		return ~0U;
	// Chosen by bits: the compiler would choose between addresses, which the kernel allows only with CAP_PERFMON.
	u64 to = -(u64)!!to_client(skb, settings, e, leaves);
	asm volatile("" : "+r"(to));
	const u64 *words = rule->words;
	u64 address[2];
	for (u32 i = 0; i < 2; i++)
		address[i] = (e->destination[i] & to) | (e->source[i] & ~to);
	if (e->version == 4)
		return scattered((words[0] + words[1] * (first4(address) & settings->mask4)) >> 32);
	for (u32 i = 0; i < 2; i++)
		address[i] &= settings->mask6[i];
	return scattered((words[0] + sum6(words + 1, address)) >> 32);
}

// How many bytes of a packet are kept: 0 if it is not sampled, else all up to the end of TCP's header. `leaves`: whether this machine
// sends the packet.
static __always_inline u32 kept(struct __sk_buff *skb, const struct settings *settings, const struct ends *e, u32 leaves,
				u32 tcp, u8 offset)
{
	const struct rule *rule = &settings->rules[settings->used & 1];
	u32 hash = settings->by == BY_CLIENT ? client_hash(skb, settings, rule, e, leaves) : flow_hash(rule, e);
	if (hash >= rule->limit)
		return 0;
	// RFC 9293 §3.1: a header has at least 20 bytes, and at most 60.
	u32 header = (offset >> 4) * 4;
	return tcp + (header < 20 ? 20 : header);
}
