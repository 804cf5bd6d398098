// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When packets of ECN-capable senders are marked, see crates/limiter/src/phantom/marks.rs.
#pragma once
#include "numbers.h"
#include "types.h"

// RFC 9331: the sender wants marks early.
enum { ECT1 = 1 };
// The excess of a sender over its rate is multiplied by this before it is subtracted from the room.
enum { TREND = 3 };

// By how many bytes a filled queue accepted more lately than it was served. The next look is due in `left`, and in two
// periods it is served so much.
static __always_inline s64 exceeded(const struct plan *plan, const struct queue *queue, u64 left, u64 served)
{
	u64 periods = 2 * plan->period;
	return queue->accepted - served * (periods - left) / periods;
}

// The verdict on a packet that left this much room, where it is marked below this level.
static __always_inline int mark_below(const struct plan *plan, u64 room, u64 level, s64 exceeded, u32 ecn)
{
	s64 expected = room - exceeded * TREND;
	return expected < (s64)(least(level, plan->size / 4) << (ecn == ECT1)) ? CE : PASS;
}
