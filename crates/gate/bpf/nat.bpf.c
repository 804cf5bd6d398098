// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs for an interface outside of address translation (NAT). Packets have a public address there, so they ask
// the kernel's table of connections for the address inside. They are in an object of their own: other gates do not pay
// for the question, and do not need a kernel that answers it.
#include "judge.h"
#include "mark.h"
#include "parse.h"
#include "watch.h"
#include "tc.h"
#include "nat.h"

static __always_inline int nat(struct __sk_buff *skb, u8 direction, int link_layer)
{
	struct packet p = { .direction = direction, .packets = 1, .length = skb->len };
	u32 tag = tc_read(skb, &p, link_layer);
	look_inside(skb, &p);
	return tc_decide(skb, &p, tag);
}

SEC("tc") int nat_down(struct __sk_buff *skb) { return nat(skb, 0, 1); }
SEC("tc") int nat_up(struct __sk_buff *skb) { return nat(skb, 1, 1); }
SEC("tc") int nat_down_ip(struct __sk_buff *skb) { return nat(skb, 0, 0); }
SEC("tc") int nat_up_ip(struct __sk_buff *skb) { return nat(skb, 1, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
