// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Decides about packets that came in together. While one is looked at, what the next ones need is fetched.
#pragma once
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>
#include "beside.h"
#include "watched.h"
#include "mark.h"
#include "parse.h"

// A packet's seat, limiter and queue are each asked for this many packets before they are needed.
enum { AHEAD = 6, HANDED = 2 };

// Fetches what most decisions read of a limiter: its first two cache lines, and of phantom queues also who has them, and
// what the crowd dropped. Returns a limiter with phantom queues, or 0.
static __always_inline struct limiter *prefetch_limiter(const struct packet *p)
{
	struct limiter *s = limiter_of(p);
	if (!s)
		return 0;
	rte_prefetch0(s);
	rte_prefetch0(s->shares);
	u32 scheme = memory.plans[p->seat.plan & (PLANS - 1)].scheme;
	if (scheme != PHANTOM)
		return scheme == BESIDE ? s : 0;
	rte_prefetch0(s->owners);
	rte_prefetch0(s->crowd.dropped);
	return s;
}

// Fetches the queue that the flow has, once it is known who has them. Where rules choose the class, it is the first one.
static __always_inline void prefetch_queue(const struct limiter *s, struct packet *p, const u64 *key, u64 four)
{
	const struct plan *plan = memory.plans + (p->seat.plan & (PLANS - 1));
	u32 first = plan->first, queues = plan->queues, queue = first;
	if (queues > 1 && !plan->rules) {
		p->flow = flow_hash(p, key, four);
		p->known |= HASHED | CLASSED;
		set_class(p, p->flow, first, queues);
		queue = p->queue;
		if (plan->control == BUCKET) {
			u32 found = owned(s, p);
			queue = found == NONE ? queue : found;
			p->ahead = found + 1;
		}
	}
	rte_prefetch0(s->queues + (queue & 31));	// it need not exist, since nothing is read
}

// Fetches the cache line where the seat of most packets is: under the longest prefixes.
static __always_inline void prefetch_seat(const struct packet *p, const struct settings *set)
{
	const u32 *address = p->direction & 1 ? p->source : p->destination;
	if (p->family == 4 && set->count4) {
		const struct length4 *length = set->lengths4;
		struct key4 key = { .address = address[3] & length->mask, .length = length->length };
		rte_prefetch0(slot_of(&memory.seats4, home_of(&memory.seats4, &key, sizeof(key)), sizeof(key)));
	} else if (p->family == 6 && set->count6) {
		const struct length6 *length = set->lengths6;
		struct key6 key = { .length = length->length };
		for (u32 i = 0; i < 4; i++)
			key.address[i] = address[i] & length->mask[i];
		rte_prefetch0(slot_of(&memory.seats6, home_of(&memory.seats6, &key, sizeof(key)), sizeof(key)));
	}
}

static __always_inline void mark_packet(struct rte_mbuf *m, const struct packet *p, int verdict)
{
	u8 class = class_of(p, verdict);
	if (p->family && class != (p->dscp << 2 | p->ecn) && p->ip + 12 <= rte_pktmbuf_data_len(m))
		mark(rte_pktmbuf_mtod_offset(m, u8 *, p->ip), p->family, class);
}

// Reads the headers of a packet.
static __always_inline void parse_packet(const struct rte_mbuf *m, struct packet *p, u8 direction, u32 interface,
					 const struct settings *set)
{
	const u8 *data = rte_pktmbuf_mtod(m, const u8 *);
	struct bytes from = { .data = data, .end = data + rte_pktmbuf_data_len(m), .length = rte_pktmbuf_pkt_len(m) };
	*p = (struct packet) { .direction = direction, .packets = 1, .length = from.length };
	if (direction)
		p->interface = interface;
	parse_ip(p, &from, parse_frame(p, &from), 0);
	charge(p, set);
}

// A packet that is handed to another core carries where it came in, and the direction that it is to be limited in.
static __always_inline u16 way_of(u32 from, u32 direction) { return from << 1 | direction; }

