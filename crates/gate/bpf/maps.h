// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the programs know: settings, seats, plans and limiters.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct settings);
} settings SEC(".maps");

// The index of the settings that are in force.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} current SEC(".maps");

// The clock of a test.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} test_time SEC(".maps");
const volatile u8 timed_by_test = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, u32);
	__type(value, struct tally);
} strangers SEC(".maps");

// When the frames without IP of a group of senders are through at their rate, by direction.
struct sender {
	struct bpf_spin_lock lock;
	u32 spare;
	u64 until;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * SENDERS);
	__type(key, u32);
	__type(value, struct sender);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct key4);
	__type(value, struct seats);
} seats4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct key6);
	__type(value, struct seats);
} seats6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LINKS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct link_key);
	__type(value, struct seats);
} seats_link SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLANS);
	__type(key, u32);
	__type(value, struct plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NODES);
	__type(key, u32);
	__type(value, struct node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, u32);
	__type(value, struct shape);
} shapes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, u32);
	__type(value, struct rules);
} rule_sets SEC(".maps");

// Limiters are allocated in pages, so that their number can grow while none moves. Maps that can be
// mapped into memory begin at a page of memory, which aligns limiters to cache lines.
struct page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PAGE);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct limiter);
} page_of_limiters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PAGES);
	__type(key, u32);
	__array(values, struct page);
} pages SEC(".maps") = { .values = { &page_of_limiters } };

static __always_inline void count(u32 reason, u32 packets, u32 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(&strangers, &reason);
	if (!tally)
		return;
	tally->packets += packets;
	tally->bytes += bytes;
}

static __always_inline u64 packet_time(void)
{
	u32 zero = 0;
	if (!timed_by_test)
		return bpf_ktime_get_ns();
	u64 *given = bpf_map_lookup_elem(&test_time, &zero);
	return given ? *given : 0;
}
