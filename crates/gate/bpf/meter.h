// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// crates/limiter/src/meter.rs, without numbers of 128 bits.
#pragma once
#include "types.h"

#define BYTE 8000000000ULL	// bit-nanoseconds

// Bytes of a time so long that its bits do not fit 64 bits; endless if more than any queue or bucket
// holds, which leaves no remainder that would matter.
static __always_inline u64 bytes_of_long(u64 rate, u64 elapsed, u64 *remainder)
{
	// Seconds, of these 4096 at a time; chunks of 8 ms; the rest: none of the products overflows
	// with up to 2^39 bit/s.
	u64 seconds = elapsed / 1000000000, rest = elapsed - seconds * 1000000000;
	u64 many = rate * (seconds >> 12);
	if (many >> 51)
		return ENDLESS;
	u64 bits = (many << 12) + rate * (seconds & 4095);
	u64 chunks = rest / 8000000, chunked = rate * chunks;
	u64 thousands = chunked / 1000;
	u64 below = (bits & 7) * 1000000000 + (chunked - thousands * 1000) * 8000000
		+ rate * (rest - chunks * 8000000) + *remainder;
	u64 bytes = below / BYTE;
	*remainder = below - bytes * BYTE;
	return (bits >> 3) + thousands + bytes;
}

// Whole bytes since the last time; none if the time is before it.
static __always_inline u64 meter_advance(struct limiter *s, u64 rate, u64 direct, u64 now)
{
	if (now < s->at)
		return 0;
	u64 elapsed = now - s->at;
	s->at = now;
	if (elapsed <= direct) {
		u64 total = rate * elapsed + s->remainder;
		u64 bytes = total / BYTE;
		s->remainder = total - bytes * BYTE;
		return bytes;
	}
	u64 remainder = s->remainder;
	u64 bytes = bytes_of_long(rate, elapsed, &remainder);
	s->remainder = remainder;
	return bytes;
}
