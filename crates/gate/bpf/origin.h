// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where packets from subscribers come from.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "types.h"

// By limiter.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGES * PAGE / 2);	// a subscriber has two limiters
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct binding);
} bindings SEC(".maps");

// The numbers of interfaces where packets from subscribers come in, by the kernel's.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PORTS);
	__type(key, u32);
	__type(value, u32);
} ports SEC(".maps");

// Whether a packet from a subscriber does not come from where the subscriber is bound to. This is not known where
// packets from subscribers go out.
static __always_inline int is_spoofed(const struct packet *p)
{
	u32 interface = p->interface, limiter = p->seat.limiter;
	u32 *port = bpf_map_lookup_elem(&ports, &interface);
	struct binding *bound = bpf_map_lookup_elem(&bindings, &limiter);
	if (!port || !bound)
		return 0;
	u32 tags = (u32)p->outer << 16 | p->inner;
	return (bound->port && bound->port != *port) || (bound->mac && bound->mac != p->mac)
		|| (bound->tags && bound->tags != tags);
}

// Whether the source is the unspecified address, which hosts have that ask for one (RFC 2131, RFC 4862), or an
// address that routers do not forward (fe80::/10).
static __always_inline int has_no_address(const struct packet *p)
{
	if (p->family == 4)
		return !p->source[3];
	return (p->source[0] & 0xc0ff) == 0x80fe || !(p->source[0] | p->source[1] | p->source[2] | p->source[3]);
}
