// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The filter of a packet socket. It says how many bytes of a packet are kept: the headers up to the end of TCP's if the
// packet's flow is sampled, else none.
#include "headers.h"

SEC("socket")
int sample(struct __sk_buff *skb)
{
	u32 zero = 0;
	const struct settings *settings = bpf_map_lookup_elem(&settings_map, &zero);
	if (!settings)
		return 0;
	u32 leaves = skb->pkt_type == OUTGOING;
	u8 head[54];
	if (settings->raw || bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
		return kept_of_any(skb, leaves);
	struct ends e = { 0 };
	if (plain_ipv4(head, &e))
		return kept(skb, settings, &e, leaves, 34, head[46]);
	u8 tcp[20];
	if (plain_ipv6(head, &e) && !bpf_skb_load_bytes(skb, 54, tcp, sizeof(tcp))) {
		__builtin_memcpy(e.ports, tcp, 4);
		return kept(skb, settings, &e, leaves, 54, tcp[12]);
	}
	return kept_of_any(skb, leaves);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
