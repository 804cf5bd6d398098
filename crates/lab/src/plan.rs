//! The plan of a simulation, checked and complete: the engine's input. Scenario files become plans,
//! one for each group of aggregates that share nothing, each point of a sweep and each seed.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

pub use tidegate_limiter::pacing::Way;
use tidegate_limiter::pacing::throttled_rate;
use tidegate_limiter::{LimiterConfig, Nanos, Police, Rate, Rule};

use crate::capacity::Capacity;
use crate::page::{Drawn, Page};
use crate::tcp::TcpConfig;

/// A simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All random values come from it.
    pub seed: u64,
    /// When it ends.
    pub duration: Nanos,
    /// Width of the windows over which throughput is counted.
    pub window: Nanos,
    /// How often the occupancy of elements is noted; never if `None`.
    pub sample: Option<Nanos>,
    /// When the state of each connection is noted; never if `None`.
    pub connections: Option<Noting>,
    /// Names of the aggregates.
    pub aggregates: Vec<String>,
    /// The elements that packets pass.
    pub elements: Vec<ElementPlan>,
    /// Capacities that limiters share.
    pub nodes: Vec<NodePlan>,
    /// The senders and receivers.
    pub flows: Vec<FlowPlan>,
}

impl Plan {
    /// The elements, each with its index and its number among those that are no taps.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = ((usize, usize), &ElementPlan)> {
        let mut next = 0;
        self.elements
            .iter()
            .enumerate()
            .map(move |(index, element)| {
                let number = next;
                next += usize::from(!element.kind.is_tap());
                ((index, number), element)
            })
    }

    /// Names for the captures of the taps, in the order of the elements: the tap's name, `suffix`
    /// and `.pcap`.
    pub fn captures(&self, suffix: &str) -> Vec<String> {
        let taps = self.elements.iter().filter(|element| element.kind.is_tap());
        // A dot, which the names of scenarios' elements and aggregates do not have.
        taps.map(|tap| format!("{}{suffix}.pcap", tap.name.replace(':', ".")))
            .collect()
    }
}

/// When the state of a connection is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noting {
    /// Whenever it has changed.
    Changes,
    /// At multiples of this time.
    Every(Nanos),
}

/// An element that packets pass.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementPlan {
    /// Its name in results; unique.
    pub name: String,
    /// Its kind.
    pub kind: ElementKind,
}

/// The kind of an element.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementKind {
    /// Delays by a constant, and a random addition that keeps the order.
    Delay {
        /// Delay of every packet.
        delay: Nanos,
        /// Standard deviation of a normal distribution, whose positive half is added.
        jitter: Nanos,
    },
    /// Sends one packet after the other, at its rate, from a queue.
    Link {
        /// Bits per second, of bytes at layer 2 without FCS.
        rate: Rate,
        /// What happens to packets that wait.
        queue: QueueKind,
    },
    /// A link whose rate varies.
    Varying {
        /// Its capacity over time, of bytes at layer 2 without FCS.
        capacity: Capacity,
        /// What happens to packets that wait.
        queue: QueueKind,
    },
    /// Drops at random.
    Loss {
        /// Probability of a loss.
        probability: f64,
        /// Mean number of packets lost in a row; 1 is independent loss, more is Gilbert's model.
        burst: f64,
    },
    /// Holds some packets back, so that later ones overtake them.
    Reorder {
        /// Probability that a packet is held back.
        probability: f64,
        /// How long it is held back.
        by: Nanos,
    },
    /// A rate limiter: bufferless, or a shaper.
    Limiter {
        /// The limiter, and its settings.
        config: LimiterConfig,
        /// Which packets belong to which class of its policy, unless flows name their class.
        classes: Option<Classes>,
        /// Added to the length of each IP packet before it is charged, in bytes: 14 charges
        /// Ethernet headers, 18 their check sequence too, 0 is layer 3.
        overhead: u32,
    },
    /// A limiter of another program.
    Custom {
        /// The limiter.
        limiter: CustomLimiter,
        /// As in [`Limiter`](Self::Limiter).
        overhead: u32,
    },
    /// Shows the packets that pass, for a capture.
    Tap {
        /// Bytes shown of each frame.
        snaplen: u32,
    },
}

