//! Whether a plan can be run, would end, and fits into memory.

use std::collections::BTreeSet;

use tidegate_limiter::{LimiterConfig, Nanos, Program, Rate};

use crate::element::cake::Cake;
use crate::element::fq_codel::FqCoDel;
use crate::element::limiter::Limiter;
use crate::element::limiter::below::Network;
use crate::packet::ETHERNET_HEADER;
use crate::packet::wire::UDP_HEADERS;
use crate::page::{MOST_BYTES, MOST_OBJECTS};
use crate::plan::{
    AdaptivePlan, ElementKind, ElementPlan, FlowPlan, Http, Noting, Pages, Plan, QueueKind,
    StreamPlan, Traffic, Way, WebPlan,
};
use crate::{RunError, SECOND};

#[cfg(test)]
mod tests;

/// Most windows, and most samples, of a simulation.
const MAX_STEPS: Nanos = 10_000_000;
/// Most counts in all windows of flows and aggregates, over all runs that are in memory at once: 800
/// MB. The same bound holds for samples of queues.
pub const MAX_CELLS: u64 = 100_000_000;
/// Most states of connections that are noted: half a gigabyte.
pub const MOST_STATES: usize = 3_000_000;
/// Most elements on a flow's way: no real path has as many hops.
const MAX_HOPS: usize = 1000;
/// Most bytes of all elements before the first packet.
const MAX_MEMORY: u64 = 1 << 30;
/// Most aggregates: each has a server's address in 10.0.0.0/16.
const MAX_AGGREGATES: usize = 65_000;
/// Most flows and elements: addresses, memory and time allow no more.
const MAX_FLOWS: usize = 1_000_000;
/// TCP senders react to each other after at least this time. With a shorter time, virtual time
/// would not advance.
const MIN_ROUND_TRIP: Nanos = 1000;
/// Largest IP packet.
const MAX_PACKET: u32 = 65_535;

/// A complaint if a condition does not hold.
fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), RunError> {
    if holds {
        Ok(())
    } else {
        Err(RunError::Plan(complaint()))
    }
}

/// Checks everything in a plan that limiters do not check themselves.
///
/// # Errors
/// The first contradiction.
pub fn check(plan: &Plan) -> Result<(), RunError> {
    ensure(plan.duration > 0, || "the duration must not be 0".into())?;
    ensure(plan.window > 0, || "the window must not be 0".into())?;
    check_steps(plan).map_err(|(_, error)| error)?;
    ensure(plan.aggregates.len() <= MAX_AGGREGATES, || {
        format!("there can be at most {MAX_AGGREGATES} aggregates that share elements")
    })?;
    ensure(
        plan.flows.len() <= MAX_FLOWS && plan.elements.len() <= MAX_FLOWS,
        || format!("there can be at most {MAX_FLOWS} flows and {MAX_FLOWS} elements"),
    )?;
    let mut names = BTreeSet::new();
    for element in &plan.elements {
        ensure(names.insert(&element.name), || {
            format!("two elements are called '{}'", element.name)
        })?;
        check_element(element).map_err(|error| within("element", &element.name, &error))?;
    }
    check_nodes(plan)?;
    for flow in &plan.flows {
        check_flow(plan, flow).map_err(|error| within("flow", &flow.name, &error))?;
    }
    check_memory(plan).map_err(|(_, error)| error)
}

/// Whether the nodes of a plan have ways up that end, and limiters below them.
fn check_nodes(plan: &Plan) -> Result<(), RunError> {
    Network::new(plan).map_err(|error| RunError::plan(error.to_string()))?;
    let mut taken = BTreeSet::new();
    for node in &plan.nodes {
        for &index in &node.limiters {
            below(plan, index).map_err(|error| within("node", &node.name, &error))?;
            ensure(taken.insert(index), || {
                format!("the element {index} is below two nodes")
            })?;
        }
    }
    Ok(())
}

