// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs of the gate: they parse packets, find their limiter, and let it decide.
#include "judge.h"
#include "mark.h"
#include "parse.h"
#include "watch.h"
#include "tc.h"
#include "xdp.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
