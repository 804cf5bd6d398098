//! A path between two namespaces, in real time: what the lab's elements do to simulated packets,
//! done to Ethernet frames of this machine's own programs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, mem};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tidegate_lab::outcome::{Distribution, ElementOutcome};
use tidegate_lab::plan::ElementKind;
use tidegate_lab::record::Histogram;
use tidegate_limiter::{Nanos, Prefix};
use tidegate_trace::read::LinkType;

use crate::TestbedError;
use crate::capture::Recording;
use crate::kernel::host;
use crate::namespace::Port;
use stages::Stages;

mod stages;

#[cfg(test)]
mod tests;

/// Frames taken from one side before it is the other's turn.
const BATCH: usize = 64;
/// Longer than any frame of the devices.
const LONGEST: usize = 9216;
/// How long the thread waits before it looks whether something is asked of it.
const PATIENCE: Duration = Duration::from_millis(20);

/// What frames meet on a link. IP packets only: ARP and the like pass at once.
#[derive(Debug, Clone, Default)]
pub struct LinkPlan {
    /// Elements on the way from the near end to the far one, in order.
    pub forward: Vec<ElementKind>,
    /// Elements on the way back, in order.
    pub back: Vec<ElementKind>,
    /// Delays of both ways together, nanoseconds, by the address of the far side (destination of
    /// what goes forward, source of what comes back). The first prefix that fits counts; packets
    /// of others have no delay but the elements'. Half is added before the first element forward,
    /// half behind the last one back, so that flows of several round trips share what is between.
    pub round_trips: Vec<(Prefix, Nanos)>,
    /// What elements draw comes from it.
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

/// How well a link did so far, and what was lost on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkReport {
    /// What the elements of the present plan counted, those forward first. Bytes as they count
    /// them: a link's with Ethernet headers, others' at the IP layer.
    pub elements: Vec<ElementOutcome>,
    /// Frames that came in, forward and back.
    pub packets: [u64; 2],
    /// Frames that went out.
    pub passed: [u64; 2],
    /// Frames that elements dropped.
    pub dropped: [u64; 2],
    /// How much later than they should have frames left, nanoseconds: real time's own error.
    pub lateness: Distribution,
    /// Whether the link runs with real-time priority. Without it, lateness depends on what else
    /// the machine does.
    pub real_time: bool,
    /// Frames that were lost beside the elements, because a device was not served in time or was
    /// down: measurements with more than 0 are worth nothing.
    pub strays: u64,
}

/// A cable between two [`Port`]s that delays, queues and drops by a plan, until dropped: a thread
/// with real-time priority where that is allowed. Up to 100 or 200 Mbit/s packets are in time.
///
/// A server, a bottleneck of 20 Mbit/s with a queue of 50 packets, and clients with two round
/// trips:
///
/// ```no_run
/// use tidegate_lab::{MILLISECOND, SECOND};
/// use tidegate_lab::plan::{ElementKind, QueueKind};
/// use tidegate_limiter::Rate;
/// use tidegate_testbed::TestbedError;
/// use tidegate_testbed::link::{Link, LinkPlan};
/// use tidegate_testbed::namespace::Namespace;
///
/// fn example() -> Result<(), TestbedError> {
///     let (server, client) = (Namespace::new()?, Namespace::new()?);
///     let link = Link::new(server.port("eth0")?, client.port("eth0")?, &LinkPlan {
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
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), TestbedError>>>,
}

/// Between the thread and its owner.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Set if there is something in `orders`: the thread need not wait for a lock otherwise.
    asked: AtomicBool,
    orders: Mutex<Vec<Order>>,
}

#[derive(Debug)]
enum Order {
    Report(Sender<LinkReport>),
    /// From now on, frames take this way.
    Replace(Box<Stages>, Sender<()>),
}