/// The rate of an element that can be below a node.
///
/// # Errors
/// If there is no such element, or it has no phantom queues.
pub fn below(plan: &Plan, index: usize) -> Result<Rate, RunError> {
    match plan.elements.get(index).map(|element| &element.kind) {
        Some(ElementKind::Limiter {
            config: LimiterConfig::PhantomQueues(config),
            ..
        }) => Ok(config.rate()),
        _ => Err(RunError::plan(format!(
            "the element {index} is no limiter of phantom queues"
        ))),
    }
}

/// Whether the queues of all elements fit into memory. If not, the error has the index of the
/// element with the most.
pub fn check_memory(plan: &Plan) -> Result<(), (usize, RunError)> {
    let all = plan.elements.iter().map(|element| match &element.kind {
        ElementKind::Limiter { config, .. } => Limiter::memory(config, plan.flows.len()),
        kind => match kind.queue() {
            Some(QueueKind::FqCoDel { flows, .. }) => FqCoDel::memory(*flows),
            Some(QueueKind::Cake(cake)) => Cake::memory(cake.tins),
            _ => 0,
        },
    });
    let all: Vec<u64> = all.collect();
    let sum = all
        .iter()
        .fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
    let largest = (0..all.len()).max_by_key(|&index| all[index]).unwrap_or(0);
    ensure(sum <= MAX_MEMORY, || {
        let (mb, most) = (sum / 1_000_000, MAX_MEMORY / 1_000_000);
        format!("the queues of all elements together take {mb} MB before the first packet: at most {most} MB")
    })
    .map_err(|error| (largest, error))
}

/// Whether windows and samples are few enough. The error names the kind of which there are too
/// many.
pub fn check_steps(plan: &Plan) -> Result<(), (&'static str, RunError)> {
    let windows = plan.duration.div_ceil(plan.window);
    let series = (plan.flows.len() + plan.aggregates.len()) as u64;
    ensure(
        windows <= MAX_STEPS && windows.saturating_mul(series) <= MAX_CELLS,
        || format!("{windows} windows of {series} flows and aggregates are too many: widen them"),
    )
    .map_err(|error| ("window", error))?;
    if let Some(Noting::Every(time)) = plan.connections {
        ensure(time > 0, || {
            "the interval of connections must not be 0".into()
        })
        .map_err(|error| ("connections", error))?;
        let (times, flows) = (plan.duration / time, plan.flows.len() as u64);
        ensure(times.saturating_mul(flows) <= MOST_STATES as u64, || {
            format!("{times} states of {flows} flows are too many: note them less often")
        })
        .map_err(|error| ("connections", error))?;
    }
    let Some(sample) = plan.sample else {
        return Ok(());
    };
    ensure(sample > 0, || "the sample interval must not be 0".into())
        .map_err(|error| ("sample", error))?;
    let samples = plan.duration / sample;
    let queues: u64 = plan.elements.iter().map(queues).sum();
    ensure(
        samples <= MAX_STEPS && samples.saturating_mul(queues) <= MAX_CELLS,
        || format!("{samples} samples of {queues} queues are too many: sample less often"),
    )
    .map_err(|error| ("sample", error))
}

fn within(kind: &str, name: &str, error: &RunError) -> RunError {
    RunError::plan(format!("{kind} '{name}': {error}"))
}

/// The number of values in a sample of an element.
fn queues(element: &ElementPlan) -> u64 {
    match &element.kind {
        ElementKind::Link { .. } | ElementKind::Varying { .. } => 1,
        ElementKind::Limiter { config, .. } => match config {
            LimiterConfig::WaterFilling(config) => config.weights().len() as u64,
            // Bytes, and the magic bytes among them.
            config => 2 * config.program().map_or(1, Program::queues) as u64,
        },
        _ => 0,
    }
}

fn probability(value: f64) -> Result<(), RunError> {
    ensure((0.0..=1.0).contains(&value), || {
        format!("{value} is not a probability: use a number from 0 to 1")
    })
}

