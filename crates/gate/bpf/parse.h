// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Parses packets, which may be hostile. All fields that can be read are used, and errors are noted in
// `reason`. So malformed packets are charged to the subscriber whose addresses they carry.
#pragma once
#include "types.h"

enum {
	TAGS = 8,	// most VLAN tags, MPLS labels and SNAP headers that are followed, with tags of number 0
	EXTENSIONS = 8,	// IPv6 extension headers that are followed are fewer than this
	OPTIONS = 8,	// options of TCP among which timestamps are looked for
	FARTHEST_IP = 80,	// largest offset of an IP header
	FARTHEST = 0xfff,	// largest offset of a transport header behind them
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
	TYPE_DISCOVERY = 0x8863,	// of PPPoE
	TYPE_MPLS = 0x8847,
	TYPE_MPLS_MANY = 0x8848,	// with labels that are assigned upstream, RFC 5332
	TYPE_ARP = 0x0806,
	TYPE_LLDP = 0x88cc,
	TYPE_LEAST = 0x0600,	// smaller numbers are lengths (IEEE 802.3 §3.2.6)
};

// The bytes that can be read, and the number of bytes including those that cannot.
struct bytes {
	const u8 *data, *end;
	u32 length;
};

// The address of `count` bytes at an offset, or 0 if they cannot be read.
static __always_inline const u8 *piece(const struct bytes *from, u32 offset, u32 count)
{
	const u8 *at = from->data + offset;
	OPAQUE(at);
	return at + count <= from->end ? at : 0;
}

static __always_inline u32 word16(const u8 *at)
{
	return at[0] << 8 | at[1];
}

static __always_inline u32 word32(const u8 *at)
{
	return (u32)at[3] << 24 | at[2] << 16 | at[1] << 8 | at[0];
}

static __always_inline void note(struct packet *p, u8 reason)
{
	if (!p->reason)
		p->reason = reason;
}

// What of TCP is watched, see watch.h. Its header has `size` bytes.
static __always_inline void parse_tcp(struct packet *p, const struct bytes *from, u32 at, u32 size)
{
	const u8 *tcp = piece(from, at, 20);
	if (!tcp)
		return;
	u32 flags = tcp[13], ends = (flags & 1) + (flags >> 1 & 1), offset = 20;	// FIN and SYN
	u32 takes = (p->length > p->headers ? p->length - p->headers : 0) + ends;
	p->end = __builtin_bswap32(word32(tcp + 4)) + takes;
	p->answered = __builtin_bswap32(word32(tcp + 8));
	p->watched = READ | (flags >> 4 & 1 ? ANSWERS : 0) | (takes ? CARRIES : 0);
	for (u32 i = 0; i < OPTIONS; i++) {
		const u8 *option = piece(from, at + offset, 10);
		if (!option || offset + 10 > size)
			return;
		// RFC 7323 §3.2, mostly behind two options that only fill (RFC 9293 §3.1).
		u32 filled = option[0] == 1 && option[1] == 1 ? 2 : option[0] == 1;
		if (filled) {
			offset += filled;
			continue;
		}
		if (option[0] == 8 && option[1] == 10) {
			p->stamp = __builtin_bswap32(word32(option + 2));
			p->answered = __builtin_bswap32(word32(option + 6));
			p->watched |= STAMPED;
			return;
		}
		if (!option[0] || option[1] < 2)
			return;
		offset += option[1];
		OPAQUE(offset);
		offset &= 63;	// the verifier sees the same range each time
	}
}

static __always_inline void parse_transport(struct packet *p, const struct bytes *from, u32 at, int whole)
{
	p->headers = at;
	u8 protocol = p->protocol;
	if (!whole)
		return;
	const u8 *header;
	if (protocol == 6 && (header = piece(from, at, 14))) {
		u32 size = (header[12] >> 4) * 4;
		p->headers = at + (size < 20 ? 20 : size);
		parse_tcp(p, from, at, size);
	} else if (protocol == 17) {
		p->headers = at + 8;
	}
	// RFC 9293, 768, 4340, 9260, 3828: these protocols begin with their ports.
	if (protocol != 6 && protocol != 17 && protocol != 33 && protocol != 132 && protocol != 136)
		return;
	const u8 *ports = piece(from, at, 4);
	if (!ports) {
		note(p, BAD_TOTAL_LENGTH);
		return;
	}
	p->ports = word32(ports);
	p->has_ports = 1;
}

