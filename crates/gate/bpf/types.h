// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory that the programs share with user space. build/layout.rs generates Rust code from it.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef long long s64;
typedef unsigned long long u64;

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

// Keeps the compiler from removing or changing what the verifier has to see.
#define OPAQUE(value) asm volatile("" : "+r"(value))

// A part that the verifier checks separately. Elsewhere the compiler may put it where it is called.
#ifdef __bpf__
#define PART __attribute__((noinline))
#define RARE PART
#else
#define PART static inline
#define RARE static __attribute__((noinline, cold))
#endif

// What few packets need. Elsewhere it is called, so that what all packets need keeps the registers.
#ifdef __bpf__
#define ASIDE static __always_inline
#else
#define ASIDE RARE
#endif

#define ENDLESS (~0ULL)
#define MAPPED 0xffff0000U	// what precedes an IPv4 address in IPv6, RFC 4291 §2.5.5.2

// Sizes of the shared structures. An enumeration, so that user space finds them as well.
enum sizes {
	SHARES = 5,	// sharing nodes of a policy
	QUEUES = 24,	// and its queues
	FEW = 16,	// most queues of a policy that keeps a crowd in the place of the others
	PARTS = SHARES + QUEUES,	// both together; a queue's number as a part follows the shares'
	RULES = 32,	// of a plan
	PLANS = 1 << 17,
	PLACES = 1 << 10,	// of policies, and of sets of rules: a power of two
	LENGTHS = 16,	// lengths of prefixes in use, of one family in one direction
	PREFIXES = 1 << 20,	// of all subscribers together, of one family; fewer where memory is short
	PORTS = 1 << 10,	// interfaces where packets from subscribers come in
	LINKS = 1 << 17,	// VLAN tags, QinQ pairs and PPPoE sessions of all subscribers together
	PAGE_BITS = 10,
	PAGE = 1 << PAGE_BITS,	// limiters that are made at a time
	PAGES = 1 << 12,
	NODES = 1 << 14,	// of the network, in both directions; number 0 is none
	LEVELS = 8,	// nodes between a subscriber and the network
	SHARE_BITS = 20,
	WHOLE = 1 << SHARE_BITS,	// the share of which all of a rate may be used
	SENDERS = 1 << 10,	// groups of senders of frames without IP, which share a low rate each
	SEEN = 1536,	// bits for flows without a queue
	TRIPS = 128,	// groups of round trips of like length
	WATCHED = 1 << 18,	// subscribers whose round trips are counted
	ANY_PROTOCOL = 256,
	COUNTED = 64,	// no code point
	NONE = 255,
};

enum scheme { UNLIMITED, POLICER, PHANTOM, BESIDE };	// BESIDE: a limiter outside of this memory, on DPDK only
enum control { NO_CONTROL, PAPER, BUCKET };
// The fate of a packet, or the step that must come before it is known. HELD: a limiter outside of this memory has it.
enum verdict { PASS, EXCESS, CE, HELD, OFFER, CHANGE, PLACE, PERIODS, DECIDE, MARKED = 256 };

// A sharing node, see crates/limiter/src/phantom/tree.rs. It takes a cache line, as a queue does. Both
// begin with the same fields, which they have as children of the node above.
struct share {
	u64 length;	// bytes that it still has to get
	u64 seen;	// the clock above at that time
	u64 clock;	// bytes per weight given to every active child
	u64 empties;	// no child runs empty before the clock reaches this
	u64 credit;	// bytes that it got and did not hand on
	u32 weight;	// sum of the weights of active children
	u32 active;	// a bit for each active child; by priority: for each child that has bytes
	u64 unused[2];	// see struct limiter, and look_of for those of the last one
};

struct queue {
	u64 length;	// bytes
	u64 seen;
	u64 magic;	// magic bytes among them
	u64 accepted;	// bytes lately; with burst control as in the paper: in this period
	u64 served;	// bytes so far; in the place of a share's credit
	union {
		u64 mark;	// what `served` is when the burst bucket is empty
		u64 began;	// with burst control as in the paper: when this period began
	};
	u64 passed;	// bytes since the limiter was reset
	u64 excess;
};