impl ElementKind {
    /// The queue of a link.
    pub fn queue(&self) -> Option<&QueueKind> {
        match self {
            Self::Link { queue, .. } | Self::Varying { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// Whether it only observes packets.
    pub fn is_tap(&self) -> bool {
        matches!(self, Self::Tap { .. })
    }
}

/// A capacity that limiters share, as those of a gate share the capacity of a site or access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// What all limiters below it may let pass together.
    pub capacity: Rate,
    /// The index of the node above it.
    pub above: Option<usize>,
    /// The elements directly below it: limiters of phantom queues.
    pub limiters: Vec<usize>,
}

/// A limiter that the lab does not know, and how it is made.
#[derive(Clone)]
pub struct CustomLimiter {
    name: &'static str,
    make: Arc<dyn Fn() -> Box<dyn Police + Send> + Send + Sync>,
}

impl CustomLimiter {
    /// Makes the limiter as it is before its first packet, at time 0.
    pub fn new(
        name: &'static str,
        make: impl Fn() -> Box<dyn Police + Send> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(make);
        Self { name, make }
    }

    pub(crate) fn make(&self) -> Box<dyn Police + Send> {
        (self.make)()
    }
}

impl fmt::Debug for CustomLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for CustomLimiter {
    /// Whether both are made by the same function.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

/// A queue discipline.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueKind {
    /// First in, first out. Packets without space are dropped.
    DropTail {
        /// Most bytes.
        bytes: Option<u64>,
        /// Most packets.
        packets: Option<u64>,
    },
    /// CoDel, RFC 8289.
    CoDel {
        /// Sojourn time that is acceptable.
        target: Nanos,
        /// Time in which it must be reached.
        interval: Nanos,
        /// Most packets.
        packets: u64,
        /// Whether packets of senders that know ECN are marked instead of dropped.
        ecn: bool,
    },
    /// RED (Floyd and Jacobson 1993), in gentle mode.
    Red {
        /// Mean queue in bytes from which packets are dropped.
        min: u64,
        /// Mean queue in bytes at which `probability` is reached.
        max: u64,
        /// Drop probability at `max`.
        probability: f64,
        /// Most bytes.
        limit: u64,
        /// Whether packets of senders that know ECN are marked instead of dropped.
        ecn: bool,
    },
    /// PIE, RFC 8033.
    Pie {
        /// Delay to be held.
        target: Nanos,
        /// How often the probability is updated.
        update: Nanos,
        /// Most packets.
        packets: u64,
        /// Whether packets of senders that know ECN are marked instead of dropped.
        ecn: bool,
    },
    /// FQ-CoDel, RFC 8290.
    FqCoDel {
        /// Number of queues.
        flows: u32,
        /// Bytes a queue may send in a round.
        quantum: u32,
        /// CoDel's target.
        target: Nanos,
        /// CoDel's interval.
        interval: Nanos,
        /// Most packets.
        packets: u64,
        /// Whether packets of senders that know ECN are marked instead of dropped.
        ecn: bool,
    },
    /// DualPI2, RFC 9332.
    DualPi2 {
        /// Delay to be held in the Classic queue.
        target: Nanos,
        /// How often the probability is updated.
        update: Nanos,
        /// Delay from which the L4S queue marks by itself.
        threshold: Nanos,
        /// Most packets, in both queues.
        packets: u64,
    },
    /// CAKE.
    Cake(CakePlan),
}

/// The settings of CAKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CakePlan {
    /// The round trip that it is tuned for.
    pub rtt: Nanos,
    /// How code points choose tins.
    pub tins: Tins,
    /// What shares the rate of a tin evenly.
    pub isolation: Isolation,
    /// Most bytes, in all tins; `None`: four bandwidth-delay products, at least 4 MiB.
    pub limit: Option<u64>,
}

/// CAKE's tins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tins {
    /// One.
    BestEffort,
    /// Best effort, low priority, and what is sensitive to delay.
    Diffserv3,
    /// Best effort, low priority, video and voice.
    Diffserv4,
}