// Whether this core decides about a limiter's packets: the first one that does goes on with it. Otherwise hands over the packet.
static __always_inline bool is_own(struct rte_mbuf *m, const struct packet *p, u16 way)
{
	if (!memory.locks)
		return true;
	u8 own = self - cores + 1, *owner = memory.owners[p->seat.limiter >> PAGE_BITS] + (p->seat.limiter & (PAGE - 1)), has = 0;
	if (__atomic_compare_exchange_n(owner, &has, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || has == own)
		return true;
	struct core *other = cores + has - 1;
	if (!__atomic_load_n(&other->is_running, __ATOMIC_ACQUIRE))
		return true;
	m->port = way;
	if (rte_ring_enqueue(other->handed, m)) {
		rte_pktmbuf_free(m);
		self->unhanded++;
	}
	return false;
}

// What follows from a verdict.
static __always_inline void settle_packet(struct rte_mbuf *m, struct packet *p, bool found, const struct settings *set, int *verdict)
{
	if (found && set->modes & WATCHES)
		watch(p, *verdict == HELD ? PASS : *verdict);
	if (set->modes & SHADOWS)
		*verdict = PASS;
	if (*verdict == CE || *verdict >= MARKED)
		mark_packet(m, p, *verdict);
}

// The verdicts on packets that came in at an interface, by its number and the direction of its packets. HELD: the packet is
// with another core, or with a limiter of beside.h.
static inline void decide(struct rte_mbuf **packets, u32 count, u8 direction, u32 interface, int *verdicts)
{
	struct packet all[BURST];
	u8 found[BURST], waiting[BURST];
	u32 held = 0;
	const struct limiter *phantom[BURST];
	const struct settings *set = memory.settings + (memory.current & 1);
	u64 four = hash_of_four(set->hash);
	for (u32 i = 0; i < count; i++)
		rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
	for (u32 at = 0; at < count + 3 * AHEAD; at++) {
		u32 i = at;
		if (i < count) {
			parse_packet(packets[i], all + i, direction, interface, set);
			prefetch_seat(all + i, set);
		}
		i -= AHEAD;	// it is too large before there is one
		if (i < count) {
			found[i] = find(all + i, set);
			phantom[i] = 0;
			if (found[i] && !is_own(packets[i], all + i, way_of(interface - 1, direction)))
				found[i] = HANDED;
			else if (found[i])
				phantom[i] = prefetch_limiter(all + i);
		}
		i -= AHEAD;
		if (i < count && phantom[i])
			prefetch_queue(phantom[i], all + i, set->hash, four);
		i -= AHEAD;
		if (i >= count)
			continue;
		verdicts[i] = found[i] == HANDED ? HELD : found[i] ? seated(all + i) : stranger(all + i);
		if (verdicts[i] != HELD)
			settle_packet(packets[i], all + i, found[i], set, verdicts + i);
		else if (found[i] != HANDED)
			waiting[held++] = i;
	}
	if (__builtin_expect(held, 0)) {
		offer_beside(packets, all, waiting, held, interface - 1, set->modes & SHADOWS, verdicts);
		for (u32 i = 0; i < held; i++)
			settle_packet(packets[waiting[i]], all + waiting[i], true, set, verdicts + waiting[i]);
	}
}

// Decides about a burst in one direction. Returns the number of packets that pass now; they are moved to the front.
static __always_inline u32 decided(struct rte_mbuf **packets, u32 count, u32 direction, u32 from)
{
	int verdicts[BURST];
	u32 kept = 0;
	decide(packets, count, direction, from + 1, verdicts);
	for (u32 i = 0; i < count; i++) {
		if (verdicts[i] == EXCESS)
			rte_pktmbuf_free(packets[i]);
		else if (verdicts[i] != HELD)
			packets[kept++] = packets[i];
	}
	return kept;
}