// Flows that flood the queues, see crates/limiter/src/phantom/crowd.rs.
struct crowd {
	u64 seen[2][SEEN / 64];	// two bits for the hash of each flow without a queue, lately and before
	u32 dropped[FEW];	// bytes of each queue in this generation
	u32 flooded;	// a bit for each queue that dropped half of what it accepted in the one before
	u32 generation;
};

// The state of one limiter. Most packets need only the first two cache lines and those of their queue.
struct limiter {
	struct bpf_spin_lock lock;
	u32 version;	// of the seat whose plan it follows
	u32 plan;
	u32 shape;	// of that plan; 0 before the first packet
	u64 at;		// time of the latest packet, ns
	u64 remainder;	// bit-nanoseconds below a byte
	u64 passed_packets, passed_bytes, excess_packets, excess_bytes;
	union {
		struct share shares[SHARES];	// the root first
		// Each packet needs these, and reads the cache lines of the first two nodes anyway.
		struct {
			u8 root[sizeof(struct share) - 2 * sizeof(u64)];
			u64 due;	// when all queues are looked at next
			union {
				u64 tokens;	// of a policer
				u64 filled;	// of phantom queues, a bit for each that was filled with magic bytes
			};
			u8 second[sizeof(struct share) - 2 * sizeof(u64)];
			u64 rate;	// of the plan, for when it changes
			u64 size;	// of the plan, for the same purpose
			u8 third[sizeof(struct share) - 2 * sizeof(u64)];
			u64 control;	// of the plan, for the same purpose
			u64 base;	// passed_bytes at the latest look, less the surplus of that time
			u8 fourth[sizeof(struct share) - 2 * sizeof(u64)];
			u64 boost;	// of the plan, for the same purpose
			u64 saved;	// bytes of the rate that were left unused and may serve the queues at once
		};
	};
	union {
		struct queue queues[QUEUES];
		struct {
			struct queue few[FEW];
			struct crowd crowd;
		};
	};
	u64 owners[QUEUES / 4];	// 16 bits for each queue: a part of the hash of the flow that has it
	u64 marked_packets;	// among those that passed: those that were marked as congested here
	u16 hosts[SHARES - 1];	// the same of hosts, for the sharing nodes below the root
};

struct plan {
	u64 rate;	// bit/s
	u64 direct;	// ns: the longest time whose bits fit into 64 bits
	u64 size;	// bytes of each queue, or of the bucket
	u64 period;	// ns after which all queues are looked at; ENDLESS without burst control
	u64 upper, lower;	// bytes: of a filled queue's burst bucket, and to stay filled; in the paper, of a period
	u32 shape;	// number of the policy: limiters keep their queues while it stays the same
	u32 rules;	// number of the set of rules, or 0; for both see place_of
	u8 scheme, fair, control;
	u8 mark;	// code point for packets that exceed the limit; NONE: they are dropped; COUNTED: they pass
	u8 first, queues;	// of the default class
	u8 all;	// number of queues, for user space
	u8 hosts;	// that the default class is shared by; 0: by flows
	u32 room;	// bytes: with less room in a queue that is alone, packets are marked; 0: none is
	u16 node;	// of the network, that limiters are below; 0: none
	u8 grain;	// they count there whenever their bytes pass a multiple of two to this power
	u8 unused;
	u64 boost;	// bytes that a subscriber may save; 0: none
};

// A capacity that limiters share, in one direction. The first cache line is written at each look, and by user space when
// the capacity changes; the second one whenever a limiter counts.
struct node {
	struct bpf_spin_lock lock;
	u32 above;	// the next node on the way to the network, or 0
	u64 rate;	// bit/s
	u64 due, at;	// ns: of the next look, and of the latest one
	u64 before;	// what `passed` was at that time
	u64 debt;	// bytes that passed beyond the capacity and were not made up for
	u64 load;	// bit/s that passed lately
	u32 share;	// of its rate, that each limiter may use
	u32 over;	// looks in a row that found more than the capacity
	u64 passed;	// bytes
	u32 most;	// the largest part of its rate that a limiter used meanwhile, as shares are
	u32 spare;
	u64 rest[6];
};

// The index of a policy or set of rules with this number. The one that replaces it gets a number that is
// larger by PLACES, so that a limiter can tell them apart.
static __always_inline u32 place_of(u32 number)
{
	return (number - 1) & (PLACES - 1);
}

