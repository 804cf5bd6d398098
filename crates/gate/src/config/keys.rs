//! Every key of a gate's file, once: for checking, for `tidegate gate schema`, for the documentation.

use tidegate_notation::{Section, burst_control, rule, section};

section! { FILE = "the file", "Keys above the first table.";
    "unknown": "\"pass\" or \"drop\"", "pass", "What happens to packets that match no subscriber. With `drop`, IPv6 neighbour discovery still passes, at the rate of `link-frames`.";
    "other-frames": "\"auto\", \"pass\" or \"drop\"", "auto", "What happens to frames that hold no IP packet and are on no subscriber's VLAN or PPPoE session. `auto` drops them where they come from subscribers, and with `unknown = \"drop\"` also where they go to subscribers. Behind VLAN tags of any type, MPLS labels, LLC/SNAP and PPPoE, IP packets are found and belong to their subscriber.";
    "link-frames": "list", "[\"arp\", \"ppp\", \"bridge\"]", "Frames without IP that pass where the others are dropped: `arp`; `ppp` (PPPoE discovery, and PPP's protocols that keep a session); `bridge` (frames to 01:80:c2:00:00:00 up to 0f: spanning tree, LACP, 802.1X); `lldp`. Each sender may have 64 kbit/s of them from the subscribers' side, and 1 Mbit/s towards it.";
    "sources": "\"bound\" or \"known\"", "bound", "Which source addresses may come in at interfaces of side `access`. With `bound`, all but those of subscribers that `from-port`, `from-mac` or `from-vlan` binds to another place. With `known`, also only those of subscribers; others are dropped and counted as `unknown_source_dropped`, but hosts that ask for an address pass at the rate of `link-frames`.";
    "other-gates": "\"refuse\" or \"allow\"", "refuse", "What happens if another gate, with other pins, is attached to an interface already. Both would limit the same packets.";
    "shadow": "true or false", "false", "With `true` all packets pass as they came. What would be dropped or marked is only counted, by every key of this file: try a file on live traffic. A FairPolicer and a shaper count all packets as passed then. `excess = \"count\"` does this for one plan.";
    "pins": "path", "/sys/fs/bpf/tidegate", "Folder for the kernel's maps and programs. They stay there when the daemon dies. The folder must be in a bpffs. A reload cannot change it.";
    "state": "path", "/run/tidegate", "Folder for the names of what is in the kernel, and the lock. A restart of the machine must empty it, as it empties the kernel. Other commands than `up` and `run` need `--state` with another folder. A reload cannot change it.";
    "log": "\"text\" or \"json\"", "text", "How the daemon writes its log.";
    "interface": "tables", "", "The interfaces that packets pass.";
    "plan": "tables", "none", "The limits of subscribers, by name.";
    "node": "tables", "none", "Capacities that subscribers share.";
    "subscriber": "tables", "none", "The subscribers.";
    "import": "tables", "none", "Files of subscribers and nodes.";
    "accounting": "table", "layer 2", "Which bytes of a packet are charged.";
    "api": "table", "none", "Where the HTTP API listens.";
    "metrics": "table", "none", "Where the metrics are served.";
    "usage": "table", "none", "Where the volumes of months are kept.";
    "watch": "table", "none", "Watches flows: round trips, segments that are sent again, a score.";
    "pair": "table", "none", "The other gate of a pair.";
    "radius": "table", "none", "Where RADIUS is answered.";
    "events": "path", "none", "A file to which every change is added, with its time and who made it: a JSON object a line. At 64 MiB it is renamed to the same name with `.1` behind.";
}
section! { INTERFACE = "[[interface]]", "A network interface that subscribers' packets pass. A bridge or a router has a side of the subscribers (access) and a side of the network (core). Name both; packets are limited as they come in. With one interface only, say which direction comes in there and which goes out.";
    "name": "name", "", "The interface, as `ip link` shows it.";
    "side": "\"core\" or \"access\"", "", "What is behind it. Packets that come in at `core` go to subscribers (down); packets that come in at `access` are from them (up). Replaces `ingress` and `egress`.";
    "ingress": "\"down\" or \"up\"", "none", "Direction of the packets that come in there: `down` to subscribers, `up` from them.";
    "egress": "\"down\" or \"up\"", "none", "Direction of the packets that go out there. Not with XDP.";
    "hook": "\"auto\", \"tc\", \"xdp\" or \"xdp-generic\"", "auto", "Where the gate takes packets. `tc` works everywhere. `xdp` works in drivers that support it, before the kernel spends time on a packet. `xdp-generic` is for tests. `auto` is `tc`.";
    "nat": "true or false", "false", "Packets of TCP and UDP that pass there have public addresses, which this machine translates. The gate asks the kernel (conntrack) which subscriber is behind each. Packets of no known connection count as those of the address that they carry. Needs a kernel with BTF and conntrack, and `tc`. Not on DPDK.";
}
section! { PLAN = "[plan.NAME]", "The limits of a subscriber. A direction without a rate is not limited, but counted.";
    "down": "rate or table", "no limit", "Rate to the subscriber. Or a table with `rate` and any of the keys below, which then apply to this direction only.";
    "up": "rate or table", "no limit", "The same for the rate from the subscriber.";
    "scheme": "\"bc-pqp\", \"bc-pqp-paper\", \"pqp\", \"policer\", \"fair-policer\", \"shaper\" or \"unlimited\"", "bc-pqp", "The limiter: phantom queues with burst control, the same as in the paper that proposed it, phantom queues without, one token bucket, a token bucket that flows share evenly, queues in which packets wait, or none. `fair-policer` and `shaper` run on DPDK only, and not below a node.";
    "policy": "a policy", "{ fair = 16 }", "How the rate is shared: `\"queue\"`, `{ fair = 16 }`, `{ hosts = [4, 4] }` (four hosts and four queues for the flows of each), `{ weighted = [[4, POLICY], [1, POLICY]] }` or `{ priority = [POLICY, POLICY] }`, nested as needed, with at most 24 queues and 5 nodes that share. Its leaves are the classes, numbered from 0 in the order of the text.";
    "rule": "tables", "none", "Which packets belong to which class. The first rule that matches counts. At most 32.";
    "default-class": "number", "the last", "The class of packets that match no rule.";
    "excess": "\"drop\", \"count\" or DSCP", "drop", "What happens to packets beyond the limit: they are dropped, or they pass with this code point (`\"cs1\"`, `8`). With `count` all packets pass unchanged, and those that would be dropped are counted: try a plan before it limits anybody. A FairPolicer and a shaper only drop.";
    "rtt": "time", "100ms", "The longest round-trip time to serve well. `auto` sizes follow from it.";
    "queue": "size", "auto", "Size of each phantom queue. `auto` is what Reno and CUBIC need to reach the rate at `rtt`, ten times that with burst control; at least 256 KiB (four super-packets of the kernel) and at most 1 TB. Nothing is stored. Of a shaper it is the size of each real queue, and `auto` the bandwidth-delay product at `rtt`, at least ten packets.";
    "burst": "size", "auto", "Depth of a policer's bucket. `auto` is the bandwidth-delay product at `rtt`, at least 128 KiB (two super-packets of the kernel). Of a FairPolicer `auto` is what Reno and CUBIC need to reach the rate at `rtt`, at least as much. Of a shaper: the bytes that leave at once after a rest; `auto` is one packet.";
    "boost": "size or time", "none", "What a subscriber may save up of the rate that it leaves unused, such as `\"10MB\"`, or `\"5s\"` of its rate. While something is saved, its packets pass as fast as they come. In any time t at most the rate times t and these bytes pass beyond the bursts of a plan without. Nothing of it is used below a node that is full. A policer's bucket is larger by it. Not of `bc-pqp-paper`.";
    "ecn": "true or false", "true", "Marks packets of senders that use ECN (RFC 3168; early with ECT(1), as L4S wants), and drops fewer of them. Of `bc-pqp` and `pqp`.";
    "quota": "size", "none", "Bytes that a subscriber may use in a month, such as `\"500GB\"`. It needs `[usage]` and the daemon (`tidegate gate run`), which looks every 5 seconds.";
    "quota-plan": "name", "none", "The plan in force for the rest of the month once the quota is used up. It counts before `schedule`. Needed with `quota`.";
    "quota-of": "\"both\", \"down\" or \"up\"", "both", "The bytes that count: those that passed in both directions, or in one.";
    "quota-day": "number", "1", "The day of the month on which the month begins, 1 to 28, at midnight of local time.";
    "schedule": "tables", "none", "Other plans at times of day. The first that fits counts. The daemon looks every 5 seconds.";
    use burst_control::PERIOD;
    use burst_control::UPPER;
    use burst_control::LOWER;
}
section! { SCHEDULE = "[[plan.NAME.schedule]]", "A time of day, in local time, at which another plan is in force for the subscribers of this plan. Rates that were set live, with `gate set`, stay in force.";
    "from": "time of day", "", "When it begins: `\"22:00\"`.";
    "to": "time of day", "", "When it ends: `\"06:00\"`. If this is not after `from`, it ends on the next day.";
    "days": "days", "all", "The days of the week on which it begins: `[\"sat\", \"sun\"]`.";
    "plan": "name", "", "The plan in force then.";
}
section! { DIRECTION = "down = { … }", "One direction of a plan, if it differs. It has all keys of the plan except `down` and `up`, and:";
    "rate": "rate", "", "The rate.";
}
pub(super) const RULE: Section = Section {
    name: "[[plan.NAME.rule]]",
    doc: "Which packets belong to a class. A packet must match every key that is given. The remote side is the one that is not the subscriber's, so a rule means the same for both directions.",
    keys: rule::KEYS,
};
section! { NODE = "[[node]]", "A node of the network: a capacity that subscribers share, such as an access point, the site above it, or the site's backhaul. When a node is full, each subscriber below it has the same part of its rate, and those that want less leave the rest to the others. A subscriber without limit is counted, but not held back.";
    "name": "name", "", "Its name.";
    "parent": "name", "none", "The node above it. Up to eight nodes may be between a subscriber and the network.";
    "rate": "rate", "none", "What all subscribers below may use together, in each direction.";
    "down": "rate", "`rate`", "The same in the direction to subscribers.";
    "up": "rate", "`rate`", "The same in the direction from subscribers.";
}
section! { SUBSCRIBER = "[[subscriber]]", "A subscriber: its traffic shares a limit. Addresses or tags identify its packets. Tags count before addresses, PPPoE before QinQ before VLAN, and longer prefixes before shorter ones.";
    "name": "name", "", "Its name in commands and metrics.";
    "plan": "name", "none", "The plan. Without one, `bc-pqp` with 16 fair queues limits `down` and `up`.";
    "parent": "name", "none", "The node of the network that it is below.";
    "down": "rate", "the plan's", "Rate to this subscriber.";
    "up": "rate", "the plan's", "Rate from this subscriber.";
    "addresses": "prefix or prefixes", "none", "Its IPv4 and IPv6 addresses, prefixes or ranges: `\"192.0.2.10-192.0.2.20\"`, which become as few prefixes as possible. `\"live\"`: it gets them from the API, `tidegate gate assign` or RADIUS.";
    "vlan": "number or numbers", "none", "Its VLAN tags, 1 to 4094, for packets with one tag.";
    "qinq": "pair or pairs", "none", "Its pairs of tags, the outer one first: `\"100.200\"`.";
    "pppoe": "number or numbers", "none", "Its PPPoE sessions, 1 to 65534.";
    "users": "name or names", "none", "What access servers call it in RADIUS, besides its name.";
    "suspended": "true or false", "false", "Drops all its packets, and counts them as beyond the limit.";
    "from-port": "name", "none", "The interface where its packets come in, one of side `access`. Packets from its addresses that come in at another one are dropped and counted as `spoofed_dropped`.";
    "from-mac": "address", "none", "The MAC address that its packets come from, likewise.";
    "from-vlan": "number or pair", "none", "The VLAN tags that its packets have, likewise: `\"100\"`, or the outer and the inner one, `\"100.200\"`.";
}
section! { IMPORT = "[[import]]", "Files of subscribers and of nodes. A CSV file of subscribers has one of two forms. In Tidegate's form the first line names the keys of `[[subscriber]]` in any order (`name,plan,parent,down,up,addresses,vlan,qinq,pppoe,users`, and `from-port,from-mac,from-vlan`); spaces or semicolons separate several values in a field. The other form is LibreQoS's ShapedDevices.csv: its circuits become subscribers, limited to their maximum rates, below the node that `Parent Node` names if there are nodes. With `live`, what stands in the column `MAC` of circuits without addresses and is no MAC address is the name of their user in RADIUS. Lines that begin with `#` are comments.";
    "csv": "path", "", "The CSV file, relative to the folder of this file. It is needed unless `network` is set.";
    "network": "path", "none", "LibreQoS's network.json: its nodes become nodes here, with their names and parents. Virtual nodes are left out; their children belong to the node above.";
    "plan": "name", "none", "The plan of lines without a plan. Rates in the CSV file count before the plan's.";
    "lenient": "true or false", "false", "Skips lines with mistakes and lists them, where otherwise nothing is applied. The subscribers of skipped lines are not limited, also if they were before. Of LibreQoS's form a device is skipped, or a whole circuit if an address belongs to another subscriber. `--lenient` of `check`, `up`, `run` and `reload` does this for all files.";
    "live": "true or false", "false", "Subscribers without addresses and tags get them live: from RADIUS, the API or `tidegate gate assign`. Without this key they are a mistake.";
}
section! { ACCOUNTING = "[accounting]", "How many bytes are charged for a packet.";
    "layer": "2 or 3", "2", "Charge from the Ethernet header on, with its tags (2), or from the IP header on (3).";
    "overhead": "size", "0B", "Added to every packet on the wire: `\"4B\"` for the check sequence, `\"24B\"` with preamble and gap as well. May be negative.";
}
section! { API = "[api]", "The HTTP API. It does what the commands do.";
    "listen": "address", "", "`\"unix:/run/tidegate/api.sock\"`, or an address and port, `\"127.0.0.1:9642\"`.";
    "token": "path", "none", "A file with the secret that requests must carry. It is needed unless `listen` is local.";
    "read-token": "path", "none", "A file with the secret of clients that may only read: status, subscribers, metrics.";
    "certificate": "path", "none", "A file with a certificate and its chain (PEM): the address then speaks TLS. It is read again at each reload.";
    "key": "path", "none", "The file with the certificate's private key (PEM), which not everybody may read.";
    "group": "name or number", "none", "The group that may use the Unix socket. Without one, only root may.";
}
section! { METRICS = "[metrics]", "Prometheus metrics, at `/metrics`.";
    "listen": "address", "", "As in `[api]`. The same address serves both.";
    "token": "path", "none", "As in `[api]`.";
    "certificate": "path", "none", "As in `[api]`.";
    "key": "path", "none", "As in `[api]`.";
    "subscribers": "number", "1000", "Most subscribers with separate metrics, those with the most traffic first. The others are summed up.";
    "queues": "number", "0", "Most subscribers with metrics for each queue.";
}

