//! Prometheus metrics in the OpenMetrics text format. The configuration bounds the number of series,
//! for any number of subscribers.

use std::fmt;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tidegate_gate::calendar::Why;
use tidegate_gate::control::{ControlError, Everything, SharedGate};
use tidegate_gate::reading::{InterfaceStatus, NodeStatus, Subscriber};
use tidegate_gate::table::{Counters, Direction, LimiterState};

use super::view::BoostJson;
use super::view::pair::PairJson;

mod felt;
#[cfg(test)]
mod tests;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Longest time in which queues are read for one scrape. Subscribers whose queues were not read by
/// then have no metrics of queues in it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bounds on the number of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most subscribers that are listed one by one: those with most bytes.
    pub subscribers: usize,
    /// Most listed subscribers with metrics for each queue.
    pub queues: usize,
}

/// All metrics as text. Blocks on the kernel and on other requests.
pub fn scrape(
    gate: &SharedGate,
    bounds: Bounds,
    pair: Option<PairJson>,
    stands_by: Option<bool>,
) -> Result<String, ControlError> {
    let began = Instant::now();
    let everything = gate.everything()?;
    let listed = heaviest(&everything, bounds.subscribers);
    let queues = queues(gate, &everything, &listed, bounds.queues, began + PATIENCE)?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape {
        everything,
        listed,
        queues,
        pair,
        stands_by,
        began,
    }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).map_err(|error| {
        ControlError::Other(format!("the metrics cannot be formatted: {error}"))
    })?;
    Ok(text)
}

/// The subscribers with most bytes, passed and not, since they were added: their indices in the roster,
/// ascending. All bytes count, not only recent ones, so that the list changes little between scrapes.
fn heaviest(everything: &Everything, most: usize) -> Vec<usize> {
    let counters = &everything.reading.counters;
    let mut indices: Vec<usize> = (0..counters.len()).collect();
    if indices.len() > most {
        let weight = |&index: &usize| {
            let both = counters[index].down.plus(counters[index].up);
            let bytes = both.passed_bytes.saturating_add(both.excess_bytes);
            (std::cmp::Reverse(bytes), index)
        };
        indices.select_nth_unstable_by_key(most, weight);
        indices.truncate(most);
        indices.sort_unstable();
    }
    indices
}

/// A limiter with its queues.
struct Queues {
    /// The index of its subscriber in the roster.
    subscriber: usize,
    direction: Direction,
    state: LimiterState,
}

fn queues(
    gate: &SharedGate,
    everything: &Everything,
    listed: &[usize],
    most: usize,
    until: Instant,
) -> Result<Vec<Queues>, ControlError> {
    let mut heaviest = listed.to_vec();
    if heaviest.len() > most {
        let bytes = |&index: &usize| {
            let counters = everything.reading.counters[index];
            std::cmp::Reverse(counters.down.plus(counters.up).passed_bytes)
        };
        heaviest.sort_by_key(bytes);
        heaviest.truncate(most);
    }
    let roster = &everything.reading.roster;
    let (limiters, numbers): (Vec<_>, Vec<_>) = heaviest
        .iter()
        .flat_map(|&index| {
            let limits = roster.subscribers[index].limits.iter();
            limits.map(move |(direction, limit)| ((index, direction), limit.limiter))
        })
        .unzip();
    let states = gate.limiters(numbers.into_iter(), until)?;
    let read = limiters.into_iter().zip(states);
    Ok(read
        .map(|((subscriber, direction), state)| Queues {
            subscriber,
            direction,
            state,
        })
        .collect())
}

struct Scrape {
    everything: Everything,
    listed: Vec<usize>,
    queues: Vec<Queues>,
    /// The other gate of a pair.
    pair: Option<PairJson>,
    /// On DPDK: whether a process stands by.
    stands_by: Option<bool>,
    began: Instant,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

/// A family of metrics that is being written.
struct Family<'a> {
    name: &'static str,
    help: &'static str,
    unit: Option<&'a Unit>,
}