// A policy, with everything that can be computed in advance.
struct shape {
	u32 number;	// 0: unused
	u32 priority;	// a bit for each sharing node that serves by priority
	u32 weighted;	// a bit for each part whose parent shares by weight, but the root
	u32 behind;	// a bit for each part that others precede by priority, there or higher up
	u32 before[32];	// for each part: its siblings that are served first
	u16 weight[32];	// of each part
	u8 parent[32];	// of each part; the root is its own parent
	u8 path[32];	// for each part: a bit for each sharing node above it
	u8 order[32];	// parts; children of a node follow each other, in order
	u8 first[8];	// for each sharing node: the index of its first child in `order`
	u8 count[8];	// for each sharing node: its number of children
	u8 next[8];	// the sharing node after this one; NONE after the last
	u32 queues;
};

struct rule {
	u32 source[4], source_mask[4], destination[4], destination_mask[4];
	u64 dscp;	// a bit for each code point
	u16 source_low, source_high, destination_low, destination_high;
	u16 protocol;	// or ANY_PROTOCOL
	u8 ports;	// whether the rule asks for ports
	u8 first, queues, hosts;
	u8 spare[2];
};

struct rules {
	u32 number;
	u32 count;
	struct rule rule[RULES];
};

// Whether packets have a limiter, and whether `bindings` says where packets from the subscriber come from.
enum known { SEATED = 1, BOUND = 2 };
struct seat {
	u32 limiter, plan, version;
	u32 known;
};
// A subscriber's, by direction.
struct seats {
	struct seat way[2];
};
// Where packets from a subscriber come from. Parts that are 0 may be anything.
struct binding {
	u64 mac;
	u32 port;	// the number that user space gives to an interface's name
	u32 tags;	// the outer one in the upper half
};

// What is known of a packet that is watched, as bits: it has a header of TCP, with timestamps, an acknowledgement, data. It
// exceeds the limit, also where it passes. The gate watches flows. It changes and drops nothing.
enum watched { READ = 1, STAMPED = 2, ANSWERS = 4, CARRIES = 8, EXCEEDS = 16, WATCHES = 32, SHADOWS = 64 };
// How round trips are grouped, and for how long their counts are kept.
enum trips {
	LATELY = 35,	// counts are of the present and the previous 2^LATELY ns
	LEAST_TRIP = 16,	// the shortest trips are of less than 2^LEAST_TRIP ns
	STEPS_SHIFT = 3,	// each doubling is divided into 2^STEPS_SHIFT
};
// A flow of a subscriber that is watched, see watch.h. Addresses and ports are as on the wire.
struct flow_key {
	u32 local[4], remote[4];	// the subscriber's, and the other one; IPv4 mapped
	u32 ports;	// the subscriber's in the lower half
	u32 protocol;
};
// Its packets in one direction.
struct way {
	u64 bytes, excess_bytes;
	u64 sent;	// when the packet passed that is waited for, ns; 0: none is
	u32 packets, excess_packets, marked_packets;
	u32 token;	// what its answer echoes or acknowledges
	u32 newest;	// the latest timestamp
	u32 end;	// the sequence number behind the last byte
	u32 segments, again;	// with data, and those of them that were sent again
	u32 told_segments, told_again;	// those that the subscriber's counts have
	u32 trip;	// the latest round trip, in 2^10 ns
	u16 queue;
	u16 known;	// whether `end` is known, and whether the packet that is waited for has a timestamp
};
struct flow {
	u64 began, latest;	// ns
	u32 subscriber, spare;
	struct way ways[2];
};
// What a subscriber's line feels. Of each direction: packets and their answers, segments of TCP with data, and those of them
// that were sent again.
struct lately {
	u32 segments[2], again[2];
	u16 trips[2][TRIPS];
};
struct line {
	struct bpf_spin_lock lock;
	u32 window;	// the number of the present time
	u64 trips[2], segments[2], again[2];
	struct lately lately[2];	// of times with even and odd numbers
};

