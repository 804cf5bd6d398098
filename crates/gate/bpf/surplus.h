// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How much more than its rate an aggregate used lately, by the books that looks begin, and what that leaves to single queues.
#pragma once
#include "meter.h"

// The part of a filled queue's burst bucket that a queue has in any case: 1 in 2^LEAST_SHIFT.
enum { LEAST_SHIFT = 3 };

// By how much the bytes that passed exceed the rate, from a look on that found no surplus. The service of a second at most
// is set against it.
static __always_inline u64 surplus(const struct limiter *s, const struct plan *plan, const u32 *granted, u64 now)
{
	u64 elapsed = least(now + plan->period - s->due, SECOND), passed = s->passed_bytes - s->base;
	// The threshold is the rate of two periods.
	u64 served = granted_of(granted, plan->upper) * elapsed / (2 * plan->period);
	return passed > served ? passed - served : 0;
}

// What the burst bucket of a queue that is not filled may hold, were it alone.
ASIDE u64 allowance(const struct limiter *s, const struct plan *plan, const u32 *granted, u64 now)
{
	u64 upper = granted_of(granted, plan->upper), left = 2 * (upper - least(surplus(s, plan, granted, now), upper)), few = upper >> LEAST_SHIFT;
	return left > few ? left : few;
}
