// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Marks packets that exceed the limit and are not dropped.
#pragma once
#include "types.h"

// Writes another code point (RFC 2474) into the first 12 bytes of an IP header. The ECN bits stay
// (RFC 3168). Behind PPP the header may be at an odd offset, where the kernel's checksum helper fails.
static __always_inline void mark(u8 header[12], u8 family, u8 dscp)
{
	if (family == 4) {
		u32 before = header[0] << 8 | header[1], sum = header[10] << 8 | header[11];
		header[1] = dscp << 2 | (header[1] & 3);
		// RFC 1624, equation 3.
		sum = (~sum & 0xffff) + (~before & 0xffff) + (header[0] << 8 | header[1]);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = ~((sum & 0xffff) + (sum >> 16));
		header[10] = sum >> 8;
		header[11] = sum;
	} else {
		header[0] = (header[0] & 0xf0) | dscp >> 2;
		header[1] = (header[1] & 0x3f) | (dscp & 3) << 6;
	}
}
