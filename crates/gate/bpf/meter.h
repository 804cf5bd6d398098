// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The meter of crates/limiter/src/meter.rs, without numbers of 128 bits.
#pragma once
#include "numbers.h"

#define BYTE 8000000000ULL	// bit-nanoseconds
enum { SECOND = 1000000000 };	// ns

// A share of a number, see crates/limiter/src/hierarchy.rs. It is read from memory, as registers are few.
static __always_inline u64 granted_of(const u32 *granted, u64 number)
{
	u64 share = FRESH(*granted);
#ifndef __bpf__
	// Most limiters have no node above, and processors guess that well.
	if (share == WHOLE)
		return number;
#endif
	return (number >> SHARE_BITS) * share + ((number & (WHOLE - 1)) * share >> SHARE_BITS);
}

// A share of a rate, which is at least 1.
static __always_inline u64 rate_of(const u32 *granted, u64 rate)
{
	u64 part = granted_of(granted, rate);
	return part | !part;
}

// The bytes of a time whose bits do not fit into 64 bits. The result is 2^62 if it exceeds any queue or
// bucket; the remainder does not matter then.
ASIDE u64 bytes_of_long(u64 rate, u64 elapsed, u64 *remainder)
{
	// The time is split into 4096 s, seconds, chunks of 8 ms and the rest, so that no product overflows
	// at up to 2^39 bit/s.
	u64 seconds = elapsed / 1000000000, rest = elapsed - seconds * 1000000000;
	u64 many = rate * (seconds >> 12);
	if (many >> 51)
		return 1ULL << 62;
	u64 bits = (many << 12) + rate * (seconds & 4095);
	u64 chunks = rest / 8000000, chunked = rate * chunks;
	u64 thousands = chunked / 1000;
	u64 below = (bits & 7) * 1000000000 + (chunked - thousands * 1000) * 8000000
		+ rate * (rest - chunks * 8000000) + *remainder;
	u64 bytes = below / BYTE;
	*remainder = below - bytes * BYTE;
	return (bits >> 3) + thousands + bytes;
}

// Whole bytes since the last time, or 0 if the time is earlier.
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