impl Family<'_> {
    fn counters<L: EncodeLabelSet>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut family = encoder.encode_descriptor(self.name, self.help, self.unit, kind)?;
        for (labels, value) in samples {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        samples: impl Iterator<Item = (L, V)>,
    ) -> fmt::Result {
        let kind = MetricType::Gauge;
        let mut family = encoder.encode_descriptor(self.name, self.help, self.unit, kind)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn gauge(&self, encoder: &mut DescriptorEncoder<'_>, value: f64) -> fmt::Result {
        encoder
            .encode_descriptor(self.name, self.help, self.unit, MetricType::Gauge)?
            .encode_gauge(&value)
    }
}

fn family(name: &'static str, help: &'static str) -> Family<'static> {
    Family {
        name,
        help,
        unit: None,
    }
}

fn in_bytes(name: &'static str, help: &'static str) -> Family<'static> {
    Family {
        name,
        help,
        unit: Some(&Unit::Bytes),
    }
}

fn in_seconds(name: &'static str, help: &'static str) -> Family<'static> {
    Family {
        name,
        help,
        unit: Some(&Unit::Seconds),
    }
}

/// The fates of a limiter's packets or bytes.
const VERDICTS: [&str; 2] = ["passed", "excess"];

/// What is counted as marked.
const MARKED: &str = "Packets of ECN senders that passed and were marked as congested by the gate";

fn packets(counters: Counters) -> [u64; 2] {
    [counters.passed_packets, counters.excess_packets]
}

fn bytes(counters: Counters) -> [u64; 2] {
    [counters.passed_bytes, counters.excess_bytes]
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.gate(&mut encoder)?;
        self.subscribers(&mut encoder)?;
        self.felt(&mut encoder)?;
        self.queues(&mut encoder)?;
        // Last, so that it covers everything above.
        in_seconds(
            "tidegate_gate_scrape",
            "Time that it took to collect these metrics",
        )
        .gauge(&mut encoder, self.began.elapsed().as_secs_f64())
    }
}

/// The nodes of the network.
fn nodes(encoder: &mut DescriptorEncoder<'_>, nodes: &[NodeStatus]) -> fmt::Result {
    if nodes.is_empty() {
        return Ok(());
    }
    let each = |value: fn(&NodeStatus, Direction) -> u64| {
        nodes.iter().flat_map(move |node| {
            Direction::BOTH.map(|way| {
                let labels = [("node", node.name.as_str()), ("direction", way.name())];
                (labels, value(node, way))
            })
        })
    };
    in_bytes(
        "tidegate_gate_node",
        "Bytes that passed to and from the subscribers below a node of the network",
    )
    .counters(encoder, each(|node, way| node.state[way].passed_bytes))?;
    family(
        "tidegate_gate_node_capacity_bits_per_second",
        "Capacity of a node of the network",
    )
    .gauges(encoder, each(|node, way| node.capacity[way]))?;
    family(
        "tidegate_gate_node_full",
        "1 if a node of the network is full, so that subscribers below may use less than their rates",
    )
    .gauges(
        encoder,
        each(|node, way| u64::from(node.state[way].is_full())),
    )
}

/// The other gate of a pair. What never happened has no series.
fn other_gate(encoder: &mut DescriptorEncoder<'_>, pair: &PairJson) -> fmt::Result {
    let labels = || [("peer", pair.peer.as_str())];
    family(
        "tidegate_gate_pair_follows",
        "1 if this gate knew all that the other one of the pair does at the latest question",
    )
    .gauges(
        encoder,
        [(labels(), u64::from(pair.follows_s.is_some()))].into_iter(),
    )?;
    let ages = [
        (
            "tidegate_gate_pair_age",
            "Time since this gate knew all that the other one of the pair does",
            pair.age_s,
        ),
        (
            "tidegate_gate_pair_asked_age",
            "Time since the other gate of the pair asked this one",
            pair.asked_s,
        ),
    ];
    for (name, help, age) in ages {
        in_seconds(name, help).gauges(encoder, age.map(|age| (labels(), age)).into_iter())?;
    }
    family(
        "tidegate_gate_pair_unknown_limiters",
        "Limiters of the other gate of the pair that are unknown here or have other limits",
    )
    .gauges(encoder, [(labels(), pair.unknown_limiters)].into_iter())
}

