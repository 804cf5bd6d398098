// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs of the gate: they parse packets, find their limiter, and let it decide.
#include "judge.h"
#include "mark.h"
#include "parse.h"
#include "watch.h"
#include "tc.h"
#include "xdp.h"

static __always_inline int tc(struct __sk_buff *skb, u8 direction, int link_layer)
{
	struct packet p = { .direction = direction, .packets = 1, .length = skb->len };
	u32 tag = tc_read(skb, &p, link_layer);
	return tc_decide(skb, &p, tag);
}

SEC("tc") int tc_down(struct __sk_buff *skb) { return tc(skb, 0, 1); }
SEC("tc") int tc_up(struct __sk_buff *skb) { return tc(skb, 1, 1); }
SEC("tc") int tc_down_ip(struct __sk_buff *skb) { return tc(skb, 0, 0); }
SEC("tc") int tc_up_ip(struct __sk_buff *skb) { return tc(skb, 1, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