/// What shares the rate evenly in CAKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Flows.
    Flows,
    /// Sources, and the flows of each.
    Sources,
    /// Destinations, and the flows of each.
    Destinations,
    /// Sources and destinations, and the flows of each.
    Triple,
}

/// How packets are classified by their headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// The first rule that matches counts. Sources are servers, in both directions.
    pub rules: Vec<Rule>,
    /// The class of packets that match no rule; the last one if `None`.
    pub default: Option<u16>,
}

/// A connection, or a stream of datagrams, from a server to a client.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowPlan {
    /// Its name in results; several flows may share one.
    pub name: String,
    /// The aggregate it belongs to, an index.
    pub aggregate: usize,
    /// Elements on the way to the client, indices, in order.
    pub forward: Vec<usize>,
    /// Elements on the way back, indices, in order.
    pub back: Vec<usize>,
    /// Its delay without the elements: half of it before the first element of `forward`, half after
    /// the last of `back`. Taps at the server's end (first in `forward`, last in `back`) are on the
    /// server's side of this delay, so they see what a server sees.
    pub delay: Nanos,
    /// The class of its data in the limiters' policies, if these have no rules. `None`: class 0.
    pub class: Option<u16>,
    /// The queue within the class; `None`: by the flow's hash.
    pub queue: Option<u16>,
    /// The code point of its packets.
    pub dscp: u8,
    /// Address of its server; that of the aggregate if `None`.
    pub address: Option<Ipv4Addr>,
    /// Port of its server.
    pub port: u16,
    /// Address of its client; one for each flow if `None`.
    pub client: Option<Ipv4Addr>,
    /// When it begins.
    pub start: Nanos,
    /// The traffic that it sends.
    pub traffic: Traffic,
    /// The settings of TCP, unless it sends datagrams.
    pub tcp: TcpConfig,
}

/// What a flow's application sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    /// A number of bytes, or without end.
    Bulk {
        /// Bytes; without end if `None`.
        bytes: Option<u64>,
    },
    /// Transfers of random size with random pauses between.
    OnOff {
        /// Mean size in bytes of a bounded Pareto distribution.
        mean: f64,
        /// Its shape; smaller is heavier-tailed.
        shape: f64,
        /// Largest size in bytes.
        max: f64,
        /// Mean pause (exponential).
        pause: Nanos,
        /// A new connection for each transfer.
        reconnect: bool,
    },
    /// Requests of chunks, with pauses.
    Video {
        /// Bytes of a chunk.
        chunk: u64,
        /// Number of chunks; without end if `None`.
        chunks: Option<u32>,
        /// From the end of a chunk to the next request.
        pause: Nanos,
        /// Bytes of a request.
        request: u32,
    },
    /// A whole video, its beginning at full speed and the rest throttled.
    Stream(StreamPlan),
    /// A whole video in segments, whose quality the player adapts.
    Adaptive(AdaptivePlan),
    /// Visits of web pages.
    Web(WebPlan),
    /// Datagrams at a constant rate, bytes on the wire.
    Datagrams {
        /// Rate at the IP layer.
        rate: Rate,
        /// Length of each IP packet in bytes.
        bytes: u32,
        /// When it ends.
        stop: Option<Nanos>,
    },
}

/// A video over one connection, as progressive streaming sends it [Trickle §2].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPlan {
    /// Encoding rate of the video.
    pub rate: Rate,
    /// How long it plays.
    pub length: Nanos,
    /// How much of it is sent at full speed: the start-up phase.
    pub startup: Nanos,
    /// The throttled rate, in thousandths of the encoding rate.
    pub throttle: u32,
    /// How the server keeps it.
    pub pace: Pace,
    /// Video that the player needs before it begins.
    pub start: Nanos,
    /// Video that it needs to continue, after it ran out.
    pub restart: Nanos,
    /// Bytes of the request.
    pub request: u32,
}

impl StreamPlan {
    /// The throttled rate R, of payload.
    pub fn throttled_rate(&self) -> Rate {
        throttled_rate(self.rate, self.throttle.into())
    }

    /// R in bytes per second, at least 1.
    pub fn throttled_bytes_per_second(&self) -> u64 {
        (self.throttled_rate().bits_per_second() / 8).max(1)
    }
}