/// Checks an element of a plan.
///
/// # Errors
/// The first contradiction.
pub fn check_element(element: &ElementPlan) -> Result<(), RunError> {
    match &element.kind {
        ElementKind::Delay { .. } | ElementKind::Tap { .. } => Ok(()),
        ElementKind::Loss {
            probability: value,
            burst,
        } => {
            probability(*value)?;
            ensure((1.0..=1e9).contains(burst), || {
                format!("losses come in bursts of at least 1, not {burst}")
            })?;
            // Bursts would have to begin more often than packets pass.
            ensure(
                *burst == 1.0 || *value == 1.0 || *value <= burst * (1.0 - value),
                || format!("bursts of {burst} are too short for a loss probability of {value}"),
            )
        }
        ElementKind::Reorder {
            probability: value, ..
        } => probability(*value),
        ElementKind::Limiter { overhead, .. } | ElementKind::Custom { overhead, .. } => {
            ensure(*overhead <= 1000, || "overhead above 1000 bytes".into())
        }
        ElementKind::Link { rate, queue } => {
            ensure(rate.bits_per_second() > 0, || {
                "a link needs a rate above 0".into()
            })?;
            check_queue(queue)
        }
        ElementKind::Varying { queue, .. } => check_queue(queue),
    }
}

/// Checks the queue of a link.
fn check_queue(queue: &QueueKind) -> Result<(), RunError> {
    match queue {
        QueueKind::Red {
            min,
            max,
            probability: value,
            ..
        } => {
            probability(*value)?;
            ensure(min < max, || "RED's min must be below its max".into())
        }
        QueueKind::Pie { update, .. } => {
            // An update is one step, also of an idle queue.
            ensure(*update >= 100_000, || {
                "PIE's update is at least 100us; RFC 8033 takes 15ms".into()
            })
        }
        QueueKind::FqCoDel { flows, quantum, .. } => {
            ensure((1..=65_536).contains(flows), || {
                "FQ-CoDel has 1 to 65536 queues".into()
            })?;
            // Each turn of an empty round costs time, so a round must send something.
            ensure((64..=1 << 24).contains(quantum), || {
                "FQ-CoDel's quantum is 64 bytes to 16 MiB".into()
            })
        }
        QueueKind::DualPi2 { update, .. } => {
            // An update is one step, also of an idle queue.
            ensure(*update >= 100_000, || {
                "DualPI2's update is at least 100us; RFC 9332 takes 16ms".into()
            })
        }
        QueueKind::DropTail { .. } | QueueKind::CoDel { .. } | QueueKind::Cake(_) => Ok(()),
    }
}

impl ElementKind {
    /// The largest IP packet that it can ever let pass, in bytes.
    pub fn largest_packet(&self) -> u64 {
        match self {
            Self::Link { queue, .. } | Self::Varying { queue, .. } => match queue {
                QueueKind::DropTail { bytes, .. } => bytes.unwrap_or(u64::MAX),
                QueueKind::Red { limit, .. } => *limit,
                _ => u64::MAX,
            }
            .saturating_sub(ETHERNET_HEADER.into()),
            Self::Limiter {
                config, overhead, ..
            } => config.largest_packet().saturating_sub((*overhead).into()),
            _ => u64::MAX,
        }
    }
}

