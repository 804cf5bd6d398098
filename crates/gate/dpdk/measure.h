// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What decisions cost: packets from one port, each turned into one of many subscribers' flows, through a limiter, to
// another port. For studies, on the control core, while no other core runs.
#pragma once
#include <rte_ethdev.h>
#include "burst.h"

enum { FLOWS = 16, HEADERS_OF_UDP = 42 };

// The packets of a measurement. src/dpdk/sys.rs has the same.
struct load {
	u64 now;	// in 2^-16 ns
	u64 gap;	// from one packet to the next, likewise
	u32 aggregates;
	u32 each;	// packets to each aggregate in turn; 0: in no order
	u32 drawn;
	u32 bytes;	// of a packet
};

struct cost {
	u64 packets, sent, cycles;
};

static const u8 headers_of_udp[64] = {
	2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1,
};

// Subscribers are 10.0.0.0 and those that follow, in no order unless `each` says so.
static __always_inline void draw(struct load *load, struct rte_mbuf *m)
{
	u8 *data = rte_pktmbuf_mtod(m, u8 *);
	u32 number = load->drawn++, random = (number ^ number >> 15) * 0x9e3779b1u;
	random ^= random >> 15;
	u32 aggregate = load->each ? number / load->each : (u64)random * load->aggregates >> 32;
	memcpy(data, headers_of_udp, sizeof(headers_of_udp));
	u32 address = __builtin_bswap32(10u << 24 | aggregate);
	memcpy(data + 30, &address, 4);
	data[35] = number & (FLOWS - 1);
	m->data_len = sizeof(headers_of_udp);
	m->pkt_len = load->bytes;
}

// Takes bursts until this many packets came. Without `limits` all of them pass.
static int measure(struct load *load, u64 packets, u32 limits, u16 from, u16 to, struct cost *cost)
{
	u64 idle = 0, began = rte_rdtsc();
	*cost = (struct cost) { 0 };
	while (cost->packets < packets) {
		struct rte_mbuf *packets[BURST + LEFT];
		u32 count = rte_eth_rx_burst(from, 0, packets, BURST), sent = count;
		// All buffers may wait in queues.
		if (!count && ++idle > 1000000)
			return -ENOBUFS;
		for (u32 i = 0; i < count; i++)
			draw(load, packets[i]);
		load->now += load->gap * (count ? count : BURST);
		self->now = load->now >> 16;
		if (limits) {
			sent = decided(packets, count, 0, 0);
			let_go();
			for (u32 i = 0; i < self->left_count; i++) {
				account_left(self->left + i);
				packets[sent++] = self->left[i].packet;
			}
			self->left_count = 0;
		}
		for (u32 done = 0; done < sent;)
			done += rte_eth_tx_burst(to, 0, packets + done, sent - done);
		cost->packets += count;
		cost->sent += sent;
	}
	cost->cycles = rte_rdtsc() - began;
	return 0;
}
