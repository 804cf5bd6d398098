// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where the headers of a packet are: its addresses, and TCP's. Packets are hostile. The kernel checks every offset when bytes are
// loaded, and a packet that contradicts itself is not sampled.
#pragma once
#include "hash.h"

enum {
	TAGS = 4,	// most VLAN tags that are followed, beside the one that the kernel keeps elsewhere
	EXTENSIONS = 8,	// most IPv6 extension headers that are followed
	GTP_EXTENSIONS = 4,	// most extension headers of GTP-U that are followed
	IP_IN_IP = 4,
	UDP = 17,
	IPV6_IN_IP = 41,
	GRE = 47,
};

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	// Types of tags from before IEEE 802.1ad, which many switches still take.
	TYPE_TAG1 = 0x9100,
	TYPE_TAG2 = 0x9200,
	TYPE_PPPOE = 0x8864,
	TYPE_ETHERNET = 0x6558,	// an Ethernet frame in GRE or Geneve
};

// Ports of UDP. Linux used the second one of VXLAN before it had a number.
enum { VXLAN = 4789, OLD_VXLAN = 8472, GENEVE = 6081, GTP_U = 2152 };

// Where IP begins, and its version from the link layer, or from its first byte if `version` is 0.
struct place {
	u32 at;
	u8 version;
};

static __always_inline int is_tag(u16 type)
{
	return type == TYPE_VLAN || type == TYPE_QINQ || type == TYPE_TAG1 || type == TYPE_TAG2;
}

// RFC 2516 §4. A protocol of PPP has one byte or two, and its last byte is odd (RFC 1661 §2 and §6.5).
static __always_inline int find_in_pppoe(const struct __sk_buff *skb, struct place *place)
{
	u8 head[8];
	if (bpf_skb_load_bytes(skb, place->at, head, 8) || head[1])
		return -1;
	u32 size = head[6] & 1 ? 7 : 8, protocol = head[6] & 1 ? head[6] : head[6] << 8 | head[7];
	place->at += size;
	place->version = protocol == 0x21 ? 4 : protocol == 0x57 ? 6 : 0;
	return place->version ? 0 : -1;
}

static __always_inline u8 version_of(u16 type)
{
	return type == TYPE_IPV4 ? 4 : type == TYPE_IPV6 ? 6 : 0;
}

// Finds IP behind the type of an Ethernet frame, which is at this offset.
CHECKED_ONCE int find_typed(struct __sk_buff *skb, u32 at, struct place *place)
{
	u16 type;
	if (!place || bpf_skb_load_bytes(skb, at, &type, 2))
		return -1;
	type = bpf_ntohs(type);
	place->at = at + 2;
	for (u32 i = 0; i < TAGS && is_tag(type); i++) {
		if (bpf_skb_load_bytes(skb, place->at + 2, &type, 2))
			return -1;
		type = bpf_ntohs(type);
		place->at += 4;
	}
	if (type == TYPE_PPPOE)
		return find_in_pppoe(skb, place);
	place->version = version_of(type);
	return place->version ? 0 : -1;
}

CHECKED_ONCE int find_ip(struct __sk_buff *skb, u32 raw, struct place *place)
{
	if (!place)
		return -1;
	if (raw) {
		u8 first;
		if (bpf_skb_load_bytes(skb, 0, &first, 1))
			return -1;
		place->at = 0;
		place->version = first >> 4;
		return 0;
	}
	return find_typed(skb, 12, place);
}

// RFC 791. Returns the offset of TCP, or 0. Fragments but the first have no TCP header.
CHECKED_ONCE u32 read_ipv4(struct __sk_buff *skb, u32 at, struct ends *e)
{
	if (!e)
		return 0;
	u8 ip[20];
	if (bpf_skb_load_bytes(skb, at, ip, 20))
		return 0;
	u32 header = (ip[0] & 15) * 4;
	if (ip[0] >> 4 != 4 || header < 20 || ip[9] != TCP || (ip[6] & 0x1f) || ip[7])
		return 0;
	__builtin_memcpy(&e->source[0], ip + 12, 4);
	__builtin_memcpy(&e->destination[0], ip + 16, 4);
	e->version = 4;
	return at + header;
}

// RFC 8200.
CHECKED_ONCE u32 read_ipv6(struct __sk_buff *skb, u32 at, struct ends *e)
{
	if (!e)
		return 0;
	u8 ip[40];
	if (bpf_skb_load_bytes(skb, at, ip, 40) || ip[0] >> 4 != 6)
		return 0;
	__builtin_memcpy(e->source, ip + 8, 16);
	__builtin_memcpy(e->destination, ip + 24, 16);
	e->version = 6;
	u8 next = ip[6];
	at += 40;
	for (u32 i = 0; i < EXTENSIONS; i++) {
		if (next == TCP)
			return at;
		// Options, routing, fragments, authentication, mobility, HIP and Shim6.
		if (next != 0 && next != 43 && next != 44 && next != 51 && next != 60 && next != 135 && next != 139
		    && next != 140)
			return 0;
		u8 head[4];
		if (bpf_skb_load_bytes(skb, at, head, 4) || (next == 44 && (head[2] || head[3] & 0xf8)))
			return 0;
		at += next == 44 ? 8 : next == 51 ? (head[1] + 2) * 4 : (head[1] + 1) * 8;
		next = head[0];
	}
	return 0;
}

// Finds IP behind a header that names the type of what follows: a type of Ethernet, or a whole frame.
static __always_inline int find_carried(struct __sk_buff *skb, u32 at, u16 type, struct place *place)
{
	if (type == TYPE_ETHERNET)
		return find_typed(skb, at + 12, place);
	place->at = at;
	place->version = version_of(type);
	return place->version ? 0 : -1;
}