enum link { VLAN, QINQ, PPPOE };
// Keys have a multiple of 8 bytes, as table.h needs on DPDK.
struct link_key {
	u32 id;
	u8 kind;
	u8 spare[3];
};
struct key4 {
	u32 address;
	u8 length;
	u8 spare[3];
};
struct key6 {
	u32 address[4];
	u8 length;
	u8 spare[7];
};
struct length4 {
	u32 mask, length;
};
struct length6 {
	u32 mask[4], length;
};

struct settings {
	u64 hash[11];
	s32 overhead;	// bytes that are added for each packet on the wire
	u8 layer;
	u8 unknown_drop;
	u8 links;	// a bit for each kind of link in use
	u8 count4, count6;
	u8 other_drop[2];	// by direction: frames without IP are dropped
	u8 link_frames;	// a bit for each kind of frame that passes then, at a low rate
	u8 beside;	// for user space: whether it attaches beside other gates
	u8 known_sources;	// packets from no subscriber's address are dropped where they come in
	u8 modes;	// of enum watched: WATCHES, SHADOWS
	u8 spare;
	struct length4 lengths4[LENGTHS];	// the longest first
	struct length6 lengths6[LENGTHS];
};

// Packets that no limiter saw are counted by these. User space shows their names in small letters.
enum reason {
	FINE, UNKNOWN_IPV4, UNKNOWN_IPV6, NOT_IP, UNKNOWN_DROPPED, SHORT_FRAME, SHORT_IP, BAD_VERSION,
	BAD_HEADER_LENGTH, BAD_TOTAL_LENGTH, MANY_TAGS, MANY_EXTENSIONS, BAD_PPPOE, NO_LIMITER, NO_PLAN,
	RACED, OTHER_DROPPED, LINK_FRAMES_DROPPED, SPOOFED_DROPPED, UNKNOWN_SOURCE_DROPPED, REASONS
};
// Frames that a network needs besides IP packets.
enum frames { OTHER, ARP, PPP, BRIDGE, LLDP, NEIGHBOURS };
struct tally {
	u64 packets, bytes;
};

// What is known of a packet's flow, as bits: its hash, its queue, and before the first step its class, if that was looked up ahead.
enum flow_known { HASHED = 1, PLACED = 2, CLASSED = 4 };

// The properties of a packet that the programs know.
struct packet {
	u32 source[4], destination[4];	// as on the wire; IPv4 mapped
	u32 ports;	// as on the wire
	struct seat seat;
	u32 bytes;	// that are charged
	u32 length;	// of the frame, or of all its segments
	u16 packets;	// on the wire: a super-packet is several
	u16 ip;		// offset of the IP header
	u32 plan;	// of its limiter, when the queue was chosen
	u16 headers;	// bytes before the payload
	u16 excess;	// the verdict if it exceeds the limit
	u32 cursor;	// the sharing node that is settled next
	u32 ahead;	// before the first step: the queue that the flow has, plus one, if that was looked up ahead
	u32 flow;	// the hash
	union {
		u32 host;	// the hash of the subscriber's address, where hosts share the class
		u32 sender;	// of a frame without IP: a number made of its address and tags
	};
	u32 end;	// of TCP: the sequence number behind the last byte
	u32 stamp, answered;	// its timestamp, and the echoed one; or else what it acknowledges
	u8 first, queues, hosts;	// of its class
	u8 queue;
	u64 now;
	union {
		u64 mac;	// of the sender, if the packet is from a subscriber
		struct {	// after its seat was found
			u32 share;	// of the plan's rate that the nodes above leave to the limiter
			u32 counted;	// bytes that they have to count
		};
	};
	union {
		u32 interface;	// where it came in, likewise
		u32 used;	// after its seat was found: the part of its rate that the limiter used lately, for its nodes; 0 tells them nothing
	};
	u16 outer, inner;
	union {
		u16 session;
		u16 node;	// likewise, above the limiter
	};
	u8 tags;
	union {
		u8 pppoe;
		u8 grain;	// likewise, see struct plan
	};
	u8 family;	// 4 or 6; 0 if the addresses are not known
	u8 protocol, dscp, has_ports;
	u8 direction, reason, kind;
	u8 known;	// of its flow, see enum flow_known
	u8 ecn;		// RFC 3168
	u8 crowded;	// whether its limiter keeps a crowd
	u8 spoofed;	// its source is a subscriber that is bound to another place
	u8 watched;	// what is known for watch.h, see enum watched
};
