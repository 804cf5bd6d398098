// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The two ports: how they are opened and closed, what was lost there, and whether they have a link.
#pragma once
#include <rte_errno.h>
#include <rte_ethdev.h>
#include "wire.h"

enum {
	CACHE = 256,	// packet buffers that are kept by a core
	SPARE = 8192,	// packet buffers for each core that limiters leave to its queues of the ports, and to its ring
	NO_PORT = -10000,	// minus the number of a port: it is not there
	FEW_QUEUES = -20000,	// likewise: it has fewer queues than there are cores for packets
	DRAINS = 20000,	// µs that ports have at the end to send what is in their queues: 1,024 full packets take 12 ms at 1 Gbit/s
};

// The longest packets of IP that a port takes in, with two tags, and that buffers hold; 0: those that it takes in by itself.
static u16 longest(const struct rte_eth_dev_info *info)
{
	u32 room = rte_pktmbuf_data_room_size(wire.pool) - RTE_PKTMBUF_HEADROOM, tags = 2 * RTE_VLAN_HLEN;
	u32 headers = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN + tags, most = info->max_rx_pktlen;
	if (info->max_mtu != UINT16_MAX && most > info->max_mtu)
		headers = most - info->max_mtu;
	// Some drivers leave room for two more tags.
	u64 mtu = least(most, room - tags);
	mtu = least(mtu > headers ? mtu - headers : 0, info->max_mtu);
	return mtu > RTE_ETHER_MTU ? mtu : 0;
}

// The queues in each direction that a port may have; 0 if it is not known.
static u32 queues_of(u16 port)
{
	struct rte_eth_dev_info info;
	return rte_eth_dev_info_get(port, &info) ? 0 : least(info.max_rx_queues, info.max_tx_queues);
}

static int open_port(u16 port, u32 queues, u64 spread, bool is_long)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error)
		return error;
	struct rte_eth_conf conf = { 0 };
	conf.rxmode.mtu = is_long ? longest(&info) : 0;
	// Both directions of a subscriber go to the same core, where the port can do that. Some ports spread packets of TCP and UDP only
	// if both are named.
	u64 kinds = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;
	conf.rx_adv_conf.rss_conf.rss_hf = (kinds | spread) & info.flow_type_rss_offloads;
	if (queues > 1 && conf.rx_adv_conf.rss_conf.rss_hf)
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	u16 receive = RING, send = RING;
	int socket = rte_eth_dev_socket_id(port);
	if ((error = rte_eth_dev_configure(port, queues, queues, &conf))
	    || (error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive, &send)))
		return error;
	for (u32 queue = 0; queue < queues; queue++) {
		if ((error = rte_eth_rx_queue_setup(port, queue, receive, socket, 0, wire.pool))
		    || (error = rte_eth_tx_queue_setup(port, queue, send, socket, 0)))
			return error;
	}
	if ((error = rte_eth_dev_start(port)))
		return error;
	// Devices that see all packets anyway do not know this.
	error = rte_eth_promiscuous_enable(port);
	return error == -ENOTSUP ? 0 : error;
}

// Opens both ports, with room for this many packets of at most so many bytes. `network` is the number of the port that
// subscribers are not behind. Returns 0 or an error; NO_PORT or FEW_QUEUES minus the number of a port.
static int open_ports(const char *const names[2], u32 queues, u32 packets, u32 bytes, u32 network)
{
	for (u32 i = 0; i < 2; i++) {
		if (rte_eth_dev_get_port_by_name(names[i], &wire.number[i]))
			return NO_PORT - (int)i;
		u32 most = queues_of(wire.number[i]);
		if (most && queues > most)
			return FEW_QUEUES - (int)i;
	}
	if (!wire.pool)
		wire.pool = rte_pktmbuf_pool_create("tidegate", packets, CACHE, 0, bytes + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (!wire.pool)
		return -rte_errno;
	wire.is_open = 1;
	packets = wire.pool->size;
	beside.most = packets / queues > SPARE ? packets / queues - SPARE : packets / queues / 2;
	for (u32 i = 0; i < 2; i++) {
		u64 spread = i == network ? RTE_ETH_RSS_L3_DST_ONLY : RTE_ETH_RSS_L3_SRC_ONLY;
		// A virtual function may not be allowed longer packets.
		int error = open_port(wire.number[i], queues, spread, true);
		if (error && (error = open_port(wire.number[i], queues, spread, false)))
			return error;
	}
	return 0;
}

// Closes the ports once they have sent what is in their queues.
static void close_ports(void)
{
	if (!wire.is_open)
		return;
	rte_delay_us_sleep(DRAINS);
	for (u32 i = 0; i < 2; i++)
		rte_eth_dev_stop(wire.number[i]);
	wire.is_open = 0;
}

// The queues in each direction that a port of this name may have.
u32 tidegate_dpdk_queues(const char *name)
{
	u16 port;
	return rte_eth_dev_get_port_by_name(name, &port) ? 0 : queues_of(port);
}

// Packets that were lost beside the limiters: ports had no room to send them, or none to take them in, or another core had none;
// ports took them for damaged or too long, or failed to send them.
void tidegate_dpdk_lost(u64 lost[5])
{
	memset(lost, 0, 5 * sizeof(*lost));
	for (u32 i = 0; i < CORES; i++) {
		const volatile struct core *core = cores + i;
		lost[0] += core->unsent;
		lost[2] += core->unhanded;
	}
	for (u32 i = 0; wire.is_open && i < 2; i++) {
		struct rte_eth_stats stats;
		if (rte_eth_stats_get(wire.number[i], &stats))
			continue;
		lost[1] += stats.imissed + stats.rx_nombuf;
		lost[3] += stats.ierrors;
		lost[4] += stats.oerrors;
	}
}

// Whether each port has a link: 1, 0, or -1 if it is not known.
void tidegate_dpdk_links(int links[2])
{
	for (u32 i = 0; i < 2; i++) {
		struct rte_eth_link link;
		links[i] = !wire.is_open || rte_eth_link_get_nowait(wire.number[i], &link) ? -1 : link.link_status;
	}
}
