// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets at tc, with and without a link layer.
#pragma once

enum {
	NEXT = -1,	// TCX_NEXT and TC_ACT_UNSPEC: the next program decides
	SHOT = 2,	// TCX_DROP and TC_ACT_SHOT
	HEADERS = 128,	// bytes at the beginning that must be contiguous
};

static __always_inline void tc_mark(struct __sk_buff *skb, const struct packet *p, int verdict)
{
	u8 header[12], class = class_of(p, verdict);
	if (!p->family || class == (p->dscp << 2 | p->ecn) || bpf_skb_load_bytes(skb, p->ip, header, 12))
		return;
	mark(header, p->family, class);
	// A checksum that the network card made of the whole packet must be updated, or the packet counts
	// as damaged: IPv6 has no header checksum that would compensate.
	bpf_skb_store_bytes(skb, p->ip, header, 12, BPF_F_RECOMPUTE_CSUM);
}

// The verifier checks functions that are not static once for all callers, without their knowledge.
__attribute__((noinline)) int tc_parse_ip(struct __sk_buff *skb, struct packet *p, u32 type)
{
	if (!p)
		return 0;
	struct bytes from = {
		.data = (void *)(long)skb->data, .end = (void *)(long)skb->data_end, .length = skb->len
	};
	u32 segment = skb->gso_size;
	parse_ip(p, &from, type, segment);
	u32 headers = p->headers;
	if (segment && headers < from.length) {
		u32 packets = skb->gso_segs;
		if (!packets)
			packets = (from.length - headers + segment - 1) / segment;
		if (packets > 0xffff)
			packets = 0xffff;
		if (packets > 1) {
			p->packets = packets;
			p->length = from.length + (packets - 1) * headers;
			// For outgoing packets the kernel also knows the headers inside tunnels.
			if (skb->wire_len > p->length)
				p->length = skb->wire_len;
		}
	}
	return 0;
}

// Reads a packet's headers. Returns the bytes of a tag that is on the wire, but not in the buffer.
static __always_inline u32 tc_read(struct __sk_buff *skb, struct packet *p, int link_layer)
{
	if (p->direction)
		p->interface = skb->ifindex;
	struct bytes from = {
		.data = (void *)(long)skb->data, .end = (void *)(long)skb->data_end, .length = skb->len
	};
	if (from.data + HEADERS > from.end && from.length > from.end - from.data) {
		bpf_skb_pull_data(skb, from.length < HEADERS ? from.length : HEADERS);
		from.data = (void *)(long)skb->data;
		from.end = (void *)(long)skb->data_end;
	}
	u32 tag = 0, type;
	if (link_layer) {
		if (skb->vlan_present) {
			tag = 4;
			p->outer = skb->vlan_tci & 0xfff;
			p->tags = p->outer != 0;
		}
		type = parse_frame(p, &from);
	} else {
		type = __builtin_bswap16(skb->protocol);
	}
	tc_parse_ip(skb, p, type);
	p->length += tag * p->packets;
	p->ip += tag;
	return tag;
}

static __always_inline int tc_decide(struct __sk_buff *skb, struct packet *p, u32 tag)
{
	int verdict = judge(p);
	if (p->watched & WATCHES)
		watch(p, verdict);
	if (p->watched & SHADOWS)
		verdict = PASS;
	p->ip -= tag;
	if (verdict == EXCESS)
		return SHOT;
	if (verdict == CE || verdict >= MARKED)
		tc_mark(skb, p, verdict);
	return NEXT;
}
