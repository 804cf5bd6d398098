//! Every key of a scenario file, once: for checking, for `tidegate lab schema`, for the
//! documentation.

use tidegate_notation::{Section, burst_control, rule, section};

section! { FILE = "the file", "Keys above the first table.";
    "title": "text", "the file's name", "What the scenario shows, in a few words.";
    "duration": "time", "", "How long it lasts.";
    "seed": "number", "1", "All random values come from it. The same file and seed give the same results on every machine.";
    "window": "time", "250ms", "Width of the windows over which throughput is counted.";
    "sample": "time", "never", "How often the occupancy of queues and buckets is recorded.";
    "connections": "time or \"changes\"", "never", "How often the state of each connection's sender is recorded: its windows, round trips, pacing rate, loss state and counts.";
    "element": "tables", "none", "What packets pass through.";
    "node": "tables", "none", "Capacities that limiters share, such as those of sites and access points.";
    "aggregate": "tables", "one, named `all`", "The subscribers: the traffic of each shares limiters.";
    "flow": "tables", "", "The senders.";
    "sweep": "table", "none", "What is varied.";
}
section! { ELEMENT = "[[element]]", "Something that packets pass through, of any kind.";
    "name": "name", "", "Its name in paths, sweeps and results.";
    "kind": "a kind", "", "One of the kinds below.";
    "shared": "true or false", "false", "Whether all aggregates pass through the same element. Otherwise each aggregate has a separate one.";
    "node": "name", "none", "The node above a limiter of kind `pqp`, `bc-pqp` or `bc-pqp-paper`: all limiters below a node share its capacity by their rates.";
}
section! { NODE = "[[node]]", "A capacity that limiters share, as in the [gate](../explanation/nodes.md): no packet waits, and while the limiters below want more, each of them may use the same part of its rate. Aggregates whose limiters share a node are simulated together.";
    "name": "name", "", "Its name, for `node` of elements and `parent` of nodes, and in sweeps.";
    "rate": "rate", "", "Its capacity, for bytes as the limiters charge them.";
    "parent": "name", "none", "The node above it. At most 8 nodes are above a limiter.";
}
section! { DELAY = "kind = \"delay\"", "Delays packets and keeps their order.";
    "delay": "time", "", "Delay of every packet.";
    "jitter": "time", "0", "Standard deviation of a random addition, which is normal and cut off at 0.";
}
section! { LINK = "kind = \"link\"", "Sends one packet after the other from a queue.";
    "rate": "rate", "", "Its capacity, for bytes at layer 2 without check sequence. A link has either this, `rates` or `trace`.";
    "rates": "pairs", "none", "A capacity that changes in steps: the time from which on each rate holds, and the rate, such as `[[\"0s\", \"20mbit\"], [\"5s\", \"0bit\"], [\"6s\", \"5mbit\"]]`. A rate of 0 is off.";
    "period": "time", "none", "After this time, `rates` begin again.";
    "trace": "a file", "none", "A capacity that was recorded, as a file in Mahimahi's format: each line is the millisecond at which a packet of 1,500 bytes may leave, and the file repeats. The file is looked for in the scenario's folder.";
    "queue": "a size, packets, a name or a table", "auto", "Its queue: `\"64kB\"` or `\"100 packets\"` for drop-tail, `\"codel\"`, `\"red\"`, `\"pie\"`, `\"fq-codel\"`, `\"dualpi2\"`, `\"cake\"`, or a table with their settings. `auto` is drop-tail with a bandwidth-delay product at the longest round trip of the flows that pass, at least 10 full packets. Queues that need a rate take the largest of `rates`, or the mean of a trace.";
}
section! { DROP_TAIL = "queue = { kind = \"drop-tail\" }", "First in, first out.";
    "kind": "a name", "drop-tail", "The discipline.";
    "bytes": "size", "no bound", "Most bytes.";
    "packets": "number", "no bound", "Most packets. A bound of either kind is needed.";
}
section! { CODEL = "queue = { kind = \"codel\" }", "CoDel, RFC 8289.";
    "kind": "a name", "", "The discipline.";
    "target": "time", "5ms", "Acceptable sojourn time.";
    "interval": "time", "100ms", "Time in which it must be reached.";
    "packets": "number", "1000", "Most packets.";
    "ecn": "true or false", "false", "Whether packets of senders that know ECN are marked instead of dropped.";
}
section! { RED = "queue = { kind = \"red\" }", "RED, in gentle mode.";
    "kind": "a name", "", "The discipline.";
    "min": "size", "a third of max", "Mean queue from which packets are dropped.";
    "max": "size", "a quarter of limit", "Mean queue at which `probability` is reached.";
    "probability": "number", "0.1", "Drop probability at `max`.";
    "limit": "size", "", "Most bytes.";
    "ecn": "true or false", "false", "Whether packets of senders that know ECN are marked instead of dropped, unless the mean queue is at twice `max` or the queue is full.";
}
section! { PIE = "queue = { kind = \"pie\" }", "PIE, RFC 8033.";
    "kind": "a name", "", "The discipline.";
    "target": "time", "15ms", "Delay to be held.";
    "update": "time", "15ms", "How often the drop probability is updated.";
    "packets": "number", "1000", "Most packets.";
    "ecn": "true or false", "false", "Whether packets of senders that know ECN are marked instead of dropped, up to a probability of 10 %.";
}
section! { FQ_CODEL = "queue = { kind = \"fq-codel\" }", "FQ-CoDel, RFC 8290.";
    "kind": "a name", "", "The discipline.";
    "flows": "number", "1024", "Number of queues.";
    "quantum": "size", "1514B", "What a queue may send in a round.";
    "target": "time", "5ms", "CoDel's target.";
    "interval": "time", "100ms", "CoDel's interval.";
    "packets": "number", "10240", "Most packets.";
    "ecn": "true or false", "true", "Whether packets of senders that know ECN are marked instead of dropped.";
}
section! { DUALPI2 = "queue = { kind = \"dualpi2\" }", "DualPI2, RFC 9332: one queue for packets of L4S senders (ECT(1) or CE), whose delay is kept near 1 ms by marks, and one for the others.";
    "kind": "a name", "", "The discipline.";
    "target": "time", "15ms", "Delay to be held in the queue of the others.";
    "update": "time", "16ms", "How often the probability of drops and marks is updated.";
    "threshold": "time", "800us", "Delay from which the queue of L4S senders marks by itself: none there, all from 0.4 ms more on.";
    "packets": "number", "10000", "Most packets, in both.";
}
section! { CAKE = "queue = { kind = \"cake\" }", "CAKE's queue, as in Linux: tins by code point, shares by host and flow, COBALT for each flow. Packets of senders that know ECN are marked. The link is the shaper.";
    "kind": "a name", "", "The discipline.";
    "rtt": "time", "100ms", "The round trip that it is tuned for: the interval of COBALT, whose target is a twentieth of it.";
    "tins": "\"besteffort\", \"diffserv3\" or \"diffserv4\"", "diffserv3", "How code points choose tins. A tin above best effort goes first up to a quarter of the rate (video: half of it), low priority up to a sixteenth.";
    "isolation": "\"flows\", \"dual-src\", \"dual-dst\" or \"triple\"", "triple", "What shares the rate of a tin evenly: flows; sources, destinations or both, and then the flows of each.";
    "limit": "size", "auto", "Most bytes. `auto` is four bandwidth-delay products at `rtt`, at least 4 MiB.";
}
section! { LOSS = "kind = \"loss\"", "Drops at random.";
    "probability": "number", "", "Share of packets that are lost, 0 to 1.";
    "burst": "number", "1", "Mean number of packets lost in a row; 1 is independent loss, more is Gilbert's model.";
}
section! { REORDER = "kind = \"reorder\"", "Holds some packets back, so that later ones overtake them.";
    "probability": "number", "", "Share of packets that are held back, 0 to 1.";
    "by": "time", "", "How long they are held back.";
}
section! { TAP = "kind = \"tap\"", "Writes the packets that pass to a capture file in the folder of the results.";
    "snaplen": "size", "128B", "Bytes that are kept of each packet.";
}
section! { POLICER = "kind = \"policer\"", "A token bucket that drops.";
    "rate": "rate", "", "Rate of tokens.";
    "burst": "size", "auto", "Depth of the bucket. `auto` is a bandwidth-delay product at the longest round trip of the flows that pass, at least 10 full packets.";
    "overhead": "size", "0B", "Added to the length of each IP packet before it is charged: 14B charges Ethernet headers, 18B their check sequence too.";
}
section! { SRTCM = "kind = \"srtcm\"", "Single-rate three-colour marker, RFC 2697, colour-blind.";
    "rate": "rate", "", "Committed information rate.";
    "committed": "size", "auto", "Committed burst size; `auto` as for a policer.";
    "excess": "size", "auto", "Excess burst size; `auto` as for a policer.";
    "yellow": "DSCP or \"drop\"", "drop", "What happens to yellow packets: they get this code point, or they are dropped.";
    "red": "DSCP or \"drop\"", "drop", "What happens to red packets.";
    "overhead": "size", "0B", "As for a policer.";
}
section! { TRTCM = "kind = \"trtcm\"", "Two-rate three-colour marker, RFC 2698, colour-blind.";
    "rate": "rate", "", "Committed information rate.";
    "committed": "size", "auto", "Committed burst size; `auto` as for a policer.";
    "peak": "rate", "", "Peak information rate, at least `rate`.";
    "peak-burst": "size", "auto", "Peak burst size; `auto` as for a policer, at the peak rate.";
    "yellow": "DSCP or \"drop\"", "drop", "What happens to yellow packets: they get this code point, or they are dropped.";
    "red": "DSCP or \"drop\"", "drop", "What happens to red packets.";
    "overhead": "size", "0B", "As for a policer.";
}
section! { FAIR_POLICER = "kind = \"fair-policer\"", "FairPolicer: a token bucket whose space is shared by flows.";
    "rate": "rate", "", "Rate of tokens.";
    "burst": "size", "auto", "Depth of the bucket. `auto` is what Reno or CUBIC needs at the longest round trip, whichever is more, at least 10 full packets.";
    "form": "\"exact\", \"sketch\" or \"bc-pqp\"", "bc-pqp", "The form of its authors, with exact counters or with their sketch, or the form of BC-PQP's authors.";
    "weights": "numbers", "all equal", "Weights of the queues, in form `bc-pqp`.";
    "queues": "number", "16", "Queues that flows are spread to, if the form has queues.";
    "overhead": "size", "0B", "As for a policer.";
}
section! { PQP = "kind = \"pqp\"", "Phantom queues, which count bytes and keep no packets.";
    "rate": "rate", "", "Rate of the aggregate.";
    "policy": "a policy", "{ fair = 16 }", "How the rate is shared: `\"queue\"`, `{ fair = 16 }`, `{ hosts = [4, 4] }` (four hosts and four queues for the flows of each), `{ weighted = [[4, POLICY], [1, POLICY]] }` or `{ priority = [POLICY, POLICY] }`, nested as needed. Its leaves are the classes, numbered from 0 in the order of the text. Flows name their class, or `rule` finds it.";
    "rule": "tables", "none", "Which packets belong to which class, as below. The first rule that matches counts. At most 256.";
    "default-class": "number", "the last", "The class of packets that match no rule.";
    "queue": "size", "auto", "Size of each phantom queue. `auto` as for a fair policer's burst.";
    "ecn": "true or false", "true", "Marks packets of senders that use ECN, and drops fewer of them.";
    "boost": "size", "none", "Bytes of the rate that the aggregate leaves unused and may use later at once. While something is saved, all packets pass.";
    "overhead": "size", "0B", "As for a policer.";
}
section! { BC_PQP = "kind = \"bc-pqp\"", "Phantom queues with burst control.";
    "rate": "rate", "", "Rate of the aggregate.";
    "policy": "a policy", "{ fair = 16 }", "As for `pqp`.";
    "rule": "tables", "none", "Which packets belong to which class, as below. The first rule that matches counts. At most 256.";
    "default-class": "number", "the last", "The class of packets that match no rule.";
    "queue": "size", "auto", "Size of each phantom queue. `auto` is 10 times that of `pqp`, at least 100 full packets.";
    "ecn": "true or false", "true", "Marks packets of senders that use ECN, and drops fewer of them.";
    "boost": "size", "none", "Bytes of the rate that the aggregate leaves unused and may use later at once. While something is saved, all packets pass.";
    "overhead": "size", "0B", "As for a policer.";
}
section! { BC_PQP_PAPER = "kind = \"bc-pqp-paper\"", "Phantom queues with burst control as in the paper that proposed it: it costs rate where round trips are short.";
    "rate": "rate", "", "Rate of the aggregate.";
    "policy": "a policy", "{ fair = 16 }", "As for `pqp`.";
    "rule": "tables", "none", "Which packets belong to which class, as below. The first rule that matches counts. At most 256.";
    "default-class": "number", "the last", "The class of packets that match no rule.";
    "queue": "size", "auto", "As for `bc-pqp`.";
    use burst_control::PERIOD;
    use burst_control::UPPER;
    use burst_control::LOWER;
    "overhead": "size", "0B", "As for a policer.";
}
section! { SHAPER = "kind = \"shaper\"", "Real queues, released at the rate.";
    "rate": "rate", "", "Rate of the aggregate.";
    "policy": "a policy", "{ fair = 16 }", "As for `pqp`. `\"queue\"` is a FIFO.";
    "rule": "tables", "none", "Which packets belong to which class, as below. The first rule that matches counts. At most 256.";
    "default-class": "number", "the last", "The class of packets that match no rule.";
    "queue": "size or packets", "auto", "Most bytes (`\"64kB\"`) or packets (`\"83 packets\"`) in each queue. `auto` is a bandwidth-delay product at the longest round trip, at least 10 full packets.";
    "burst": "size", "1514B", "Bytes that may leave at once after silence. The default is one packet; more makes it burst-tolerant.";
    "overhead": "size", "0B", "As for a policer.";
}
pub(super) const RULE: Section = Section {
    name: "[[element.rule]]",
    doc: "Which packets belong to a class of the policy of `pqp`, `bc-pqp`, `bc-pqp-paper` or `shaper`. A packet must match every key that is given. The remote side is the server's and the local side the client's, so a rule means the same for both directions. With rules or a `default-class`, the hash of a flow gives its queue, and its `class` and `queue` have no effect.",
    keys: rule::KEYS,
};
section! { AGGREGATE = "[[aggregate]]", "A subscriber, whose traffic shares limiters.";
    "name": "name", "", "Its name in flows and results.";
    "count": "number", "1", "Number of such aggregates.";
}
section! { FLOW = "[[flow]]", "Connections, or streams of datagrams, from servers to clients. Any value except those of `path` and `back` may be a list, whose values flows take in turn. Any time, size or rate may be a range such as `\"2ms..50ms\"`, from which each flow draws evenly.";
    "name": "name", "", "Its name in sweeps and results.";
    "aggregate": "name or names", "all aggregates", "Its aggregate. If several are named, each has these flows.";
    "count": "number", "1", "Number of such flows, in each aggregate.";
    "arrivals": "time or table", "none", "Flows arrive in place of a `count`, in each aggregate. A time: as a Poisson process with this mean time between two of them. The first begins at `start`, and they arrive until the end. `{ trace = \"arrivals.txt\" }`: as the lines of this file say.";
    "per-aggregate": "keys", "none", "Keys whose value is chosen once for each aggregate, not for each flow.";
    "path": "names", "", "Elements on the way to the client, in order.";
    "back": "names", "[]", "Elements on the way back.";
    "rtt": "time", "", "Its round-trip delay without the elements.";
    "start": "time", "0s", "When it begins.";
    "traffic": "a name or a table", "bulk", "What it sends: `\"bulk\"`, `\"on-off\"`, `\"video\"`, `\"web\"`, or a table with their settings.";
    "class": "number", "0", "Its class: the leaf of the limiters' policies, from 0 in the order of the policy. It counts if they have no rules.";
    "queue": "number, \"hash\" or \"own\"", "hash", "The queue within the class: this number, by hash, or `own` for a separate one.";
    "dscp": "number or name", "0", "The code point of its packets, such as `46` or `\"ef\"`.";
    "address": "address", "10.0.0.N", "The server's IPv4 address. The default follows the aggregate's number. Clients have 10.128.0.1 and so on.";
    "client": "address", "10.128.0.N", "The client's IPv4 address, in 10.128.0.0/9. The default differs for each flow: flows that name the same address belong to one client.";
    "port": "number", "443", "The server's port. Clients have 10000 and so on.";
    "cc": "\"reno\", \"cubic\", \"bbr\", \"bbr3\", \"vegas\", \"dctcp\" or \"prague\"", "cubic", "Congestion control: `bbr` is version 1, `bbr3` is version 3 by draft-ietf-ccwg-bbr-06.";
    "mss": "number", "1448", "Largest payload of a segment in bytes.";
    "initial-window": "number", "10", "Segments sent before the first acknowledgement.";
    "slow-start": "\"linux\" or \"hystart++\"", "linux", "How slow start ends before a loss: as in Linux (CUBIC has HyStart, Reno has nothing), or by HyStart++ of RFC 9406, with Reno and CUBIC.";
    "recovery": "\"conservative\", \"slow-start\" or \"quic\"", "conservative", "How losses are repaired: packet conservation first, as in Linux since 4.2, slow start at once, or all of it as QUIC does (RFC 9002), which needs `sack`.";
    "pacing": "true or false", "false", "Spreads segments over the round trip; BBR always does.";
    "rate-limit": "rate", "none", "Upper bound of the sending rate, at the sender, with `pacing` or without: IP packets leave one by one, no faster than this. The pacing rate of the congestion control stays what it is.";
    "slow-start-threshold": "number", "none", "Window in segments from which on it grows slowly, before anything is lost. Linux keeps it by destination.";
    "send-buffer": "size", "without end", "What the sender keeps until it is acknowledged. The application fills it when a third is free.";
    "receive-window": "size", "6MiB", "Largest receive window.";
    "read-rate": "rate", "at once", "How fast the receiving application reads. What it has not read takes from the receive window, down to zero.";
    "read-block": "size", "64KiB", "What it reads at a time.";
    "sack": "true or false", "true", "Selective acknowledgements.";
    "timestamps": "true or false", "true", "Timestamps, RFC 7323.";
    "ecn": "true or false", "false", "Explicit congestion notification, RFC 3168: limiters mark packets instead of dropping them. DCTCP has it in any case, and Prague has accurate ECN with ECT(1).";
    "rack": "true or false", "true", "RACK and tail loss probes, RFC 8985. Without them, three duplicates show a loss.";
    "slow-start-after-idle": "true or false", "true", "Forgets an unused window, RFC 2861. Video servers often turn it off.";
    "min-rto": "time", "200ms", "Lower bound of the retransmission timeout.";
    "delayed-ack": "time", "40ms", "Longest delay of an acknowledgement.";
    "ack-compression": "true or false", "true", "Joins duplicate acknowledgements for up to 1 ms, as Linux since 4.19.";
    "gro": "time", "0s", "The receiver's host merges segments that come within this time after one another, and one acknowledgement answers them (generic receive offload): `50us` is usual.";
}
section! { BULK = "traffic = { kind = \"bulk\" }", "As much as the path allows.";
    "kind": "a name", "", "The traffic.";
    "size": "size or a table", "without end", "Bytes to send, or the distribution that they are drawn from.";
}
section! { ARRIVALS = "arrivals = { … }", "When flows arrive, as measured elsewhere.";
    "trace": "file", "", "The file. A line is a time in seconds, counted from the first flow's `start`, and for traffic of kind `bulk` the bytes of the transfer if they are known: `0.25 14600`. Times do not decrease. Lines that begin with `#` are comments.";
}
section! { SIZES = "size = { … }", "A distribution of sizes: a bounded Pareto distribution by its mean, or any by its points. Each flow draws one.";
    "mean": "size", "", "Mean size.";
    "shape": "number", "1.2", "Its shape, more than 1. A smaller one has a heavier tail.";
    "max": "size", "1000 times the mean", "Largest size.";
    "cdf": "pairs", "none", "Points of a cumulative distribution in place of `mean`: sizes, and the share of transfers that are not longer, such as `[[\"10kB\", 0.8], [\"1MB\", 1]]`. Sizes between them are on straight lines.";
}
section! { ON_OFF = "traffic = { kind = \"on-off\" }", "Transfers of random size with random pauses between.";
    "kind": "a name", "", "The traffic.";
    "mean": "size", "100kB", "Mean size, of a bounded Pareto distribution.";
    "shape": "number", "1.2", "Its shape, more than 1. A smaller one has a heavier tail.";
    "max": "size", "1000 times the mean", "Largest size.";
    "pause": "time", "1s", "Mean pause, of an exponential distribution.";
    "reconnect": "true or false", "true", "A new connection for each transfer.";
}
section! { VIDEO = "traffic = { kind = \"video\" }", "Requests of chunks, with pauses.";
    "kind": "a name", "", "The traffic.";
    "chunk": "size", "2MB", "Size of a chunk.";
    "chunks": "number", "without end", "Number of chunks.";
    "pause": "time", "5s", "From the end of a chunk to the next request.";
    "request": "size", "300B", "Size of a request.";
}
section! { STREAM = "traffic = { kind = \"stream\" }", "A whole video over one connection, as in progressive streaming: the start-up phase at full speed, the rest throttled.";
    "kind": "a name", "", "The traffic.";
    "rate": "rate", "", "Encoding rate of the video.";
    "length": "time", "5min", "How long it plays.";
    "startup": "time", "35s", "How much of it is sent at full speed.";
    "throttle": "number", "1.25", "The throttled rate over the encoding rate.";
    "pace": "\"application-64k\", \"application-16k\", \"max-pacing-rate\", \"trickle\" or \"none\"", "application-64k", "How the server keeps the throttled rate: the application writes blocks of 64 or 16 KiB when a token bucket allows; TCP's pacing is bounded to the rate (`SO_MAX_PACING_RATE`); Trickle bounds the congestion window; or nothing does. `tidegate serve --way` has the same names.";
    "block": "size", "as pace says; trickle 10 segments", "Size of the blocks of application pacing. Of `trickle`: of the blocks that are written where its bound would be below 10 segments and writes are throttled too.";
    "min-pause": "time", "0s", "Of application pacing: the server does not pause for less. YouTube's server had 100 ms.";
    "headroom": "number", "1.2", "Of `trickle`: the bound over throttled rate times round trip.";
    "hold-average": "true or false", "false", "Of `trickle`: leaves out the headroom while the transfer is ahead of the throttled rate, so that its average is that rate.";
    "join": "time", "2s", "Video that the player needs before it begins.";
    "rejoin": "time", "5s", "Video that the player needs to continue, after it ran out.";
    "request": "size", "300B", "Size of the request.";
}
section! { ADAPTIVE = "traffic = { kind = \"adaptive\" }", "A whole video in segments over one persistent connection. The player asks for one after the other, and chooses the quality of each.";
    "kind": "a name", "", "The traffic.";
    "ladder": "rates", "", "The encoding rates of the qualities, ascending, such as `[\"300kbit\", \"1mbit\", \"3mbit\"]`. This list is one value.";
    "segment": "time", "4s", "How long a segment plays.";
    "segment-sizes": "numbers", "all are 1", "Sizes of the segments over what their rates say, such as `[1.1, 0.9]`, one after the other and again, in all qualities. This list is one value.";
    "length": "time", "5min", "How long the video plays.";
    "rule": "\"throughput\", \"bola\" or \"bola-5\"", "throughput", "How the player chooses. `throughput` takes the highest quality below 90 % of the throughput of earlier segments. BOLA chooses by the video in the buffer; `bola-5` does so as dash.js 5.";
    "initial": "rate", "that of the lowest quality", "The first segment has the highest quality up to this rate: nothing is known of the throughput yet.";
    "initial-segments": "number", "1", "As many segments have this quality, before the player goes by their throughput.";
    "unmeasured": "size", "0B", "The first bytes of a segment do not count for its throughput, nor does the time until they have arrived. A player in a browser sees them as one record of TLS: for dash.js, `16kB`.";
    "weight": "number", "1", "What a second of downloading weighs in the averages of throughput: 1.5 in dash.js 5.";
    "buffer": "time", "30s", "The player asks for a segment while it has less video than this; with `bola-5`, once the segment fits into it. `bola` chooses the lowest quality below a third of it, and the highest from it on.";
    "join": "time", "2s", "Video that the player needs before it begins, at most `buffer`.";
    "rejoin": "time", "5s", "Video that the player needs to continue, after it ran out, at most `buffer`.";
    "request": "size", "300B", "Size of a request.";
    "preface": "sizes", "none", "What the player fetches before the first segment, one after the other, such as `[\"3kB\", \"1kB\"]`: a handshake of TLS, a manifest, the beginning of the stream. This list is one value.";
    "work": "time", "0s", "How long the player works by itself before it asks for the first segment.";
}
section! { WEB = "traffic = { kind = \"web\" }", "A browser that visits pages, one after the other, each over new connections. A visit ends when all objects of the page have arrived.";
    "kind": "a name", "", "The traffic.";
    "page": "a file or a table", "drawn at each visit", "An HTTP archive (HAR) of a page, as browsers and their tools save it, whose objects keep their sizes and dependencies. The file is looked for in the scenario's folder. Or the pages that visits draw, as below.";
    "http": "\"http/1.1\" or \"h2\"", "h2", "The version of HTTP, by its name in TLS. HTTP/1.1 has a request at a time on each connection. HTTP/2 has a connection to each host, on which responses take turns.";
    "connections": "number", "6 with HTTP/1.1", "Of HTTP/1.1: most connections to a host.";
    "handshake": "size", "4kB", "What a server sends in the handshake of TLS 1.3, which takes a round trip. `0B` is without TLS.";
    "pause": "time", "5s", "From the end of a visit to the next.";
    "visits": "number", "without end", "Number of visits.";
}
section! { PAGE = "page = { … }", "Pages that are drawn. The first object is the document, which names others at random places.";
    "objects": "number", "40", "Objects of a page.";
    "mean": "size", "20kB", "Mean size of an object, of a bounded Pareto distribution.";
    "shape": "number", "1.2", "Its shape, more than 1. A smaller one has a heavier tail.";
    "max": "size", "100 times the mean", "Largest size.";
    "nested": "number", "0.3", "Share of objects that another object than the document names, when all of it has arrived.";
    "request": "size", "400B", "Size of a request.";
}
section! { UDP = "traffic = { kind = \"udp\" }", "Datagrams at a constant rate.";
    "kind": "a name", "", "The traffic.";
    "rate": "rate", "", "Rate at the IP layer.";
    "size": "size", "1500B", "Length of each IP packet.";
    "stop": "time", "the end", "When it ends.";
}
section! { SWEEP = "[sweep]", "What is varied. Every combination of the values is run with every seed. A key is either a key of the file, such as `window`, or the name of an element, node, flow or aggregate, a dot and its key, such as `\"gate.rate\"`. A name alone takes tables, to vary several of its keys together. While `kind` is varied, keys of the other kinds are ignored.";
    "seed": "numbers", "the file's", "Seeds to repeat every combination with.";
    "seeds": "number", "1", "How many seeds, from the file's seed on.";
}

/// All of them, in the order of the documentation.
pub const SECTIONS: &[Section] = &[
    FILE,
    ELEMENT,
    DELAY,
    LINK,
    DROP_TAIL,
    CODEL,
    RED,
    PIE,
    FQ_CODEL,
    DUALPI2,
    CAKE,
    LOSS,
    REORDER,
    TAP,
    POLICER,
    SRTCM,
    TRTCM,
    FAIR_POLICER,
    PQP,
    BC_PQP,
    BC_PQP_PAPER,
    SHAPER,
    RULE,
    NODE,
    AGGREGATE,
    FLOW,
    BULK,
    ARRIVALS,
    SIZES,
    ON_OFF,
    VIDEO,
    STREAM,
    ADAPTIVE,
    WEB,
    PAGE,
    UDP,
    SWEEP,
];

/// Every key, as Markdown: `docs/reference/scenarios.md` holds the same.
pub fn schema() -> String {
    tidegate_notation::markdown(SECTIONS)
}
