// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs that examples/bench.rs measures. Each first turns the packet of the run into one of many
// subscribers' flows, by a counter that also gives the time. Then it does the work that is measured.
#include "gate.bpf.c"

struct {
	u64 now[2];	// of each network, in 2^-16 ns
	u64 gap;	// from one packet to the next, in 2^-16 ns
	u64 asked;	// the answer of the clock
	u32 network;	// 0: subscribers are in 10/8; 1: in 11/8
	u32 subscribers;
	u32 each;	// packets to each subscriber in turn; 0: in no order
	u32 drawn;
} volatile run = { .subscribers = 1 };

struct bare {
	struct bpf_spin_lock lock;
	u32 spare;
	u64 at, tokens;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 17);
	__type(key, u32);
	__type(value, struct bare);
} bare_buckets SEC(".maps");

// Puts the next subscriber's address and one of 16 ports into a frame of IPv4 and UDP, and sets the
// time. Returns the subscriber's number.
static __always_inline u32 draw(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	u32 zero = 0, number = run.drawn++;
	u64 *now = bpf_map_lookup_elem(&test_time, &zero);
	u32 network = run.network & 1;
	u32 mixed = (number ^ number >> 15) * 0x9e3779b1u;
	mixed ^= mixed >> 15;
	u32 subscriber = (u64)mixed * run.subscribers >> 32;
	if (run.each)
		subscriber = number / run.each;
	if (!now || data + 42 > end)
		return 0;
	run.now[network] += run.gap;
	*now = run.now[network] >> 16;
	*(u32 *)(data + 30) = __builtin_bswap32((10 + network) << 24 | subscriber);
	*(u16 *)(data + 34) = number & 15;
	return subscriber;
}

SEC("xdp.frags") int bench_empty(struct xdp_md *ctx)
{
	draw(ctx);
	return XDP_PASS;
}

// A token bucket alone, without parsing and lookup.
SEC("xdp.frags") int bench_bare(struct xdp_md *ctx)
{
	u32 number = draw(ctx);
	struct bare *bare = bpf_map_lookup_elem(&bare_buckets, &number);
	if (!bare)
		return XDP_PASS;
	run.asked = bpf_ktime_get_ns();
	u64 now = packet_time(), size = 100000, bytes = ctx->data_end - ctx->data;
	int verdict = XDP_DROP;
	bpf_spin_lock(&bare->lock);
	u64 tokens = bare->tokens + (now - bare->at) * 1000 / 8000;
	bare->at = now;
	if (tokens > size)
		tokens = size;
	if (tokens >= bytes) {
		tokens -= bytes;
		verdict = XDP_PASS;
	}
	bare->tokens = tokens;
	bpf_spin_unlock(&bare->lock);
	return verdict;
}

SEC("xdp.frags") int bench_gate(struct xdp_md *ctx)
{
	draw(ctx);
	// The result is not used, but the call takes time.
	run.asked = bpf_ktime_get_ns();
	return xdp(ctx, 0, 1);
}
