//! A path between two namespaces, in real time. It treats Ethernet frames of this machine's
//! programs as the lab's elements treat simulated packets.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, mem};

use tidegate_lab::outcome::{Distribution, ElementOutcome};
use tidegate_lab::path::{Captured, Leaving};
use tidegate_limiter::{Nanos, Prefix};
use tidegate_trace::read::LinkType;

use crate::TestbedError;
use crate::capture::Recording;
use crate::forward::{Between, End, Forwarder};
use crate::kernel::host;
use crate::namespace::Port;
use stages::Stages;

pub(crate) use stages::Layer;

pub use tidegate_lab::plan::{ElementKind, NodePlan, QueueKind};

mod stages;

#[cfg(test)]
mod tests;

/// How long the thread waits before it checks for orders.
const PATIENCE: Duration = Duration::from_millis(20);

/// The elements on a link. They apply to IP packets only: ARP and similar protocols pass at once.
#[derive(Debug, Clone, Default)]
pub struct LinkPlan {
    /// Elements on the way from the near end to the far one, in order.
    pub forward: Vec<ElementKind>,
    /// Elements on the way back, in order.
    pub back: Vec<ElementKind>,
    /// Delays of both ways together, in nanoseconds, by the address of the far side (destination of
    /// forward packets, source of packets back). The first prefix that matches counts. Packets that
    /// match none have only the elements' delay. Half of a delay is added before the first element
    /// forward, and half behind the last one back. So flows with several round trips share what is
    /// between.
    pub round_trips: Vec<(Prefix, Nanos)>,
    /// Capacities that limiters share. The limiters are indices of elements, those forward first.
    pub nodes: Vec<NodePlan>,
    /// Seed of the elements' random values.
    pub seed: u64,
    /// Files of the taps' captures, those forward first.
    pub captures: Vec<PathBuf>,
}

impl LinkPlan {
    /// All elements, those forward first.
    fn elements(&self) -> impl Iterator<Item = &ElementKind> {
        self.forward.iter().chain(&self.back)
    }
}

/// How well a link worked so far, and what was lost on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    /// The counts of the present plan's elements, those forward first, each with one sample of how full it is, if it has
    /// queues or buckets. Links count bytes with
    /// Ethernet headers, other elements at the IP layer.
    pub elements: Vec<ElementOutcome>,
    /// Frames that came in, forward and back.
    pub packets: [u64; 2],
    /// Frames that went out.
    pub passed: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Frames that elements dropped.
    pub dropped: [u64; 2],
    /// How late frames left, in nanoseconds: the error of real time.
    pub lateness: Distribution,
    /// Whether the link runs with real-time priority. Without it, lateness depends on other work on
    /// the machine.
    pub real_time: bool,
    /// Frames that were lost beside the elements, because a device was not served in time or was
    /// down. Measurements with more than 0 are worthless.
    pub strays: u64,
    /// Captures that can no longer be written, as on a full disk. [`Link::finish`] returns why.
    pub failed_captures: usize,
}

/// The two ends of a link.
#[derive(Debug)]
pub struct Ends {
    /// Where forward packets come in.
    pub near: Port,
    /// Where forward packets leave.
    pub far: Port,
}

/// A frame that came in at an end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds since the link began.
    pub at: Nanos,
    /// Whether it came in at the near end.
    pub forward: bool,
    /// Its length with Ethernet headers.
    pub bytes: usize,
}

/// A cable between two [`Port`]s that delays, queues and drops by a plan, until it is dropped. A
/// thread does this, with real-time priority if that is allowed. Up to 100 or 200 Mbit/s packets
/// are in time.
///
/// A server, a bottleneck of 20 Mbit/s with a queue of 50 packets, and clients with two round
/// trips:
///
/// ```no_run
/// use tidegate_lab::{MILLISECOND, SECOND};
/// use tidegate_limiter::Rate;
/// use tidegate_testbed::TestbedError;
/// use tidegate_testbed::link::{ElementKind, Ends, Link, LinkPlan, QueueKind};
/// use tidegate_testbed::namespace::Namespace;
///
/// fn example() -> Result<(), TestbedError> {
///     let (server, client) = (Namespace::new()?, Namespace::new()?);
///     let ends = Ends { near: server.port("eth0")?, far: client.port("eth0")? };
///     let link = Link::new(ends, &LinkPlan {
///         forward: vec![
///             // As a capture beside the server would see it.
///             ElementKind::Tap { snaplen: 96 },
///             ElementKind::Link {
///                 rate: Rate::from_bits_per_second(20_000_000),
///                 queue: QueueKind::DropTail { bytes: None, packets: Some(50) },
///             },
///         ],
///         round_trips: vec![
///             ("192.0.2.16/28".parse().unwrap(), 20 * MILLISECOND),
///             ("192.0.2.32/28".parse().unwrap(), 80 * MILLISECOND),
///         ],
///         captures: vec!["server.pcap".into()],
///         ..LinkPlan::default()
///     })?;
///     server.ip("address add 192.0.2.1/24 dev eth0")?;
///     client.ip("address add 192.0.2.17/24 dev eth0")?;
///     client.ip("address add 192.0.2.33/24 dev eth0")?;
///     // Servers in `server.enter(..)`, clients in `client.enter(..)`, programs by `start`.
///     let report = link.finish()?;
///     assert!(report.strays == 0 && report.lateness.p99 < MILLISECOND);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Link {
    layer: Layer,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), TestbedError>>>,
}