impl Link {
    /// Connects two ports.
    ///
    /// # Errors
    /// If the plan contradicts itself, or a capture cannot be written.
    pub fn new(near: Port, far: Port, plan: &LinkPlan) -> Result<Self, TestbedError> {
        let origin = Instant::now();
        let recording = Recording::new(plan.elements(), &plan.captures, LinkType::ETHERNET)?;
        let stages = Stages::new(plan)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("link".into()).spawn(move || {
            let mut service = Service::new(origin, [near, far], stages, recording, &theirs);
            let result = service.run(&theirs);
            service.recording.finish()?;
            result
        });
        Ok(Self {
            shared,
            thread: Some(thread.map_err(TestbedError::system("start a thread"))?),
        })
    }

    /// From now on, frames take the way of another plan, without taps; those under way end on
    /// theirs. Where a delay becomes shorter, later frames overtake earlier ones, as where a route
    /// changes.
    ///
    /// # Errors
    /// If the plan contradicts itself or has a tap, or if the link has failed.
    pub fn set(&self, plan: &LinkPlan) -> Result<(), TestbedError> {
        if plan.elements().any(ElementKind::is_tap) {
            let what = "a tap in a plan that replaces another".into();
            return Err(TestbedError::Unsupported(what));
        }
        let stages = Stages::new(plan)?;
        let (to, from) = mpsc::channel();
        self.order(Order::Replace(Box::new(stages), to));
        answer(&from)
    }

    /// How it does.
    ///
    /// # Errors
    /// If the link has failed.
    pub fn report(&self) -> Result<LinkReport, TestbedError> {
        let (to, from) = mpsc::channel();
        self.order(Order::Report(to));
        answer(&from)
    }

    /// Ends it, and tells how it did.
    ///
    /// # Errors
    /// If the link has failed, or a capture could not be written.
    pub fn finish(mut self) -> Result<LinkReport, TestbedError> {
        let report = self.report();
        self.end()?;
        report
    }

    fn order(&self, order: Order) {
        let mut orders = (self.shared.orders.lock()).unwrap_or_else(PoisonError::into_inner);
        orders.push(order);
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
            // Whoever wants to know how it went calls `finish`.
            let _ = thread.join();
        }
    }
}

/// What the thread answers.
fn answer<T>(from: &Receiver<T>) -> Result<T, TestbedError> {
    from.recv_timeout(Duration::from_secs(5)).map_err(|_| {
        TestbedError::system("move frames over a link")(io::ErrorKind::BrokenPipe.into())
    })
}

/// The thread between the ends.
struct Service {
    origin: Instant,
    /// Near and far.
    ports: [Port; 2],
    /// The present plan's, and before it those on which frames are still under way.
    stages: Vec<Stages>,
    recording: Recording,
    /// When the link began, nanoseconds since 1970.
    epoch: Nanos,
    report: LinkReport,
    lateness: Histogram,
    refused: u64,
    /// What the ports had lost at the beginning.
    lost: u64,
}

impl Service {
    fn new(
        origin: Instant,
        ports: [Port; 2],
        stages: Stages,
        recording: Recording,
        shared: &Shared,
    ) -> Self {
        // Nothing was asked yet, but the first look costs little.
        shared.asked.store(true, Ordering::Release);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = now.unwrap_or_default().saturating_sub(origin.elapsed());
        Self {
            origin,
            recording,
            epoch: epoch.as_nanos() as Nanos,
            lost: lost(&ports),
            ports,
            stages: vec![stages],
            report: LinkReport {
                real_time: host::real_time(),
                ..LinkReport::default()
            },
            lateness: Histogram::default(),
            refused: 0,
        }
    }

    fn now(&self) -> Nanos {
        self.origin.elapsed().as_nanos() as Nanos
    }