// 3GPP TS 29.281 §5. `head` holds the 8 bytes that every packet has, which end at the offset.
static __always_inline int find_in_gtp(struct __sk_buff *skb, const u8 *head, u32 at, struct place *place)
{
	// Version 1 of GTP, and a packet of a user.
	if (head[0] >> 4 != 3 || head[1] != 255)
		return -1;
	if (head[0] & 7) {
		u8 next, length;
		if (bpf_skb_load_bytes(skb, at + 3, &next, 1))
			return -1;
		at += 4;
		if (!(head[0] & 4))
			next = 0;
		for (u32 i = 0; i < GTP_EXTENSIONS && next; i++) {
			if (bpf_skb_load_bytes(skb, at, &length, 1) || !length)
				return -1;
			at += length * 4;
			if (bpf_skb_load_bytes(skb, at - 1, &next, 1))
				return -1;
		}
		if (next)
			return -1;
	}
	u8 first;
	if (bpf_skb_load_bytes(skb, at, &first, 1))
		return -1;
	place->at = at;
	place->version = first >> 4;
	return 0;
}

// Moves on to the packet that a packet carries: IP in IP (RFC 2003, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), Geneve
// (RFC 8926) and GTP-U. Of outer IPv6 packets, those without extension headers.
CHECKED_ONCE int enter_tunnel(struct __sk_buff *skb, struct place *place)
{
	u8 ip[20], head[16];
	if (!place || bpf_skb_load_bytes(skb, place->at, ip, 20))
		return -1;
	u32 at = place->at + 40;
	u8 protocol = ip[6];
	if (place->version == 4) {
		u32 header = (ip[0] & 15) * 4;
		if (header < 20 || (ip[6] & 0x1f) || ip[7])
			return -1;
		at = place->at + header;
		protocol = ip[9];
	}
	if (protocol == IP_IN_IP || protocol == IPV6_IN_IP) {
		place->at = at;
		place->version = protocol == IP_IN_IP ? 4 : 6;
		return 0;
	}
	if (protocol == GRE) {
		// Version 0, and no source route, which was never used.
		if (bpf_skb_load_bytes(skb, at, head, 4) || (head[0] & 0x40) || (head[1] & 7))
			return -1;
		at += 4 + (head[0] >> 7) * 4 + (head[0] >> 5 & 1) * 4 + (head[0] >> 4 & 1) * 4;
		return find_carried(skb, at, head[2] << 8 | head[3], place);
	}
	if (protocol != UDP || bpf_skb_load_bytes(skb, at, head, 16))
		return -1;
	u16 from = head[0] << 8 | head[1], to = head[2] << 8 | head[3];
	at += 16;
	if (to == VXLAN || to == OLD_VXLAN)
		return head[8] == 8 ? find_typed(skb, at + 12, place) : -1;
	if (to == GENEVE)
		return head[8] >> 6 ? -1 : find_carried(skb, at + (head[8] & 0x3f) * 4, head[10] << 8 | head[11], place);
	return from == GTP_U || to == GTP_U ? find_in_gtp(skb, head + 8, at, place) : -1;
}

static __always_inline u32 find_tcp(struct __sk_buff *skb, const struct place *place, struct ends *e)
{
	return place->version == 4 ? read_ipv4(skb, place->at, e) : place->version == 6 ? read_ipv6(skb, place->at, e) : 0;
}

// Ethernet, IPv4 without options or fragments, and TCP. Nearly all packets are so, or as below, and cost less for it. `head` has the
// 54 bytes up to the end of TCP's fixed header. Returns the offset of TCP, or 0.
static __always_inline u32 plain_ipv4(const u8 *head, struct ends *e)
{
	if (head[12] != 0x08 || head[13] != 0 || head[14] != 0x45 || head[23] != TCP || (head[20] & 0x1f) || head[21])
		return 0;
	__builtin_memcpy(&e->source[0], head + 26, 4);
	__builtin_memcpy(&e->destination[0], head + 30, 4);
	__builtin_memcpy(e->ports, head + 34, 4);
	e->version = 4;
	return 34;
}

// The same of IPv6 without extension headers. TCP's header is behind the bytes.
static __always_inline u32 plain_ipv6(const u8 *head, struct ends *e)
{
	if (head[12] != 0x86 || head[13] != 0xdd || head[14] >> 4 != 6 || head[20] != TCP)
		return 0;
	__builtin_memcpy(e->source, head + 22, 16);
	__builtin_memcpy(e->destination, head + 38, 16);
	e->version = 6;
	return 54;
}

// How many bytes of any packet are kept, wherever its headers are.
CHECKED_ONCE u32 kept_of_any(struct __sk_buff *skb, u32 leaves)
{
	// They are not passed: without CAP_PERFMON, a rule's place could not be computed from an argument.
	u32 zero = 0;
	const struct settings *settings = bpf_map_lookup_elem(&settings_map, &zero);
	if (!settings)
		return 0;
	struct place place = { 0 };
	struct ends e = { 0 };
	if (find_ip(skb, settings->raw, &place))
		return 0;
	u32 at = find_tcp(skb, &place, &e);
	// As everywhere in Tidegate, the flow is the one inside. TCP that carries packets itself is not looked into.
	if (!at && settings->tunnels && !enter_tunnel(skb, &place))
		at = find_tcp(skb, &place, &e);
	u8 tcp[20];	// a shorter header is none
	if (!at || bpf_skb_load_bytes(skb, at, tcp, sizeof(tcp)))
		return 0;
	__builtin_memcpy(e.ports, tcp, 4);
	return kept(skb, settings, &e, leaves, at, tcp[12]);
}