/// Shared between the thread and its owner.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Set if there is something in `orders`, so that the thread need not take the lock otherwise.
    asked: AtomicBool,
    orders: Mutex<Orders>,
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Orders {
    list: Vec<Order>,
    /// Whether the thread has ended, so that nobody obeys them.
    are_over: bool,
}

/// Ends with the thread's work, also if that panics.
struct Work<F: Fn()> {
    shared: Arc<Shared>,
    /// What is to be done if it ends before its owner wants it.
    early: F,
}

impl<F: Fn()> Drop for Work<F> {
    fn drop(&mut self) {
        // Dropping the orders tells those who wait for an answer that there is none.
        *self.shared.orders() = Orders {
            list: Vec::new(),
            are_over: true,
        };
        if !self.shared.stop.load(Ordering::Relaxed) {
            (self.early)();
        }
    }
}

#[derive(Debug)]
enum Order {
    Report(Sender<LinkReport>),
    /// From now on, frames take this way.
    Replace(Box<Stages>, Sender<()>),
    Watch(Sender<Arrival>),
}

impl Link {
    /// Connects two ports.
    ///
    /// # Errors
    /// If the plan contradicts itself, or a capture cannot be written.
    pub fn new(ends: Ends, plan: &LinkPlan) -> Result<Self, TestbedError> {
        let ends: [Box<dyn End>; 2] = [Box::new(ends.near), Box::new(ends.far)];
        Self::between(ends, plan, Layer::Frames, || {})
    }

    /// Connects two ends, near and far. If it fails, `early` is called at once.
    pub(crate) fn between(
        ends: [Box<dyn End>; 2],
        plan: &LinkPlan,
        layer: Layer,
        early: impl Fn() + Send + 'static,
    ) -> Result<Self, TestbedError> {
        let origin = Instant::now();
        let link = match layer {
            Layer::Frames => LinkType::ETHERNET,
            Layer::Packets => LinkType::RAW,
        };
        let mut recording = Recording::new(plan.elements(), &plan.captures, link)?;
        let stages = Stages::new(plan, layer)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("link".into()).spawn(move || {
            let work = Work {
                shared: theirs,
                early,
            };
            let result = Service::new(origin, &ends, stages, &mut recording).run(&work.shared);
            drop(work);
            result.and(recording.finish())
        });
        Ok(Self {
            layer,
            shared,
            thread: Some(thread.map_err(TestbedError::system("start a thread"))?),
        })
    }

    /// From now on, frames take the way of another plan, without taps. Frames under way stay on
    /// their old way. If a delay becomes shorter, later frames overtake earlier ones, as when a
    /// route changes.
    ///
    /// # Errors
    /// If the plan contradicts itself or has a tap, or if the link has failed.
    pub fn set(&self, plan: &LinkPlan) -> Result<(), TestbedError> {
        if plan.elements().any(ElementKind::is_tap) {
            let what = "a tap in a plan that replaces another".into();
            return Err(TestbedError::Unsupported(what));
        }
        let stages = Stages::new(plan, self.layer)?;
        let (to, from) = mpsc::channel();
        self.order(Order::Replace(Box::new(stages), to));
        answer(&from)
    }

    /// How well it worked so far.
    ///
    /// # Errors
    /// If the link has failed.
    pub fn report(&self) -> Result<LinkReport, TestbedError> {
        let (to, from) = mpsc::channel();
        self.order(Order::Report(to));
        answer(&from)
    }

    /// All frames from now on, as they come in at either end.
    pub fn watch(&self) -> Receiver<Arrival> {
        let (to, from) = mpsc::channel();
        self.order(Order::Watch(to));
        from
    }

    /// Ends it, and returns how well it worked.
    ///
    /// # Errors
    /// If the link has failed, or a capture could not be written.
    pub fn finish(mut self) -> Result<LinkReport, TestbedError> {
        let report = self.report();
        self.end()?;
        report
    }

    fn order(&self, order: Order) {
        let mut orders = self.shared.orders();
        if orders.are_over {
            return;
        }
        orders.list.push(order);
        self.shared.asked.store(true, Ordering::Release);
    }

