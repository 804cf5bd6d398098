// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The choice at the hooks of traffic control, where a packet that is not sampled costs only the choice: no copy of it is made, and it
// needs no time of arrival. Headers of sampled packets go to a ring, as `struct record`.
#include "headers.h"

enum {
	NEXT = -1,	// TCX_NEXT: the packet goes on as if this program were not there
	FEW = 128,	// bytes of a record with the headers of nearly all packets
	MOST = 4096,	// bytes of headers that are kept at most
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 26);	// user space changes it
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);	// so that it can be read without any right
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts_map SEC(".maps");

static __always_inline void fill(struct __sk_buff *skb, struct record *record, u32 keep, u32 leaves)
{
	record->at = bpf_ktime_get_ns();
	record->wire = skb->len;
	record->kept = keep;
	u32 marks = leaves ? OUTBOUND : skb->pkt_type < FROM_OTHERS ? INBOUND : 0;
	// Of what a virtual machine sends, the kernel knows the size of the pieces. It counts them, from 0 on, when it checks the headers.
	if (skb->gso_segs > 1 || (skb->gso_segs == 0 && skb->gso_size > 0))
		marks |= SUPER_PACKET;
	record->tag = 0;
	record->tag_type = 0;
	if (skb->vlan_present) {
		marks |= TAGGED;
		record->tag = skb->vlan_tci;
		record->tag_type = bpf_ntohs(skb->vlan_proto);
	}
	record->marks = marks;
}

// The kernel wants to know the size of a record before the program runs, so there are two.
#define HAND_ON(size)                                                                               \
	do {                                                                                        \
		struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record) + (size), 0); \
		if (!record)                                                                        \
			goto lost;                                                                  \
		fill(skb, record, keep, leaves);                                                    \
		if (keep < 1 || keep > (size) || bpf_skb_load_bytes(skb, 0, record->bytes, keep))   \
			record->kept = 0;                                                           \
		bpf_ringbuf_submit(record, wake);                                                   \
	} while (0)

CHECKED_ONCE int hand_on(struct __sk_buff *skb, u32 keep, u32 leaves)
{
	u32 zero = 0;
	struct counts *counts = bpf_map_lookup_elem(&counts_map, &zero);
	if (!counts)
		return 0;
	if (keep > skb->len)
		keep = skb->len;
	__sync_fetch_and_add(&counts->accepted, 1);
	// User space looks several times a second. It is woken only if the ring fills in between.
	u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA), size = bpf_ringbuf_query(&records, BPF_RB_RING_SIZE);
	u64 wake = waiting > size / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	if (keep <= FEW)
		HAND_ON(FEW);
	else
		HAND_ON(MOST);
	return 0;
lost:
	__sync_fetch_and_add(&counts->lost, 1);
	return 0;
}

static __always_inline int look(struct __sk_buff *skb, u32 leaves)
{
	u32 zero = 0;
	const struct settings *settings = bpf_map_lookup_elem(&settings_map, &zero);
	if (!settings)
		return NEXT;
	const u8 *head = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ends e = { 0 };
	u32 keep;
	if (!settings->raw && head + 54 <= end && plain_ipv4(head, &e)) {
		keep = kept(skb, settings, &e, leaves, 34, head[46]);
	} else if (!settings->raw && head + 74 <= end && plain_ipv6(head, &e)) {
		__builtin_memcpy(e.ports, head + 54, 4);
		keep = kept(skb, settings, &e, leaves, 54, head[66]);
	} else {
		keep = kept_of_any(skb, leaves);
	}
	if (keep)
		hand_on(skb, keep, leaves);
	return NEXT;
}

SEC("tc")
int arrives(struct __sk_buff *skb)
{
	return look(skb, 0);
}

SEC("tc")
int leaves(struct __sk_buff *skb)
{
	return look(skb, 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
