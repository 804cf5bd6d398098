// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The filter of a packet socket. It says how many bytes of a packet are kept: the headers up to the end of TCP's if the
// packet's flow is sampled, else none. Packets are hostile. The kernel checks every offset when bytes are loaded, and
// a packet that contradicts itself is not sampled.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "sample.h"

// The hash reads its message as words with the lowest byte first.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define little16(word) (word)
#define little32(word) (word)
#define little64(word) (word)
#else
#define little16(word) __builtin_bswap16(word)
#define little32(word) __builtin_bswap32(word)
#define little64(word) __builtin_bswap64(word)
#endif

enum {
	TAGS = 4,	// most VLAN tags that are followed, beside the one that the kernel keeps elsewhere
	EXTENSIONS = 8,	// most IPv6 extension headers that are followed
	GTP_EXTENSIONS = 4,	// most extension headers of GTP-U that are followed
	IP_IN_IP = 4,
	TCP = 6,
	UDP = 17,
	IPV6_IN_IP = 41,
	GRE = 47,
	NETWORKS = 1024,	// of clients
	FROM_OTHERS = 3,	// PACKET_OTHERHOST of <linux/if_packet.h>: neither from nor to this machine
	OUTGOING = 4,	// PACKET_OUTGOING
};

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	// Types of tags from before IEEE 802.1ad, which many switches still take.
	TYPE_TAG1 = 0x9100,
	TYPE_TAG2 = 0x9200,
	TYPE_PPPOE = 0x8864,
	TYPE_ETHERNET = 0x6558,	// an Ethernet frame in GRE or Geneve
};

// Ports of UDP. Linux used the second one of VXLAN before it had a number.
enum { VXLAN = 4789, OLD_VXLAN = 8472, GENEVE = 6081, GTP_U = 2152 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);	// so that it can be changed without any right
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETWORKS);
	__type(key, struct network);
	__type(value, u8);
} networks SEC(".maps");

// The addresses and ports of a packet, as its bytes are. Of IPv4 only the first half of an address is used.
struct ends {
	u64 source[2], destination[2];
	u16 ports[2];
	u8 version;
};

// The kernel checks functions that are not static alone, and once, whatever leads to them. Otherwise it would follow more
// ways through the program than it has patience for, at least for programs without CAP_PERFMON. It does not
// know that pointers are not 0 there.
#define CHECKED_ONCE __attribute__((noinline))

// SipHash-1-3 (Aumasson and Bernstein, 2012), as hash tables use it. Somebody who does not know the key cannot choose
// addresses or ports that are sampled, or that are not.
struct sip {
	u64 a, b, c, d;
};