impl Scrape {
    fn gate(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Everything {
            overview,
            reading,
            totals,
            reloads,
        } = &self.everything;
        encoder
            .encode_descriptor(
                "tidegate_gate",
                "Version and configuration file of the gate",
                None,
                MetricType::Info,
            )?
            .encode_info(&[
                ("version", env!("CARGO_PKG_VERSION")),
                ("file", &overview.file),
            ])?;
        let all = reading.roster.subscribers.len();
        family("tidegate_gate_subscribers", "Subscribers").gauge(encoder, all as f64)?;
        family(
            "tidegate_gate_subscribers_listed",
            "Subscribers that are listed one by one; metrics.subscribers bounds their number",
        )
        .gauge(encoder, self.listed.len() as f64)?;
        family(
            "tidegate_gate_subscribers_set",
            "Subscribers that were set live and differ from the configuration",
        )
        .gauge(encoder, reading.roster.set() as f64)?;
        let turned = |why| {
            let all = reading.roster.subscribers.iter();
            all.filter(|one| one.turn.as_ref().is_some_and(|(turn, _)| *turn == why))
                .count()
        };
        family(
            "tidegate_gate_subscribers_turned",
            "Subscribers with another plan than theirs, because of the time of day or a used quota",
        )
        .gauges(
            encoder,
            [Why::Schedule, Why::Quota]
                .into_iter()
                .map(|why| ([("why", why.name())], turned(why) as u64)),
        )?;
        family(
            "tidegate_gate_shadow",
            "1 if nothing is dropped or marked, and counts say what would be",
        )
        .gauge(encoder, f64::from(u8::from(overview.shadow)))?;
        family("tidegate_gate_plans", "Plans").gauge(encoder, overview.plans as f64)?;
        family(
            "tidegate_gate_attached",
            "1 if the gate is attached to the interface, 0 if it should be and is not",
        )
        .gauges(
            encoder,
            overview.attachments.iter().map(
                |InterfaceStatus {
                     attachment,
                     attached,
                     ..
                 }| {
                    let labels = [
                        ("interface", attachment.interface.as_str()),
                        ("hook", attachment.hook.name()),
                        ("direction", attachment.direction.name()),
                    ];
                    (labels, u64::from(*attached))
                },
            ),
        )?;
        family(
            "tidegate_gate_link_up",
            "1 if the device of the interface has a link, 0 if it has none; only where DPDK has the device",
        )
        .gauges(
            encoder,
            overview.attachments.iter().filter_map(|one| {
                let attachment = &one.attachment;
                let labels = [
                    ("interface", attachment.interface.as_str()),
                    ("hook", attachment.hook.name()),
                    ("direction", attachment.direction.name()),
                ];
                Some((labels, u64::from(one.link?)))
            }),
        )?;
        let sums = |of: fn(Counters) -> [u64; 2]| {
            totals.iter().flat_map(move |(direction, sum)| {
                let way = direction.name();
                let values = VERDICTS.into_iter().zip(of(*sum));
                values.map(move |(verdict, v)| ([("direction", way), ("verdict", verdict)], v))
            })
        };
        family(
            "tidegate_gate_packets",
            "Packets of all subscribers that passed or exceeded their limits",
        )
        .counters(encoder, sums(packets))?;
        in_bytes(
            "tidegate_gate",
            "Bytes of all subscribers that passed or exceeded their limits",
        )
        .counters(encoder, sums(bytes))?;
        family("tidegate_gate_marked_packets", MARKED).counters(
            encoder,
            totals
                .iter()
                .map(|(direction, sum)| ([("direction", direction.name())], sum.marked_packets)),
        )?;
        family(
            "tidegate_gate_unlimited_packets",
            "Packets that no limiter saw, by reason",
        )
        .counters(
            encoder,
            reading
                .unlimited
                .iter()
                .map(|&(reason, count)| ([("reason", reason)], count)),
        )?;
        nodes(encoder, &overview.nodes)?;
        if let Some(pair) = &self.pair {
            other_gate(encoder, pair)?;
        }
        if let Some(stands_by) = self.stands_by {
            family(
                "tidegate_gate_stands_by",
                "1 if a process stands by that passes all packets, without limits, if the daemon dies; only on DPDK",
            )
            .gauge(encoder, f64::from(u8::from(stands_by)))?;
        }
        family("tidegate_gate_reloads", "Reloads since the daemon started").counters(
            encoder,
            [("done", reloads.done), ("failed", reloads.failed)]
                .into_iter()
                .map(|(result, count)| ([("result", result)], count)),
        )?;
        in_seconds(
            "tidegate_gate_read",
            "Time that it took to read all counters",
        )
        .gauge(encoder, reading.took.as_secs_f64())
    }