// RFC 791.
static __always_inline void parse_ipv4(struct packet *p, const struct bytes *from, u32 at, int segments)
{
	const u8 *ip = piece(from, at, 20);
	if (!ip) {
		note(p, SHORT_IP);
		return;
	}
	p->family = 4;
	p->source[2] = p->destination[2] = MAPPED;
	p->source[3] = word32(ip + 12);
	p->destination[3] = word32(ip + 16);
	p->protocol = ip[9];
	p->dscp = ip[1] >> 2;
	p->ecn = ip[1] & 3;
	u32 header = (ip[0] & 15) * 4, total = word16(ip + 2), there = from->length - at;
	if (ip[0] >> 4 != 4) {
		note(p, BAD_VERSION);
		return;
	}
	if (header < 20 || header > there) {
		note(p, BAD_HEADER_LENGTH);
		return;
	}
	if (!segments) {
		if (total < header || total > there)
			note(p, BAD_TOTAL_LENGTH);
		// Short frames are padded (IEEE 802.3): the padding is not part of the packet.
		else if (from->length <= 60)
			p->length = at + total;
	}
	// Only the first fragment has ports, and all fragments are to share a queue: none uses ports.
	parse_transport(p, from, at + header, !(word16(ip + 6) & 0x3fff));
}

// RFC 8200.
static __always_inline void parse_ipv6(struct packet *p, const struct bytes *from, u32 at, int segments)
{
	const u8 *ip = piece(from, at, 40);
	if (!ip) {
		note(p, SHORT_IP);
		return;
	}
	p->family = 6;
	for (u32 i = 0; i < 4; i++) {
		p->source[i] = word32(ip + 8 + 4 * i);
		p->destination[i] = word32(ip + 24 + 4 * i);
	}
	p->dscp = (ip[0] & 15) << 2 | ip[1] >> 6;
	p->ecn = ip[1] >> 4 & 3;
	p->protocol = ip[6];
	u32 total = word16(ip + 4), there = from->length - at, hops = ip[7];
	if (ip[0] >> 4 != 6) {
		note(p, BAD_VERSION);
		return;
	}
	// A length of 0 is a jumbogram's (RFC 2675), such as the kernel's own large segments.
	if (!segments && total) {
		if (total + 40 > there)
			note(p, BAD_TOTAL_LENGTH);
		else if (from->length <= 60)
			p->length = at + total + 40;
	}
	u32 offset = at + 40, whole = 1;
	for (u32 i = 0; i < EXTENSIONS; i++) {
		u8 type = p->protocol;
		if (type != 0 && type != 43 && type != 44 && type != 51 && type != 60 && type != 135 && type != 139
		    && type != 140)
			break;
		const u8 *header = piece(from, offset, 8);
		if (!header || i == EXTENSIONS - 1) {
			note(p, header ? MANY_EXTENSIONS : BAD_HEADER_LENGTH);
			return;
		}
		u32 size = type == 44 ? 8 : type == 51 ? (header[1] + 2) * 4 : (header[1] + 1) * 8;
		// RFC 6946: an atomic fragment is a whole packet. Of the other fragments, only the first has the
		// headers that follow the fragment header.
		whole = type != 44 || !(word16(header + 2) & 0xfff9);
		p->protocol = header[0];
		offset += size;
		OPAQUE(offset);
		if (!whole)
			break;
		if (offset > FARTHEST) {
			note(p, MANY_EXTENSIONS);
			return;
		}
		offset &= FARTHEST;	// the verifier sees the same range each time
	}
	parse_transport(p, from, offset, whole);
	// Routers do not forward neighbour discovery (RFC 4861 §6.1, §7.1 and §8.1).
	const u8 *icmp = piece(from, offset, 1);
	if (p->protocol == 58 && whole && hops == 255 && icmp && icmp[0] >= 133 && icmp[0] <= 137)
		p->kind = NEIGHBOURS;
}

// An IP packet, which begins at p->ip.
static __always_inline void parse_ip(struct packet *p, const struct bytes *from, u32 type, int segments)
{
	u32 at = p->ip;
	if (at > FARTHEST_IP) {
		note(p, MANY_TAGS);
		return;
	}
	p->headers = at;
	if (type == TYPE_IPV4)
		parse_ipv4(p, from, at, segments);
	else if (type == TYPE_IPV6)
		parse_ipv6(p, from, at, segments);
	else
		note(p, NOT_IP);
}

static __always_inline int is_tag(u32 type)
{
	return type == TYPE_VLAN || type == TYPE_QINQ || type == TYPE_TAG1 || type == TYPE_TAG2;
}

static __always_inline int is_mpls(u32 type)
{
	return type == TYPE_MPLS || type == TYPE_MPLS_MANY;
}

