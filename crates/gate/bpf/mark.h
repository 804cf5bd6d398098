// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of packets that are beyond the limit and not dropped.
#pragma once
#include "types.h"

// Puts another code point into the first 12 bytes of an IP header, RFC 2474; the ECN bits stay
// (RFC 3168). After PPP it may be at an odd place, where the kernel's helper does no checksums.
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
