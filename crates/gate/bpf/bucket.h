// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The token bucket of crates/limiter/src/bucket.rs.
#pragma once
#include "meter.h"

static __always_inline void bucket_refill(struct limiter *s, u64 rate, u64 direct, u64 size, u64 now)
{
	u64 bytes = meter_advance(s, rate, direct, now), tokens = s->tokens + bytes;
	if (tokens < bytes || tokens >= size) {
		tokens = size;
		s->remainder = 0;
	}
	s->tokens = tokens;
}

static __always_inline int bucket_offer(struct limiter *s, const struct plan *plan, u64 rate, u64 now, u32 bytes)
{
	bucket_refill(s, rate, plan->direct, plan->size, now);
	u64 tokens = s->tokens;
	if (tokens < bytes)
		return EXCESS;
	s->tokens = tokens - bytes;
	return PASS;
}