    fn subscribers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let reading = &self.everything.reading;
        let limits = || {
            self.listed.iter().flat_map(|&index| {
                let subscriber = &reading.roster.subscribers[index];
                Direction::BOTH.map(|direction| (index, direction, subscriber))
            })
        };
        family(
            "tidegate_gate_subscriber_rate",
            "Rate limit of a subscriber in bits per second; 0 if there is none",
        )
        .gauges(
            encoder,
            limits().map(
                |(_, direction, subscriber): (usize, Direction, &Subscriber)| {
                    let labels = [
                        ("subscriber", &*subscriber.name),
                        ("plan", subscriber.plan_name()),
                        ("direction", direction.name()),
                    ];
                    (labels, subscriber.limits[direction].rate.unwrap_or(0))
                },
            ),
        )?;
        let counted = |of: fn(Counters) -> [u64; 2]| {
            limits().flat_map(move |(index, direction, subscriber)| {
                let values = of(reading.counters[index][direction]);
                VERDICTS.into_iter().zip(values).map(move |(verdict, v)| {
                    let labels = [
                        ("subscriber", &*subscriber.name),
                        ("direction", direction.name()),
                        ("verdict", verdict),
                    ];
                    (labels, v)
                })
            })
        };
        family(
            "tidegate_gate_subscriber_packets",
            "Packets of a subscriber that passed or exceeded its limit",
        )
        .counters(encoder, counted(packets))?;
        in_bytes(
            "tidegate_gate_subscriber",
            "Bytes of a subscriber that passed or exceeded its limit",
        )
        .counters(encoder, counted(bytes))?;
        family("tidegate_gate_subscriber_marked_packets", MARKED).counters(
            encoder,
            limits().map(|(index, direction, subscriber)| {
                let labels = [
                    ("subscriber", &*subscriber.name),
                    ("direction", direction.name()),
                ];
                (labels, reading.counters[index][direction].marked_packets)
            }),
        )
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let subscribers = &self.everything.reading.roster.subscribers;
        let numbers: Vec<String> = (0..256).map(|number| number.to_string()).collect();
        let queues = || {
            self.queues.iter().flat_map(|limiter| {
                let name = &*subscribers[limiter.subscriber].name;
                let way = limiter.direction.name();
                let queues = numbers.iter().zip(&limiter.state.queues);
                queues.map(move |(number, queue)| (name, way, number.as_str(), queue))
            })
        };
        let labels = |(name, way, number, _): &(_, _, _, _)| {
            [
                ("subscriber", *name),
                ("direction", *way),
                ("queue", *number),
            ]
        };
        let saved = self.queues.iter().filter_map(|limiter| {
            let subscriber = &subscribers[limiter.subscriber];
            let most = subscriber.limits[limiter.direction].boost;
            let boost = BoostJson::new(most, &limiter.state)?;
            let labels = [
                ("subscriber", &*subscriber.name),
                ("direction", limiter.direction.name()),
            ];
            Some((labels, boost.saved_bytes))
        });
        in_bytes(
            "tidegate_gate_subscriber_saved",
            "Bytes of its boost that a subscriber has saved",
        )
        .gauges(encoder, saved)?;
        in_bytes("tidegate_gate_queue_length", "Bytes in a phantom queue")
            .gauges(encoder, queues().map(|it| (labels(&it), it.3.length)))?;
        in_bytes(
            "tidegate_gate_queue_magic",
            "Magic bytes in a phantom queue, a part of its length",
        )
        .gauges(encoder, queues().map(|it| (labels(&it), it.3.magic)))?;
        in_bytes(
            "tidegate_gate_queue",
            "Bytes offered to a phantom queue that passed or exceeded the limit",
        )
        .counters(
            encoder,
            queues().flat_map(|(name, way, number, queue)| {
                let values = [queue.passed_bytes, queue.excess_bytes];
                VERDICTS.into_iter().zip(values).map(move |(verdict, v)| {
                    let labels = [
                        ("subscriber", name),
                        ("direction", way),
                        ("queue", number),
                        ("verdict", verdict),
                    ];
                    (labels, v)
                })
            }),
        )
    }
}
