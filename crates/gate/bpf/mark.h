// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Marks packets that exceed the limit and are not dropped, or whose senders are to slow down.
#pragma once
#include "types.h"

// The traffic class of a packet that gets this verdict: another code point (RFC 2474), or the ECN field
// "congestion experienced" (RFC 3168). The other bits stay.
static __always_inline u8 class_of(const struct packet *p, int verdict)
{
	return verdict == CE ? p->dscp << 2 | 3 : (verdict - MARKED) << 2 | p->ecn;
}

// Writes another traffic class into the first 12 bytes of an IP header. Behind PPP the header may be at an odd offset, where the kernel's checksum helper fails.
static __always_inline void mark(u8 header[12], u8 family, u8 class)
{
	if (family == 4) {
		u32 before = header[0] << 8 | header[1], sum = header[10] << 8 | header[11];
		header[1] = class;
		// RFC 1624, equation 3.
		sum = (~sum & 0xffff) + (~before & 0xffff) + (header[0] << 8 | header[1]);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = ~((sum & 0xffff) + (sum >> 16));
		header[10] = sum >> 8;
		header[11] = sum;
	} else {
		header[0] = (header[0] & 0xf0) | class >> 4;
		header[1] = (header[1] & 0x0f) | (class & 0x0f) << 4;
	}
}