static __always_inline u64 turned(u64 word, u32 bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = turned(s->b, 13) ^ s->a;
	s->d = turned(s->d, 16) ^ s->c;
	s->a = turned(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = turned(s->b, 17) ^ s->c;
	s->d = turned(s->d, 21) ^ s->a;
	s->c = turned(s->c, 32);
}

static __always_inline void sip_word(struct sip *s, u64 word)
{
	s->d ^= word;
	sip_round(s);
	s->a ^= word;
}

static __always_inline struct sip sip_begin(const struct rule *rule)
{
	u64 first = rule->key[0], second = rule->key[1];
	return (struct sip){ first ^ 0x736f6d6570736575ULL, second ^ 0x646f72616e646f6dULL, first ^ 0x6c7967656e657261ULL,
			     second ^ 0x7465646279746573ULL };
}

// The last bytes of the message, below its length.
static __always_inline u64 sip_end(struct sip *s, u64 bytes, u64 length)
{
	sip_word(s, bytes | length << 56);
	s->c ^= 0xff;
	for (u32 i = 0; i < 3; i++)
		sip_round(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

// The hash of the two ends and the protocol's number. The lower end comes first, so both directions have the same hash.
CHECKED_ONCE u64 flow_hash(const struct rule *rule, const struct ends *e)
{
	if (!rule || !e)
		return ~0ULL;
	u64 low = bpf_be64_to_cpu(e->source[0]), high = bpf_be64_to_cpu(e->destination[0]);
	u16 from = e->ports[0], to = e->ports[1];
	u64 lower[2] = { e->source[0], e->source[1] }, upper[2] = { e->destination[0], e->destination[1] };
	if (low == high && e->version == 6) {
		low = bpf_be64_to_cpu(e->source[1]);
		high = bpf_be64_to_cpu(e->destination[1]);
	}
	if (low > high || (low == high && bpf_ntohs(from) > bpf_ntohs(to))) {
		lower[0] = e->destination[0];
		lower[1] = e->destination[1];
		upper[0] = e->source[0];
		upper[1] = e->source[1];
		from = e->ports[1];
		to = e->ports[0];
	}
	struct sip s = sip_begin(rule);
	u64 rest = (u64)little16(from) | (u64)little16(to) << 16 | (u64)TCP << 32;
	if (e->version == 4) {
		sip_word(&s, (u32)little64(lower[0]) | little64(upper[0]) << 32);
		return sip_end(&s, rest, 13);
	}
	sip_word(&s, little64(lower[0]));
	sip_word(&s, little64(lower[1]));
	sip_word(&s, little64(upper[0]));
	sip_word(&s, little64(upper[1]));
	return sip_end(&s, rest, 37);
}

static __always_inline int is_client(const u64 *address, u8 version)
{
	struct network network = { .bits = 128 };
	u64 words[2] = { 0, 0 };
	if (version == 4) {
		u32 first = *(const u32 *)address;
		u8 mapped[8] = { 0, 0, 0xff, 0xff };
		__builtin_memcpy(mapped + 4, &first, 4);
		__builtin_memcpy(&words[1], mapped, 8);
	} else {
		words[0] = address[0];
		words[1] = address[1];
	}
	__builtin_memcpy(network.address, words, 16);
	return bpf_map_lookup_elem(&networks, &network) != 0;
}

// Whether the packet goes to the client, and does not come from it.
static __always_inline int to_client(struct __sk_buff *skb, const struct settings *settings, const struct ends *e)
{
	if (settings->networks) {
		int source = is_client(e->source, e->version), destination = is_client(e->destination, e->version);
		if (source != destination)
			return destination;
	}
	// This machine is the server, or the interface leads to the clients.
	if (skb->pkt_type == OUTGOING)
		return 1;
	if (skb->pkt_type < FROM_OTHERS)
		return 0;
	// Servers have the lower ports. With equal ports, the choice must be the same in both directions.
	u16 from = bpf_ntohs(e->ports[0]), to = bpf_ntohs(e->ports[1]);
	if (from != to)
		return from < to;
	if (e->source[0] != e->destination[0])
		return e->source[0] < e->destination[0];
	return e->source[1] < e->destination[1];
}

// The hash of the client's prefix.
CHECKED_ONCE u64 client_hash(struct __sk_buff *skb, const struct settings *settings, const struct rule *rule,
			     const struct ends *e)
{
	if (!settings || !rule || !e)
		return ~0ULL;
	// Chosen by bits: the compiler would choose between addresses, which the kernel allows only with CAP_PERFMON.
	u64 to = -(u64)!!to_client(skb, settings, e);
	asm volatile("" : "+r"(to));
	u64 first = (e->destination[0] & to) | (e->source[0] & ~to), second = (e->destination[1] & to) | (e->source[1] & ~to);
	struct sip s = sip_begin(rule);
	if (e->version == 4) {
		u32 address;
		__builtin_memcpy(&address, &first, 4);
		return sip_end(&s, little32(address & settings->mask4), 4);
	}
	sip_word(&s, little64(first & settings->mask6[0]));
	sip_word(&s, little64(second & settings->mask6[1]));
	return sip_end(&s, 0, 16);
}

// Where IP begins, and its version from the link layer, or from its first byte if `version` is 0.
struct place {
	u32 at;
	u8 version;
};

static __always_inline int is_tag(u16 type)
{
	return type == TYPE_VLAN || type == TYPE_QINQ || type == TYPE_TAG1 || type == TYPE_TAG2;
}

// RFC 2516 §4. A protocol of PPP has one byte or two, and its last byte is odd (RFC 1661 §2 and §6.5).
static __always_inline int find_in_pppoe(const struct __sk_buff *skb, struct place *place)
{
	u8 head[8];
	if (bpf_skb_load_bytes(skb, place->at, head, 8) || head[1])
		return -1;
	u32 size = head[6] & 1 ? 7 : 8, protocol = head[6] & 1 ? head[6] : head[6] << 8 | head[7];
	place->at += size;
	place->version = protocol == 0x21 ? 4 : protocol == 0x57 ? 6 : 0;
	return place->version ? 0 : -1;
}

static __always_inline u8 version_of(u16 type)
{
	return type == TYPE_IPV4 ? 4 : type == TYPE_IPV6 ? 6 : 0;
}

// Finds IP behind the type of an Ethernet frame, which is at this offset.
CHECKED_ONCE int find_typed(struct __sk_buff *skb, u32 at, struct place *place)
{
	u16 type;
	if (!place || bpf_skb_load_bytes(skb, at, &type, 2))
		return -1;
	type = bpf_ntohs(type);
	place->at = at + 2;
	for (u32 i = 0; i < TAGS && is_tag(type); i++) {
		if (bpf_skb_load_bytes(skb, place->at + 2, &type, 2))
			return -1;
		type = bpf_ntohs(type);
		place->at += 4;
	}
	if (type == TYPE_PPPOE)
		return find_in_pppoe(skb, place);
	place->version = version_of(type);
	return place->version ? 0 : -1;
}

CHECKED_ONCE int find_ip(struct __sk_buff *skb, u32 raw, struct place *place)
{
	if (!place)
		return -1;
	if (raw) {
		u8 first;
		if (bpf_skb_load_bytes(skb, 0, &first, 1))
			return -1;
		place->at = 0;
		place->version = first >> 4;
		return 0;
	}
	return find_typed(skb, 12, place);
}

// RFC 791. Returns the offset of TCP, or 0. Fragments but the first have no TCP header.
CHECKED_ONCE u32 read_ipv4(struct __sk_buff *skb, u32 at, struct ends *e)
{
	if (!e)
		return 0;
	u8 ip[20];
	if (bpf_skb_load_bytes(skb, at, ip, 20))
		return 0;
	u32 header = (ip[0] & 15) * 4;
	if (ip[0] >> 4 != 4 || header < 20 || ip[9] != TCP || (ip[6] & 0x1f) || ip[7])
		return 0;
	__builtin_memcpy(&e->source[0], ip + 12, 4);
	__builtin_memcpy(&e->destination[0], ip + 16, 4);
	e->version = 4;
	return at + header;
}

// RFC 8200.
CHECKED_ONCE u32 read_ipv6(struct __sk_buff *skb, u32 at, struct ends *e)
{
	if (!e)
		return 0;
	u8 ip[40];
	if (bpf_skb_load_bytes(skb, at, ip, 40) || ip[0] >> 4 != 6)
		return 0;
	__builtin_memcpy(e->source, ip + 8, 16);
	__builtin_memcpy(e->destination, ip + 24, 16);
	e->version = 6;
	u8 next = ip[6];
	at += 40;
	for (u32 i = 0; i < EXTENSIONS; i++) {
		if (next == TCP)
			return at;
		// Options, routing, fragments, authentication, mobility, HIP and Shim6.
		if (next != 0 && next != 43 && next != 44 && next != 51 && next != 60 && next != 135 && next != 139
		    && next != 140)
			return 0;
		u8 head[4];
		if (bpf_skb_load_bytes(skb, at, head, 4) || (next == 44 && (head[2] || head[3] & 0xf8)))
			return 0;
		at += next == 44 ? 8 : next == 51 ? (head[1] + 2) * 4 : (head[1] + 1) * 8;
		next = head[0];
	}
	return 0;
}

// Finds IP behind a header that names the type of what follows: a type of Ethernet, or a whole frame.
static __always_inline int find_carried(struct __sk_buff *skb, u32 at, u16 type, struct place *place)
{
	if (type == TYPE_ETHERNET)
		return find_typed(skb, at + 12, place);
	place->at = at;
	place->version = version_of(type);
	return place->version ? 0 : -1;
}

// 3GPP TS 29.281 §5. `head` holds the 8 bytes that every packet has, which end at the offset.
static __always_inline int find_in_gtp(struct __sk_buff *skb, const u8 *head, u32 at, struct place *place)
{
	// Version 1 of GTP, and a packet of a user.
	if (head[0] >> 4 != 3 || head[1] != 255)
		return -1;
	if (head[0] & 7) {
		u8 next, length;
		if (bpf_skb_load_bytes(skb, at + 3, &next, 1))
			return -1;
		at += 4;
		if (!(head[0] & 4))
			next = 0;
		for (u32 i = 0; i < GTP_EXTENSIONS && next; i++) {
			if (bpf_skb_load_bytes(skb, at, &length, 1) || !length)
				return -1;
			at += length * 4;
			if (bpf_skb_load_bytes(skb, at - 1, &next, 1))
				return -1;
		}
		if (next)
			return -1;
	}
	u8 first;
	if (bpf_skb_load_bytes(skb, at, &first, 1))
		return -1;
	place->at = at;
	place->version = first >> 4;
	return 0;
}

// Moves on to the packet that a packet carries: IP in IP (RFC 2003, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), Geneve
// (RFC 8926) and GTP-U. Of outer IPv6 packets, those without extension headers.
CHECKED_ONCE int enter_tunnel(struct __sk_buff *skb, struct place *place)
{
	u8 ip[20], head[16];
	if (!place || bpf_skb_load_bytes(skb, place->at, ip, 20))
		return -1;
	u32 at = place->at + 40;
	u8 protocol = ip[6];
	if (place->version == 4) {
		u32 header = (ip[0] & 15) * 4;
		if (header < 20 || (ip[6] & 0x1f) || ip[7])
			return -1;
		at = place->at + header;
		protocol = ip[9];
	}
	if (protocol == IP_IN_IP || protocol == IPV6_IN_IP) {
		place->at = at;
		place->version = protocol == IP_IN_IP ? 4 : 6;
		return 0;
	}
	if (protocol == GRE) {
		// Version 0, and no source route, which was never used.
		if (bpf_skb_load_bytes(skb, at, head, 4) || (head[0] & 0x40) || (head[1] & 7))
			return -1;
		at += 4 + (head[0] >> 7) * 4 + (head[0] >> 5 & 1) * 4 + (head[0] >> 4 & 1) * 4;
		return find_carried(skb, at, head[2] << 8 | head[3], place);
	}
	if (protocol != UDP || bpf_skb_load_bytes(skb, at, head, 16))
		return -1;
	u16 from = head[0] << 8 | head[1], to = head[2] << 8 | head[3];
	at += 16;
	if (to == VXLAN || to == OLD_VXLAN)
		return head[8] == 8 ? find_typed(skb, at + 12, place) : -1;
	if (to == GENEVE)
		return head[8] >> 6 ? -1 : find_carried(skb, at + (head[8] & 0x3f) * 4, head[10] << 8 | head[11], place);
	return from == GTP_U || to == GTP_U ? find_in_gtp(skb, head + 8, at, place) : -1;
}

static __always_inline u32 find_tcp(struct __sk_buff *skb, const struct place *place, struct ends *e)
{
	return place->version == 4 ? read_ipv4(skb, place->at, e) : place->version == 6 ? read_ipv6(skb, place->at, e) : 0;
}

SEC("socket")
int sample(struct __sk_buff *skb)
{
	u32 zero = 0;
	const struct settings *settings = bpf_map_lookup_elem(&settings_map, &zero);
	if (!settings)
		return 0;
	struct place place = { 0 };
	struct ends e = { 0 };
	if (find_ip(skb, settings->raw, &place))
		return 0;
	u32 at = find_tcp(skb, &place, &e);
	// As everywhere in Tidegate, the flow is the one inside. TCP that carries packets itself is not looked into.
	if (!at && settings->tunnels && !enter_tunnel(skb, &place))
		at = find_tcp(skb, &place, &e);
	u8 tcp[14];
	if (!at || bpf_skb_load_bytes(skb, at, tcp, 14))
		return 0;
	__builtin_memcpy(e.ports, tcp, 4);
	const struct rule *rule = &settings->rules[settings->used & 1];
	u64 hash = settings->by == BY_CLIENT ? client_hash(skb, settings, rule, &e) : flow_hash(rule, &e);
	if (hash >> 11 >= rule->limit)
		return 0;
	// RFC 9293 §3.1: a header has at least 20 bytes, and at most 60. The kernel keeps no more than there is.
	u32 header = (tcp[12] >> 4) * 4;
	return at + (header < 20 ? 20 : header);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
