//! Every key of a gate's file, once: for checking, for `tidegate gate schema`, for the documentation.

use tidegate_notation::{Section, rule, section};

section! { FILE = "the file", "Keys above the first table.";
    "unknown": "\"pass\" or \"drop\"", "pass", "What becomes of packets that are no subscriber's. With `drop`, what is not IP (ARP, spanning tree) and IPv6 neighbour discovery still pass.";
    "pins": "path", "/sys/fs/bpf/tidegate", "Folder for the kernel's maps and programs: they stay there when the daemon dies. It must lie in a bpffs, and cannot be changed by a reload.";
    "state": "path", "/run/tidegate", "Folder for the names of what is in the kernel, and the lock. It cannot be changed by a reload, and must be as short-lived as the kernel: lost when the machine restarts.";
    "log": "\"text\" or \"json\"", "text", "How the daemon writes its log.";
    "interface": "tables", "", "Where packets pass.";
    "plan": "tables", "none", "How subscribers are limited, by name.";
    "subscriber": "tables", "none", "Whose traffic is limited.";
    "import": "tables", "none", "Files of subscribers.";
    "accounting": "table", "layer 2", "What the bytes of a packet are.";
    "api": "table", "none", "Where the daemon answers.";
    "metrics": "table", "none", "Where the daemon tells its counters.";
}
section! { INTERFACE = "[[interface]]", "A network interface that subscribers' packets pass. On a bridge or a router there is a side of the subscribers (access) and one of the network (core): name both, and packets are limited as they come in. With one interface only, say what comes in there and what goes out.";
    "name": "name", "", "The interface, as `ip link` shows it.";
    "side": "\"core\" or \"access\"", "", "What is behind it: from `core` come packets to subscribers (down), from `access` packets from them (up). Instead of `ingress` and `egress`.";
    "ingress": "\"down\" or \"up\"", "none", "What comes in there: `down` if it is for subscribers, `up` if it is from them.";
    "egress": "\"down\" or \"up\"", "none", "What goes out there. Not with XDP.";
    "hook": "\"auto\", \"tc\", \"xdp\" or \"xdp-generic\"", "auto", "How packets are taken: `tc` everywhere, `xdp` in drivers that can, before the kernel spends anything on a packet; `xdp-generic` for tests. `auto` is `tc`.";
}
section! { PLAN = "[plan.NAME]", "How a subscriber is limited. A direction without a rate is not limited, and counted.";
    "down": "rate or table", "no limit", "Rate to the subscriber, or a table with `rate` and any of the keys below, which are then those of this direction.";
    "up": "rate or table", "no limit", "The same from the subscriber.";
    "scheme": "\"bc-pqp\", \"pqp\", \"policer\" or \"unlimited\"", "bc-pqp", "The limiter: phantom queues with burst control, phantom queues without, one token bucket, or none.";
    "policy": "a policy", "{ fair = 16 }", "How the rate is shared: `\"queue\"`, `{ fair = 16 }`, `{ weighted = [[4, POLICY], [1, POLICY]] }` or `{ priority = [POLICY, POLICY] }`, nested as needed, with at most 24 queues and 5 nodes that share. Its leaves are the classes, numbered from 0 as they are written.";
    "rule": "tables", "none", "What packets belong to which class; the first that fits counts. At most 32.";
    "default-class": "number", "the last", "The class of packets that no rule fits.";
    "excess": "\"drop\" or DSCP", "drop", "What becomes of packets beyond the limit: dropped, or sent on with this code point (`\"cs1\"`, `8`).";
    "rtt": "time", "100ms", "The longest round-trip time that is to be served well: `auto` sizes follow from it.";
    "queue": "size", "auto", "Size of each phantom queue. `auto` is what Reno and CUBIC need to come to the rate at `rtt`, ten times that with `bc-pqp`; at least 256 KiB, four super-packets of the kernel, and at most 1 TB: nothing is stored.";
    "burst": "size", "auto", "Depth of a policer's bucket. `auto` is the bandwidth-delay product at `rtt`, at least 128 KiB, two super-packets of the kernel.";
    "period": "time", "100ms", "T of `bc-pqp`: the time over which accepted bytes are counted.";
    "upper": "number", "1.5", "θ+ of `bc-pqp`: above this share of what the rate allows, magic packets fill the queue.";
    "lower": "number", "0.5", "θ− of `bc-pqp`: below this share, they are taken out again.";
}
section! { DIRECTION = "down = { … }", "One direction of a plan, where it differs. All keys of the plan but `down` and `up`, and:";
    "rate": "rate", "", "The rate.";
}
pub(super) const RULE: Section = Section {
    name: "[[plan.NAME.rule]]",
    doc: "What belongs to a class. A packet has to fit all that is given. The remote side is the one that is not the subscriber's, so that a rule means the same for both directions.",
    keys: rule::KEYS,
};
section! { SUBSCRIBER = "[[subscriber]]", "Whose traffic shares a limit. Packets are told by addresses or tags; tags count before addresses, PPPoE before QinQ before VLAN, longer prefixes before shorter ones.";
    "name": "name", "", "How commands and metrics call it.";
    "plan": "name", "none", "The plan. Without one, `down` and `up` are limited by `bc-pqp` with 16 fair queues.";
    "down": "rate", "the plan's", "Its own rate to it.";
    "up": "rate", "the plan's", "Its own rate from it.";
    "addresses": "prefix or prefixes", "none", "Its IPv4 and IPv6 addresses or prefixes.";
    "vlan": "number or numbers", "none", "Its VLAN tags, 1 to 4094: of packets with one tag.";
    "qinq": "pair or pairs", "none", "Its pairs of tags, the outer one first: `\"100.200\"`.";
    "pppoe": "number or numbers", "none", "Its PPPoE sessions, 1 to 65534.";
}
section! { IMPORT = "[[import]]", "A CSV file of subscribers: Tidegate's own, whose first line names the keys of `[[subscriber]]` in any order (`name,plan,down,up,addresses,vlan,qinq,pppoe`; several values in a field with spaces or semicolons between), or LibreQoS's ShapedDevices.csv, whose circuits become subscribers, limited to their maximum rates. Lines that begin with `#` are comments.";
    "csv": "path", "", "The file, relative to the folder of this one.";
    "plan": "name", "none", "The plan of lines that name none; rates in the file count before the plan's.";
}
section! { ACCOUNTING = "[accounting]", "What is charged for a packet.";
    "layer": "2 or 3", "2", "From the Ethernet header on with its tags (2), or from the IP header on (3).";
    "overhead": "size", "0B", "Added to every packet on the wire: `\"4B\"` for the check sequence, `\"24B\"` with preamble and gap as well. May be negative.";
}
section! { API = "[api]", "The local HTTP API. It does what the commands do.";
    "listen": "address", "", "`\"unix:/run/tidegate/api.sock\"`, or an address and port, `\"127.0.0.1:9642\"`.";
    "token": "path", "none", "A file with the secret that requests must carry; needed unless `listen` is local.";
    "group": "name or number", "none", "The group that may use the Unix socket; only root may without one.";
}
section! { METRICS = "[metrics]", "Prometheus metrics, at `/metrics`.";
    "listen": "address", "", "As of `[api]`; the same address serves both.";
    "token": "path", "none", "As of `[api]`.";
    "subscribers": "number", "1000", "Most subscribers with metrics of their own, those with most traffic first; the others are summed up.";
    "queues": "number", "0", "Most subscribers with metrics for each queue.";
}

/// All sections, in the order of the documentation.
pub const SECTIONS: &[Section] = &[
    FILE, INTERFACE, PLAN, DIRECTION, RULE, SUBSCRIBER, IMPORT, ACCOUNTING, API, METRICS,
];

/// Every key, as Markdown: `docs/reference/gate-configuration.md` holds the same.
pub fn schema() -> String {
    tidegate_notation::markdown(SECTIONS)
}
