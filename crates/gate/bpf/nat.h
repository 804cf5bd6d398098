// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The subscriber's address of a packet that carries a translated one.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "types.h"

// What is read of the kernel's types. libbpf finds the places of the fields in the running kernel.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
union nf_inet_addr {
	u32 all[4];
};
union nf_conntrack_man_proto {
	u16 all;
};
struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
};
struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
};
struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};
struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
};
#pragma clang attribute pop

// As in kernels before 6.10; later ones take this length too.
struct question {
	s32 netns, error;
	u8 protocol;
	u8 answered;	// the direction of the connection that was found: 0 for packets of the one who began it
	u8 spare[2];
};
enum { THIS_NETNS = -1 };

struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb, struct bpf_sock_tuple *tuple, u32 tuple_size,
				  struct question *question, u32 question_size) __ksym;
void bpf_ct_release(struct nf_conn *connection) __ksym;

// Reads a source, which may be one of two. The compiler must not compute the address that is read from: the verifier
// wants a known place.
#define READ_SOURCE(source)						\
	do {								\
		a = (source).u3.all[0];					\
		b = (source).u3.all[1];					\
		c = (source).u3.all[2];					\
		d = (source).u3.all[3];					\
		port = (source).u.all;					\
		OPAQUE(a);						\
		OPAQUE(port);						\
	} while (0)

// Puts the address and the port that the subscriber has inside in the place of those that the packet carries, if the
// kernel knows a connection of it. It knows connections by packets as they come in, so of a packet that goes out the
// reverse is asked for. Who sends in the other direction of the connection is inside.
PART int look_inside(struct __sk_buff *skb, struct packet *p)
{
	if (!p || !p->has_ports || (p->protocol != 6 && p->protocol != 17))
		return 0;
	u32 up = p->direction & 1, ports = p->ports;
	const u32 *from = up ? p->destination : p->source, *to = up ? p->source : p->destination;
	u16 far = up ? ports >> 16 : ports, near = up ? ports : ports >> 16;
	struct question question = { .netns = THIS_NETNS, .protocol = p->protocol };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *found;
	if (p->family == 4) {
		tuple.ipv4.saddr = from[3];
		tuple.ipv4.daddr = to[3];
		tuple.ipv4.sport = far;
		tuple.ipv4.dport = near;
		found = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv4), &question, sizeof(question));
	} else {
		for (u32 i = 0; i < 4; i++) {
			tuple.ipv6.saddr[i] = from[i];
			tuple.ipv6.daddr[i] = to[i];
		}
		tuple.ipv6.sport = far;
		tuple.ipv6.dport = near;
		found = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv6), &question, sizeof(question));
	}
	if (!found)
		return 0;
	u32 a, b, c, d;
	u16 port;
	if (question.answered)
		READ_SOURCE(found->tuplehash[0].tuple.src);
	else
		READ_SOURCE(found->tuplehash[1].tuple.src);
	bpf_ct_release(found);
	u32 *address = up ? p->source : p->destination;
	if (p->family == 4) {
		address[3] = a;
	} else {
		address[0] = a;
		address[1] = b;
		address[2] = c;
		address[3] = d;
	}
	p->ports = up ? (ports & 0xffff0000) | port : (ports & 0xffff) | (u32)port << 16;
	return 0;
}
