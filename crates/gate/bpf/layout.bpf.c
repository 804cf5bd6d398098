// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Never loaded: build/layout.rs reads from the debug information of this object how the types that
// user space shares with the programs lie in memory. The compiler describes only what is used.
#include <linux/bpf.h>
#include "types.h"

struct {
	enum sizes sizes;
	enum scheme scheme;
	enum control control;
	enum link link;
	enum reason reason;
	enum frames frames;
	struct limiter limiter;
	struct plan plan;
	struct node node;
	struct shape shape;
	struct rules rules;
	struct seat seat;
	struct seats seats;
	enum known known;
	struct binding binding;
	struct link_key link_key;
	struct key4 key4;
	struct key6 key6;
	struct settings settings;
	struct tally tally;
	struct flow_key flow_key;
	struct flow flow;
	struct line line;
	enum watched watched;
	enum trips trips;
} shared;