// RFC 2516 §4. Returns the type of the packet in the session, or 0.
static __always_inline u32 parse_pppoe(struct packet *p, const struct bytes *from, u32 at)
{
	const u8 *pppoe = piece(from, at, 6), *ppp = piece(from, at, 7);
	if (!pppoe) {
		note(p, BAD_PPPOE);
		return 0;
	}
	p->session = word16(pppoe + 2);
	p->pppoe = 1;
	// Some receivers ignore version, type and code, so the rest is read anyway.
	if (word16(pppoe) != 0x1100)
		note(p, BAD_PPPOE);
	// A protocol has one byte or two, and its last byte is odd (RFC 1661 §2 and §6.5).
	u32 protocol = 0, size = 2;
	if (ppp && ppp[6] & 1) {
		protocol = ppp[6];
		size = 1;
	} else if ((ppp = piece(from, at, 8))) {
		protocol = word16(ppp + 6);
	} else {
		note(p, BAD_PPPOE);
		return 0;
	}
	p->ip = at + 6 + size;
	// Links are negotiated and kept by protocols from 0x8000 on (RFC 1661 §2).
	if (protocol >> 15)
		p->kind = PPP;
	return protocol == 0x21 ? TYPE_IPV4 : protocol == 0x57 ? TYPE_IPV6 : 0;
}

// What a frame that holds no IP packet is to the network, and who sent it.
static __always_inline void parse_other(struct packet *p, const u8 *link, u32 type)
{
	if (type == TYPE_ARP)
		p->kind = ARP;
	else if (type == TYPE_DISCOVERY)
		p->kind = PPP;
	else if (type == TYPE_LLDP)
		p->kind = LLDP;
	// Bridges do not forward frames to these addresses (IEEE 802.1Q §8.6.3): spanning tree, LACP, 802.1X.
	else if (!(word32(link) ^ 0x00c28001) && !link[4] && link[5] < 16)
		p->kind = BRIDGE;
	p->sender = word32(link + 8) ^ (u32)word16(link + 6) << 16 ^ (u32)p->outer << 12 ^ p->inner;
}

// An Ethernet frame with the headers between it and IP. One tag may be known already. Returns the type
// of the packet that begins at p->ip, or 0.
static __always_inline u32 parse_frame(struct packet *p, const struct bytes *from)
{
	const u8 *link = piece(from, 0, 14);
	if (!link) {
		note(p, SHORT_FRAME);
		return 0;
	}
	u32 type = word16(link + 12), at = 14;
	if (p->direction)
		p->mac = (u64)word32(link + 8) << 16 | word16(link + 6);
	if (type == TYPE_IPV4 || type == TYPE_IPV6) {
		p->ip = at;
		return type;
	}
	u32 more = 1;
	for (u32 i = 0; i < TAGS && more; i++) {
		// RFC 1042: a SNAP header with the type behind it. RFC 3032 §2.1: labels until the last one.
		u32 size = type < TYPE_LEAST ? 8 : 4;
		if (size == 4 && !is_tag(type) && !is_mpls(type))
			break;
		const u8 *header = piece(from, at, size);
		if (!header) {
			if (size == 8)
				break;
			note(p, SHORT_FRAME);
			return 0;
		}
		if (size == 8) {
			if (word32(header) != 0x0003aaaa || header[4] || header[5])
				break;
			type = word16(header + 6);
			// A length cannot follow.
			more = type >= TYPE_LEAST;
		} else if (is_mpls(type)) {
			if (header[2] & 1) {
				// Nothing says what follows. Routers also guess by the version of IP (RFC 4928 §2).
				const u8 *ip = piece(from, at + 4, 1);
				u32 version = ip ? *ip >> 4 : 0;
				type = version == 4 ? TYPE_IPV4 : version == 6 ? TYPE_IPV6 : 0;
				more = 0;
			}
		} else {
			u32 id = word16(header) & 0xfff;
			// A tag of number 0 only carries a priority (IEEE 802.1Q §9.6). The kernel accepts any
			// number of them.
			if (id) {
				if (p->tags >= 2) {
					note(p, MANY_TAGS);
					return 0;
				}
				if (p->tags)
					p->inner = id;
				else
					p->outer = id;
				p->tags++;
			}
			type = word16(header + 2);
		}
		at += size;
	}
	p->ip = at;
	if (is_tag(type) || is_mpls(type)) {
		note(p, MANY_TAGS);
		return 0;
	}
	if (type == TYPE_PPPOE)
		type = parse_pppoe(p, from, at);
	if (type != TYPE_IPV4 && type != TYPE_IPV6)
		parse_other(p, link, type);
	return type;
}