/// A video in segments of several qualities, over one persistent connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptivePlan {
    /// Encoding rates of the qualities, ascending.
    pub ladder: Vec<Rate>,
    /// How long a segment plays.
    pub segment: Nanos,
    /// How long the video plays; its last segment may be shorter.
    pub length: Nanos,
    /// Sizes of the segments in thousandths of what their rates say, one after the other and again; empty if all are 1000. They are the
    /// same in all qualities: a scene that is hard to encode is so in each.
    pub sizes: Vec<u32>,
    /// How the player chooses the quality of a segment.
    pub rule: AdaptationRule,
    /// The quality of the first segment is the highest one up to this rate, or else the lowest.
    pub initial: Rate,
    /// As many segments have this quality, before the player goes by their throughput; at least one.
    pub initial_segments: u32,
    /// The first bytes of a segment do not count for its throughput, nor does the time until they have arrived.
    pub unmeasured: u32,
    /// What a second of downloading weighs in averages of throughput, in thousandths: dash.js 5 has 1500 (`weightDownloadTimeMultiplicationFactor`).
    pub weight: u32,
    /// The player asks for a segment while it has less video than this.
    pub buffer: Nanos,
    /// Video that the player needs before it begins.
    pub start: Nanos,
    /// Video that it needs to continue, after it ran out.
    pub restart: Nanos,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of what the player fetches before the first segment, one after the other: a manifest, the beginning of the stream.
    pub preface: Vec<u64>,
    /// How long the player works by itself before it asks for the first segment: scripts, decoders.
    pub work: Nanos,
}

impl AdaptivePlan {
    /// Segments of the video.
    pub fn segments(&self) -> u64 {
        self.length.div_ceil(self.segment.max(1))
    }

    /// How long a segment plays: the last one may be shorter.
    pub fn plays(&self, segment: u64) -> Nanos {
        let before = segment.saturating_mul(self.segment);
        self.segment.min(self.length.saturating_sub(before))
    }
}

/// How a player chooses the quality of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdaptationRule {
    /// By the throughput of earlier segments.
    Throughput,
    /// By the video in the buffer: BOLA, with the parameters of dash.js up to version 4.
    Bola,
    /// BOLA as in dash.js 5.
    Bola5,
}

impl AdaptationRule {
    /// Names of the rules.
    pub const NAMES: [(&str, Self); 3] = [
        ("throughput", Self::Throughput),
        ("bola", Self::Bola),
        ("bola-5", Self::Bola5),
    ];
}

/// A browser that visits pages, one after the other, each over new connections.
#[derive(Debug, Clone, PartialEq)]
pub struct WebPlan {
    /// The pages.
    pub page: Pages,
    /// The version of HTTP.
    pub http: Http,
    /// Bytes that the server sends in the handshake of TLS 1.3, which takes a round trip; 0 is without TLS.
    pub handshake: u32,
    /// From the end of a visit to the next.
    pub pause: Nanos,
    /// Number of visits; without end if `None`.
    pub visits: Option<u32>,
}

/// The pages that a browser visits.
#[derive(Debug, Clone, PartialEq)]
pub enum Pages {
    /// Always this one.
    Same(Page),
    /// Each visit draws one.
    Drawn(Drawn),
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1: a request at a time on each connection.
    One {
        /// Most connections to a host.
        connections: u32,
    },
    /// HTTP/2: a connection to each host, on which responses take turns.
    Two,
}

/// How a server keeps the throttled rate R.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The way to pace.
    pub way: Way,
    /// Of application pacing: the shortest pause of the server; YouTube's was 100 ms [Trickle §3.2].
    pub least_wait: Nanos,
    /// Of Trickle: the clamp over R times the round trip, in thousandths.
    pub headroom: u32,
    /// Of Trickle: leaves out the headroom while the transfer is ahead of R, so that its average is R.
    pub hold_average: bool,
}

impl From<Way> for Pace {
    /// Without a shortest pause, and with 20 % headroom.
    fn from(way: Way) -> Self {
        Self {
            way,
            least_wait: 0,
            headroom: 1200,
            hold_average: false,
        }
    }
}
