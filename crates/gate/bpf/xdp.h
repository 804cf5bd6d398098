// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets at XDP, in the driver or after it.
#pragma once

static __always_inline void xdp_mark(struct xdp_md *ctx, const struct packet *p, int verdict)
{
	u8 header[12], class = class_of(p, verdict);
	if (!p->family || class == (p->dscp << 2 | p->ecn) || bpf_xdp_load_bytes(ctx, p->ip, header, 12))
		return;
	mark(header, p->family, class);
	bpf_xdp_store_bytes(ctx, p->ip, header, 12);
}

__attribute__((noinline)) int xdp_parse_ip(struct xdp_md *ctx, struct packet *p, u32 type)
{
	if (!p)
		return 0;
	struct bytes from = {
		.data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end, .length = p->length
	};
	parse_ip(p, &from, type, 0);
	return 0;
}

static __always_inline int xdp(struct xdp_md *ctx, u8 direction, int link_layer)
{
	u32 length = bpf_xdp_get_buff_len(ctx);
	struct packet p = { .direction = direction, .packets = 1, .length = length };
	if (direction)
		p.interface = ctx->ingress_ifindex;
	struct bytes from = {
		.data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end, .length = length
	};
	u32 type = TYPE_IPV4;
	if (link_layer)
		type = parse_frame(&p, &from);
	else if (from.data + 1 <= from.end && from.data[0] >> 4 == 6)
		type = TYPE_IPV6;
	xdp_parse_ip(ctx, &p, type);
	int verdict = judge(&p);
	if (p.watched & WATCHES)
		watch(&p, verdict);
	if (p.watched & SHADOWS)
		verdict = PASS;
	if (verdict == EXCESS)
		return XDP_DROP;
	if (verdict == CE || verdict >= MARKED)
		xdp_mark(ctx, &p, verdict);
	return XDP_PASS;
}

SEC("xdp.frags") int xdp_down(struct xdp_md *ctx) { return xdp(ctx, 0, 1); }
SEC("xdp.frags") int xdp_up(struct xdp_md *ctx) { return xdp(ctx, 1, 1); }
SEC("xdp.frags") int xdp_down_ip(struct xdp_md *ctx) { return xdp(ctx, 0, 0); }
SEC("xdp.frags") int xdp_up_ip(struct xdp_md *ctx) { return xdp(ctx, 1, 0); }
