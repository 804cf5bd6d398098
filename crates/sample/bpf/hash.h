// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which flows, or which clients, are sampled: a keyed hash must be below a limit.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "sample.h"

// The hash reads its message as words with the lowest byte first.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define little16(word) (word)
#define little32(word) (word)
#define little64(word) (word)
#else
#define little16(word) __builtin_bswap16(word)
#define little32(word) __builtin_bswap32(word)
#define little64(word) __builtin_bswap64(word)
#endif

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

// SipHash-1-3 (Aumasson and Bernstein, 2012), as hash tables use it. Somebody who does not know the key cannot choose
// addresses or ports that are sampled, or that are not.
struct sip {
	u64 a, b, c, d;
};

static __always_inline u64 turned(u64 word, u32 bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = turned(s->b, 13) ^ s->a;
	s->d = turned(s->d, 16) ^ s->c;
	s->a = turned(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = turned(s->b, 17) ^ s->c;
	s->d = turned(s->d, 21) ^ s->a;
	s->c = turned(s->c, 32);
}

static __always_inline void sip_word(struct sip *s, u64 word)
{
	s->d ^= word;
	sip_round(s);
	s->a ^= word;
}

static __always_inline struct sip sip_begin(const struct rule *rule)
{
	u64 first = rule->key[0], second = rule->key[1];
	return (struct sip){ first ^ 0x736f6d6570736575ULL, second ^ 0x646f72616e646f6dULL, first ^ 0x6c7967656e657261ULL,
			     second ^ 0x7465646279746573ULL };
}

// The last bytes of the message, below its length.
static __always_inline u64 sip_end(struct sip *s, u64 bytes, u64 length)
{
	sip_word(s, bytes | length << 56);
	s->c ^= 0xff;
	for (u32 i = 0; i < 3; i++)
		sip_round(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

// The hash of the two ends and the protocol's number. The lower end comes first, so both directions have the same hash.
static __always_inline u64 flow_hash(const struct rule *rule, const struct ends *e)
{
	u64 low = bpf_be64_to_cpu(e->source[0]), high = bpf_be64_to_cpu(e->destination[0]);
	u16 from = e->ports[0], to = e->ports[1];
	u64 lower[2] = { e->source[0], e->source[1] }, upper[2] = { e->destination[0], e->destination[1] };
	if (low == high && e->version == 6) {
		low = bpf_be64_to_cpu(e->source[1]);
		high = bpf_be64_to_cpu(e->destination[1]);
	}
	if (low > high || (low == high && bpf_ntohs(from) > bpf_ntohs(to))) {
		lower[0] = e->destination[0];
		lower[1] = e->destination[1];
		upper[0] = e->source[0];
		upper[1] = e->source[1];
		from = e->ports[1];
		to = e->ports[0];
	}
	struct sip s = sip_begin(rule);
	u64 rest = (u64)little16(from) | (u64)little16(to) << 16 | (u64)TCP << 32;
	if (e->version == 4) {
		sip_word(&s, (u32)little64(lower[0]) | little64(upper[0]) << 32);
		return sip_end(&s, rest, 13);
	}
	sip_word(&s, little64(lower[0]));
	sip_word(&s, little64(lower[1]));
	sip_word(&s, little64(upper[0]));
	sip_word(&s, little64(upper[1]));
	return sip_end(&s, rest, 37);
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
	if (skb->pkt_type < FROM_OTHERS)
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
CHECKED_ONCE u64 client_hash(struct __sk_buff *skb, const struct settings *settings, const struct rule *rule,
			     const struct ends *e, u32 leaves)
{
	if (!settings || !rule || !e)
		return ~0ULL;
	// Chosen by bits: the compiler would choose between addresses, which the kernel allows only with CAP_PERFMON.
	u64 to = -(u64)!!to_client(skb, settings, e, leaves);
	asm volatile("" : "+r"(to));
	u64 first = (e->destination[0] & to) | (e->source[0] & ~to), second = (e->destination[1] & to) | (e->source[1] & ~to);
	struct sip s = sip_begin(rule);
	if (e->version == 4) {
		u32 address;
		__builtin_memcpy(&address, &first, 4);
		return sip_end(&s, little32(address & settings->mask4), 4);
	}
	sip_word(&s, little64(first & settings->mask6[0]));
	sip_word(&s, little64(second & settings->mask6[1]));
	return sip_end(&s, 0, 16);
}

// How many bytes of a packet are kept: 0 if it is not sampled, else all up to the end of TCP's header. `leaves`: whether this machine
// sends the packet.
static __always_inline u32 kept(struct __sk_buff *skb, const struct settings *settings, const struct ends *e, u32 leaves,
				u32 tcp, u8 offset)
{
	const struct rule *rule = &settings->rules[settings->used & 1];
	u64 hash = settings->by == BY_CLIENT ? client_hash(skb, settings, rule, e, leaves) : flow_hash(rule, e);
	if (hash >> 11 >= rule->limit)
		return 0;
	// RFC 9293 §3.1: a header has at least 20 bytes, and at most 60.
	u32 header = (offset >> 4) * 4;
	return tcp + (header < 20 ? 20 : header);
}