/// Checks a flow of a plan.
///
/// # Errors
/// The first contradiction.
pub fn check_flow(plan: &Plan, flow: &FlowPlan) -> Result<(), RunError> {
    ensure(flow.aggregate < plan.aggregates.len(), || {
        format!("there is no aggregate {}", flow.aggregate)
    })?;
    ensure(flow.dscp < 64, || {
        format!("{} is not a code point: the largest is 63", flow.dscp)
    })?;
    for path in [&flow.forward, &flow.back] {
        ensure(path.len() <= MAX_HOPS, || {
            format!("a path has at most {MAX_HOPS} elements")
        })?;
        if let Some(index) = path.iter().find(|&&index| index >= plan.elements.len()) {
            return Err(RunError::plan(format!("there is no element {index}")));
        }
    }
    let positive = |what: &str, value: f64| {
        ensure((1.0..=1e15).contains(&value), || {
            format!("{what} of {value} is out of range: 1 to 10^15")
        })
    };
    match &flow.traffic {
        Traffic::Bulk { .. } => {}
        Traffic::OnOff {
            mean, shape, max, ..
        } => {
            positive("a mean size", *mean)?;
            positive("a largest size", *max)?;
            ensure(mean < max, || {
                format!("the mean size {mean} must be below the largest, {max}")
            })?;
            ensure((0.05..=100.0).contains(shape), || {
                format!("a shape of {shape} is out of range: 0.05 to 100")
            })?;
        }
        Traffic::Video { chunk, request, .. } => {
            ensure(*chunk > 0 && *request > 0, || {
                "chunks and requests have at least a byte".into()
            })?;
        }
        Traffic::Stream(stream) => check_stream(stream)?,
        Traffic::Adaptive(adaptive) => check_adaptive(adaptive)?,
        Traffic::Web(web) => check_web(web)?,
        Traffic::Datagrams { rate, bytes, .. } => {
            ensure((UDP_HEADERS..=MAX_PACKET).contains(bytes), || {
                format!("a datagram cannot have {bytes} bytes: use {UDP_HEADERS} to {MAX_PACKET}")
            })?;
            let rate = rate.bits_per_second();
            ensure(rate > 0, || "datagrams need a rate above 0".into())?;
            // Virtual time must advance between two of them.
            return ensure(rate <= u64::from(*bytes) * 8_000_000_000, || {
                format!("datagrams of {bytes} bytes come more than once in a nanosecond")
            });
        }
    }
    // The largest header is 120 bytes with IP.
    ensure((1..=MAX_PACKET - 120).contains(&flow.tcp.mss), || {
        format!("{} is not a segment size", flow.tcp.mss)
    })?;
    ensure(flow.tcp.receive_window >= flow.tcp.mss, || {
        "the receive window must hold a segment".into()
    })?;
    ensure(flow.tcp.initial_window > 0, || {
        "the initial window must not be 0".into()
    })?;
    let way = || flow.forward.iter().chain(&flow.back);
    let delay = way().fold(flow.delay, |sum, &index| match plan.elements[index].kind {
        ElementKind::Delay { delay, .. } => sum.saturating_add(delay),
        _ => sum,
    });
    let has_link = way().any(|&index| plan.elements[index].kind.queue().is_some());
    ensure(has_link || delay >= MIN_ROUND_TRIP, || {
        "its round trip takes no time: give it a delay of 1 µs or more, or a link".into()
    })
}

/// Whether all elements on a flow's way can ever let a segment pass. The engine does not need this:
/// it is a check of files.
///
/// # Errors
/// The first element that lets none pass.
pub fn check_passes(plan: &Plan, flow: &FlowPlan) -> Result<(), RunError> {
    // UDP has no packets on the way back.
    let (segment, acknowledgement) = match flow.traffic {
        Traffic::Datagrams { bytes, .. } => (bytes.into(), 0),
        _ => {
            let headers = if flow.tcp.timestamps { 52 } else { 40 };
            (u64::from(flow.tcp.mss) + headers, headers)
        }
    };
    for (path, bytes) in [(&flow.forward, segment), (&flow.back, acknowledgement)] {
        for &index in path {
            let element = &plan.elements[index];
            ensure(element.kind.largest_packet() >= bytes, || {
                format!(
                    "the bucket or queue of '{}' must hold a segment: nothing of {bytes} bytes would ever pass",
                    element.name
                )
            })?;
        }
    }
    Ok(())
}

/// The shortest time between two blocks. With a shorter time, virtual time would hardly advance.
const MAX_BLOCKS_PER_SECOND: u64 = 1_000_000;

