// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory that the programs share with user space. src/filter.rs and src/records.rs repeat it, and compare the sizes.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { BY_FLOW, BY_CLIENT };

// Which flows, or which clients, are sampled.
struct rule {
	u64 words[10];	// of the hash, secret
	u64 limit;	// the hash must be below this
};

struct settings {
	struct rule rules[2];	// user space changes the one that is not used, and then `used`
	u64 mask6[2];	// of clients' IPv6 addresses, as the bytes are in packets
	u32 mask4;	// the same of IPv4
	u32 used;	// 0 or 1
	u32 by;
	u32 raw;	// 1: frames begin with IP, as on TUN devices; 0: with Ethernet
	u32 networks;	// how many networks of clients there are
	u32 tunnels;	// 1: packets in tunnels are sampled by the flow inside
	u32 bridged;	// 1: the interface is a port of a bridge
};

// A network of clients: an address of IPv4 is mapped into IPv6, ::ffff:0:0/96.
struct network {
	u32 bits;
	u8 address[16];
};

// A sampled packet, as the hooks of traffic control hand it on.
struct record {
	u64 at;	// nanoseconds since the machine started, CLOCK_MONOTONIC
	u32 wire;	// the packet's length
	u32 kept;	// how many of its bytes follow
	u16 tag_type, tag;	// the VLAN tag that the kernel took out of the frame
	u32 marks;
	u8 bytes[];
};

// Marks of a record. Without OUTBOUND and INBOUND, the packet is neither from nor to this machine.
enum { OUTBOUND = 1, INBOUND = 2, SUPER_PACKET = 4, TAGGED = 8 };

struct counts {
	u64 accepted;	// sampled packets, with those that were lost
	u64 lost;	// because the ring was full
};