section! { USAGE = "[usage]", "Counts the bytes that each subscriber used in its month. The daemon does that.";
    "file": "path", "", "Where the counts are kept, in a folder that survives restarts of the machine, such as `/var/lib/tidegate/usage.json`. It is written every minute and at the end.";
}

section! { WATCH = "[watch]", "Watches the flows of subscribers: round-trip times on both sides of the gate, segments of TCP that are sent again, and a score of 0 to 100 by IETF's draft on Quality of Outcome.";
    "flows": "number", "65536", "Most flows that are watched at a time, 1,024 to 16,777,216. Beyond that the flow without packets for the longest time is forgotten. A flow takes about 300 bytes, which are allocated at once.";
    "p50": "two times", "[\"50ms\", \"400ms\"]", "The median of round trips on the subscriber's side. Up to the first time it costs no score. From the second time on the score is 0.";
    "p95": "two times", "[\"100ms\", \"600ms\"]", "Their 95th percentile, likewise.";
    "again": "two numbers", "[1, 10]", "The share of segments that are sent again, in per cent, likewise.";
}

section! { PAIR = "[pair]", "The other one of two gates that stand in for one another. Both have the same file, but for this table. Each asks the other one once a second over its HTTP API for live changes, volumes of months and the state of limiters. The daemon does that. It needs `[api]`.";
    "peer": "address", "", "Where the other gate's API listens, such as `\"192.0.2.2:9642\"`.";
    "token": "path", "none", "The file with the secret of the other gate's API, which not everybody may read. It is needed unless `peer` is on this machine.";
    "certificate": "path", "none", "The other gate's certificate, or the one that signed it (PEM). The connection is then TLS, and the certificate must be for the address of `peer`.";
}

section! { RADIUS = "[radius]", "Access servers tell by RADIUS which subscriber has which address, and change plans. The daemon does that.";
    "accounting": "address", "none", "Where accounting is answered (RFC 2866), such as `\"192.0.2.1:1813\"`.";
    "change": "address", "none", "Where changes of authorization and disconnects are answered (RFC 5176), such as `\"192.0.2.1:3799\"`.";
    "secret": "path", "", "A file with the secret that access servers share with the gate, which not everybody may read.";
    "clients": "prefixes", "", "Addresses of the access servers. Packets from others are ignored.";
}

/// All sections, in the order of the documentation.
pub const SECTIONS: &[Section] = &[
    FILE, INTERFACE, PLAN, SCHEDULE, DIRECTION, RULE, NODE, SUBSCRIBER, IMPORT, ACCOUNTING, API,
    METRICS, USAGE, WATCH, PAIR, RADIUS,
];

/// Every key, as Markdown: `docs/reference/gate-configuration.md` holds the same.
pub fn schema() -> String {
    tidegate_notation::markdown(SECTIONS)
}