    fn run(&mut self, shared: &Shared) -> Result<(), TestbedError> {
        let mut buffer = vec![0; LONGEST];
        while !shared.stop.load(Ordering::Relaxed) {
            if shared.asked.swap(false, Ordering::AcqRel) {
                let orders = shared.orders.lock();
                let orders = mem::take(&mut *orders.unwrap_or_else(PoisonError::into_inner));
                orders.into_iter().for_each(|order| self.obey(order));
            }
            self.leave()?;
            self.wait()?;
            self.take(true, &mut buffer)?;
            self.take(false, &mut buffer)?;
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Replace(stages, done) => {
                self.stages.push(*stages);
                let _ = done.send(());
            }
            Order::Report(to) => {
                self.report.elements = self.stages.last().map_or(Vec::new(), Stages::counts);
                self.report.lateness = self.lateness.distribution();
                self.report.strays = self.refused + lost(&self.ports).saturating_sub(self.lost);
                // Who asked may have gone.
                let _ = to.send(self.report.clone());
            }
        }
    }

    /// Hands over what is due.
    fn leave(&mut self) -> Result<(), TestbedError> {
        for index in 0..self.stages.len() {
            loop {
                let now = self.now();
                let Some(departure) = self.stages[index].leave(now) else {
                    break;
                };
                let (way, port) = if departure.forward {
                    (0, &self.ports[1])
                } else {
                    (1, &self.ports[0])
                };
                // The kernel works on the packet within the call, so the time is taken before.
                let late = self.now().saturating_sub(departure.due);
                self.lateness.record(late);
                match port.send(&departure.frame) {
                    Ok(()) => self.report.passed[way] += 1,
                    Err(error) if is_down(&error) => self.refused += 1,
                    Err(error) => {
                        return Err(TestbedError::system("hand a frame to the kernel")(error));
                    }
                }
            }
            while let Some(captured) = self.stages[index].take_captured() {
                let at = self.epoch + captured.at;
                self.recording.write(captured.element, at, captured.bytes);
            }
            let dropped = self.stages[index].dropped();
            for (sum, dropped) in self.report.dropped.iter_mut().zip(dropped) {
                *sum += dropped;
            }
        }
        // Plans that nothing is under way on any more; the last one stays.
        let last = self.stages.len() - 1;
        let mut index = 0;
        self.stages.retain(|stages| {
            index += 1;
            index > last || !stages.is_empty()
        });
        Ok(())
    }

    /// Sleeps until a frame comes, or one has to go.
    fn wait(&self) -> Result<(), TestbedError> {
        let next = self.stages.iter().filter_map(Stages::next).min();
        let left = next.map_or(PATIENCE, |next| {
            Duration::from_nanos(next.saturating_sub(self.now())).min(PATIENCE)
        });
        let mut ends = [0, 1].map(|end| {
            let port: &Port = &self.ports[end];
            PollFd::new(std::os::fd::AsFd::as_fd(port), PollFlags::POLLIN)
        });
        match ppoll(&mut ends, Some(TimeSpec::from(left)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(TestbedError::system("wait for frames")(error.into())),
        }
    }

    /// Takes what frames there are at one end.
    fn take(&mut self, forward: bool, buffer: &mut [u8]) -> Result<(), TestbedError> {
        let (way, port) = if forward { (0, 0) } else { (1, 1) };
        for _ in 0..BATCH {
            let received = self.ports[port].receive(buffer);
            match received {
                Ok(Some(bytes)) => {
                    self.report.packets[way] += 1;
                    let now = self.now();
                    if let Some(stages) = self.stages.last_mut() {
                        stages.arrive(now, forward, &buffer[..bytes]);
                    }
                }
                Ok(None) => break,
                Err(error) if is_down(&error) => break,
                Err(error) => {
                    return Err(TestbedError::system("take a frame from the kernel")(error));
                }
            }
        }
        Ok(())
    }
}

/// A device that is down, or has no room.
fn is_down(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(Errno::EIO as i32)
}

/// Frames that were not taken from the ports in time. 0 where the counters cannot be read, as if
/// the device is gone: then it fails elsewhere.
fn lost(ports: &[Port; 2]) -> u64 {
    ports.iter().filter_map(|port| port.lost().ok()).sum()
}