    fn end(&mut self) -> Result<(), TestbedError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `finish` returns the result. Here no caller needs it.
            let _ = thread.join();
        }
    }
}

/// The thread's answer. It is waited for in many short waits: a process that was stopped (Ctrl-Z) finds only one of them over.
fn answer<T>(from: &Receiver<T>) -> Result<T, TestbedError> {
    let no = |kind: io::ErrorKind| TestbedError::system("move frames over a link")(kind.into());
    for _ in 0..100 {
        match from.recv_timeout(Duration::from_millis(100)) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(no(io::ErrorKind::BrokenPipe)),
        }
    }
    Err(no(io::ErrorKind::TimedOut))
}

/// The thread's state.
struct Service<'a> {
    ends: &'a [Box<dyn End>; 2],
    forwarder: Forwarder<'a>,
    lines: Lines,
    real_time: bool,
    /// The losses of the ports at the beginning.
    lost: u64,
}

impl<'a> Service<'a> {
    fn new(
        origin: Instant,
        ends: &'a [Box<dyn End>; 2],
        stages: Stages,
        recording: &'a mut Recording,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = now.unwrap_or_default().saturating_sub(origin.elapsed());
        let devices = [ends[0].as_ref(), ends[1].as_ref()];
        Self {
            ends,
            forwarder: Forwarder::new(origin, devices, recording, epoch.as_nanos() as Nanos),
            lines: Lines {
                stages: vec![stages],
                dropped: [0; 2],
                watchers: Vec::new(),
            },
            real_time: host::real_time(),
            lost: lost(ends),
        }
    }

    fn run(&mut self, shared: &Shared) -> Result<(), TestbedError> {
        while !shared.stop.load(Ordering::Relaxed) {
            if shared.asked.swap(false, Ordering::AcqRel) {
                let orders = mem::take(&mut shared.orders().list);
                orders.into_iter().for_each(|order| self.obey(order));
            }
            self.forwarder.turn(&mut self.lines, PATIENCE)?;
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Replace(stages, done) => {
                self.lines.stages.push(*stages);
                let _ = done.send(());
            }
            // The receiver may be gone.
            Order::Report(to) => {
                let _ = to.send(self.report());
            }
            Order::Watch(to) => self.lines.watchers.push(to),
        }
    }

    fn report(&mut self) -> LinkReport {
        let now = self.forwarder.now();
        LinkReport {
            elements: self
                .lines
                .stages
                .last_mut()
                .map_or(Vec::new(), |stages| stages.counts(now)),
            packets: self.forwarder.packets,
            passed: self.forwarder.passed,
            bytes: self.forwarder.bytes,
            dropped: self.lines.dropped,
            lateness: self.forwarder.lateness.distribution(),
            real_time: self.real_time,
            strays: self.forwarder.refused + lost(self.ends).saturating_sub(self.lost),
            failed_captures: self.forwarder.recording.failed(),
        }
    }
}

/// The elements that frames pass.
struct Lines {
    /// The present plan's elements, and before them those on which frames are still under way.
    stages: Vec<Stages>,
    /// Frames that elements dropped, forward and back.
    dropped: [u64; 2],
    watchers: Vec<Sender<Arrival>>,
}

impl Between for Lines {
    fn arrive(&mut self, at: Nanos, forward: bool, frame: &[u8]) {
        if let Some(stages) = self.stages.last_mut() {
            stages.arrive(at, forward, frame);
        }
        let arrival = Arrival {
            at,
            forward,
            bytes: frame.len(),
        };
        // Receivers that are gone are removed.
        self.watchers
            .retain(|watcher| watcher.send(arrival).is_ok());
    }

    fn next(&self) -> Option<Nanos> {
        self.stages.iter().filter_map(Stages::next).min()
    }

    fn leave(&mut self, now: Nanos) -> Option<Leaving> {
        let leaving = self.stages.iter_mut().find_map(|line| line.leave(now));
        if leaving.is_none() {
            for line in &mut self.stages {
                for (sum, dropped) in self.dropped.iter_mut().zip(line.dropped()) {
                    *sum += dropped;
                }
            }
            // Nothing is under way on these any more. The last one belongs to the present plan.
            let last = self.stages.len() - 1;
            let mut index = 0;
            self.stages.retain(|line| {
                index += 1;
                index > last || !line.is_empty()
            });
        }
        leaving
    }

    fn take_captured(&mut self) -> Option<Captured> {
        self.stages.iter_mut().find_map(Stages::take_captured)
    }
}

/// Frames that were not taken from the ends in time.
fn lost(ends: &[Box<dyn End>; 2]) -> u64 {
    ends.iter().map(|end| end.lost()).sum()
}
