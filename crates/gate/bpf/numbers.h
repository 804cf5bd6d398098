// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Arithmetic that the verifier follows quickly.
#pragma once
#include "types.h"

static __always_inline u64 divide_up(u64 number, u32 by)
{
	return (number + by - 1) / by;
}

#ifdef __bpf__
// The following code avoids branches: the verifier follows each of them in each round of each loop.
// Numbers are below 2^63.

// 1 if not 0.
static __always_inline u64 any(u64 number)
{
	u64 some = -number;
	OPAQUE(some);	// otherwise the compiler makes it a branch
	return some >> 63;
}

static __always_inline u64 least(u64 one, u64 other)
{
	long long less = (long long)(one - other) >> 63;
	return other + ((one - other) & (u64)less);
}

// The number of the lowest set bit, without a branch.
static __always_inline u32 lowest(u32 set)
{
	set &= -set;
	return any(set & 0xaaaaaaaa) | any(set & 0xcccccccc) << 1 | any(set & 0xf0f0f0f0) << 2
		| any(set & 0xff00ff00) << 3 | any(set & 0xffff0000) << 4;
}

// A value from memory. The verifier does not remember what earlier branches said about it.
#define FRESH(value) (*(volatile typeof(value) *)&(value))

// Bounds an index. The verifier reaches the path that is never taken last. Its range is part of the
// other path's, so the verifier does not follow it.
#define BELOW(index, bound) \
	asm volatile("if %0 > %1 goto +1; goto +1; %0 &= 3" : "+r"(index) : "i"((bound) - 1))

#else
// Where no verifier looks, processors have instructions for these.
static __always_inline u64 any(u64 number) { return number != 0; }
static __always_inline u64 least(u64 one, u64 other) { return one < other ? one : other; }
static __always_inline u32 lowest(u32 set) { return set ? __builtin_ctz(set) : 0; }
#define FRESH(value) (value)
#define BELOW(index, bound) do { if ((index) >= (bound)) __builtin_trap(); } while (0)
#endif