fn check_stream(stream: &StreamPlan) -> Result<(), RunError> {
    ensure(
        stream.rate.bits_per_second() > 0 && stream.throttle > 0,
        || "a video needs an encoding rate and a throttled rate above 0".into(),
    )?;
    ensure(stream.length > 0 && stream.request > 0, || {
        "a video and its request must not be empty".into()
    })?;
    let block = match stream.pace.way {
        Way::None | Way::MaxPacingRate => return Ok(()),
        Way::Application { block } => block,
        Way::Trickle { block } => {
            ensure(stream.pace.headroom >= 1000, || {
                "with a headroom below 1 the rate cannot be kept".into()
            })?;
            block
        }
    };
    let rate = stream.throttled_bytes_per_second();
    ensure(
        block > 0 && rate / block.max(1) <= MAX_BLOCKS_PER_SECOND,
        || format!("blocks of {block} bytes are too small for {rate} bytes per second"),
    )
}

/// Most segments of a video.
const MAX_SEGMENTS: u64 = 1_000_000;

/// Most bytes of an adaptive video, far from the largest sequence number.
const LARGEST_VIDEO: u64 = 1 << 60;

/// Most objects before an adaptive video.
const MOST_BEFORE: usize = 100;

fn check_adaptive(video: &AdaptivePlan) -> Result<(), RunError> {
    let rates = video.ladder.iter().map(|rate| rate.bits_per_second());
    let rates: Vec<u64> = rates.collect();
    ensure(
        rates.first().is_some_and(|&rate| rate > 0) && rates.is_sorted_by(|a, b| a < b),
        || "the rates of a ladder ascend, from more than 0".into(),
    )?;
    ensure(
        video.segment > 0 && video.length > 0 && video.request > 0,
        || "a video, its segments and requests must not be empty".into(),
    )?;
    ensure(
        video.preface.len() <= MOST_BEFORE
            && video
                .preface
                .iter()
                .all(|bytes| (1..=MOST_BYTES).contains(bytes)),
        || format!("at most {MOST_BEFORE} objects come before a video, of 1 to {MOST_BYTES} bytes"),
    )?;
    ensure(video.segments() <= MAX_SEGMENTS, || {
        format!("a video has at most {MAX_SEGMENTS} segments: use longer ones")
    })?;
    let most = rates.last().map_or(0, |&rate| u128::from(rate));
    let size = video.sizes.iter().max().map_or(1000, |&size| size.max(1));
    let bits = most
        .saturating_mul(video.length.into())
        .saturating_mul(size.into());
    ensure(
        bits / (8000 * u128::from(SECOND)) <= u128::from(LARGEST_VIDEO),
        || format!("the video has more than {LARGEST_VIDEO} bytes in its highest quality"),
    )?;
    ensure(
        video.buffer > 0 && video.start.max(video.restart) <= video.buffer,
        || "the player's buffer must hold the video that it needs to begin and to continue".into(),
    )
}

fn check_web(web: &WebPlan) -> Result<(), RunError> {
    ensure(web.http != Http::One { connections: 0 }, || {
        "a browser needs at least one connection to a host".into()
    })?;
    let Pages::Drawn(drawn) = &web.page else {
        return Ok(());
    };
    let objects = drawn.objects as usize;
    ensure(
        (1..=MOST_OBJECTS).contains(&objects) && drawn.request > 0,
        || format!("a page has 1 to {MOST_OBJECTS} objects, and requests have bytes"),
    )?;
    ensure(
        drawn.mean >= 1.0 && drawn.mean < drawn.max && drawn.max <= MOST_BYTES as f64,
        || {
            let (mean, max) = (drawn.mean, drawn.max);
            format!(
                "the mean size {mean} of objects must be below the largest, {max}, and from 1 to {MOST_BYTES}"
            )
        },
    )?;
    ensure((0.05..=100.0).contains(&drawn.shape), || {
        format!("a shape of {} is out of range: 0.05 to 100", drawn.shape)
    })?;
    probability(drawn.nested)
}
