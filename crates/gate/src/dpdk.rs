//! The data path on DPDK: a bump in the wire between two ports, in this process. It decides by the same code as the
//! kernel's programs, `bpf/judge.h`, with the same tables in memory of DPDK.
//!
//! DPDK runs once in a process, so there is one data path. It ends with the process: what has come in is sent, the
//! ports are closed, and no packet passes after that.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_limiter::{Nanos, NetworkNode};

use crate::binding::{comes_in, port_number};
use crate::flow::Flow;
use crate::line::{Line, Lines};
use crate::maps::directory::Directory;
use crate::maps::layout::{self, PAGE, PAGES, PLANS};
use crate::maps::nodes;
use crate::maps::policy::Registry;
use crate::maps::watched;
use crate::maps::{Maps, MapsError};
use crate::path::{DataPath, Others, PathError, Remembered};
use crate::table::{
    Attachment, Counters, Direction, Hook, LimiterState, Match, NodeState, PerDirection, Plan,
    Seat, Settings,
};

mod beside;
mod devices;
mod error;
mod interfaces;
mod maps;
pub mod measure;
mod sys;
#[cfg(test)]
pub(crate) mod tests;

pub use devices::{Device, Devices};
pub use error::DpdkError;

use maps::DpdkMaps;

/// Packets that may be under way, and if they may wait in shapers. A buffer takes 2.3 kB. Memory for packets is best used with a
/// number of buffers one below a power of two.
const BUFFERS: u32 = (1 << 15) - 1;
const BUFFERS_TO_WAIT: u32 = (1 << 17) - 1;
/// What a buffer holds at least, in bytes: a packet of 2,000 bytes with tags.
const BUFFER: u32 = 2048;

/// What is in this process.
struct Process {
    /// Whether DPDK was started. It cannot be stopped and started again.
    started: bool,
    /// The name of the data path, if there is one.
    pins: Option<PathBuf>,
    /// The core that did not end when the data path was closed. It may still use the ports and the memory.
    stuck: Option<u32>,
}

static PROCESS: Mutex<Process> = Mutex::new(Process {
    started: false,
    pins: None,
    stuck: None,
});

impl Process {
    /// Closes the data path, unless a core does not end.
    fn close(&mut self) {
        interfaces::closing();
        self.stuck = match sys::close() {
            Err(DpdkError::Silent { worker }) => Some(worker),
            _ => {
                beside::forget();
                interfaces::give_up();
                self.pins = None;
                None
            }
        };
    }
}

fn process() -> MutexGuard<'static, Process> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data path of this process. Dropping it closes the ports.
#[derive(Debug)]
pub struct Dpdk {
    devices: Devices,
    directory: Directory,
    registry: Registry,
    /// Number of pages of limiters.
    pages: usize,
    attached: Vec<Attachment>,
    /// Whether the ports are open.
    runs: bool,
}

/// The index of the port that subscribers are not behind, by the directions of the packets that come in at each. Packets of a
/// subscriber come in at one port with its address as the source, and at the other one with its address as the destination.
fn network([first, second]: [u32; 2]) -> u32 {
    let comes = |directions: u32, direction: Direction| directions >> direction as u32 & 1 == 1;
    u32::from(!comes(first, Direction::Down) && !comes(second, Direction::Up))
}

impl From<DpdkError> for PathError {
    fn from(error: DpdkError) -> Self {
        Self(Box::new(error))
    }
}

impl Drop for Dpdk {
    fn drop(&mut self) {
        process().close();
    }
}

impl Dpdk {
    /// Makes the data path of this process, with the devices that were [chosen](Devices::choose).
    ///
    /// # Errors
    /// If there is one already, or DPDK refuses.
    pub fn create(pins: &Path, settings: &Settings) -> Result<Self, DpdkError> {
        let mut path = Self::begin(pins)?;
        path.reserve_pages(1)?;
        path.set(settings)?;
        Ok(path)
    }

    /// Starts DPDK, and makes its tables.
    fn begin(pins: &Path) -> Result<Self, DpdkError> {
        let mut process = process();
        if process.pins.is_some() {
            return Err(DpdkError::Taken);
        }
        let devices = Devices::chosen()?;
        interfaces::claim(devices.pair())?;
        if !process.started {
            sys::init(&devices.arguments())?;
            process.started = true;
        }
        sys::create()?;
        process.pins = Some(pins.to_owned());
        drop(process);
        Ok(Self {
            devices,
            directory: Directory::read(&DpdkMaps)?,
            registry: Registry::read(&DpdkMaps)?,
            pages: 0,
            attached: Vec::new(),
            runs: false,
        })
    }

    /// A data path that limits nothing: each port sends all that comes in at the other one.
    ///
    /// # Errors
    /// If there is a data path already, or DPDK refuses.
    pub fn wire() -> Result<Self, DpdkError> {
        let mut path = Self::begin(Path::new(""))?;
        path.limit()?;
        Ok(path)
    }

    fn set(&mut self, settings: &Settings) -> Result<(), DpdkError> {
        sys::watch(settings.flows)?;
        self.directory.set(settings);
        Ok(self.directory.publish(&DpdkMaps)?)
    }

    /// What the lines of these subscribers feel; `None` if nothing is watched.
    fn lines_of(&self, subscribers: Range<u32>) -> Result<Option<Lines>, DpdkError> {
        if !self.directory.watches() {
            return Ok(None);
        }
        let values = sys::lines(subscribers)?;
        let window = sys::now() >> layout::LATELY;
        Ok(Some(watched::lines(values.into_iter(), window)))
    }

    fn reserve_pages(&mut self, pages: usize) -> Result<(), DpdkError> {
        if pages > PAGES {
            return Err(MapsError::room("limiters", pages * PAGE, PAGES * PAGE).into());
        }
        sys::reserve(pages as u32)?;
        self.pages = self.pages.max(pages);
        Ok(())
    }

    /// Stores a plan.
    fn store(&mut self, number: u32, plan: &Plan) -> Result<(), DpdkError> {
        if number as usize >= PLANS {
            return Err(MapsError::room("plans", number as usize + 1, PLANS).into());
        }
        let encoded = self.registry.encode(plan, &DpdkMaps)?;
        beside::note(number, plan.limiter());
        Ok(DpdkMaps.update("plans", &number.to_ne_bytes(), &encoded)?)
    }

    /// Gives up policies that no plan needs which is `kept` or assigned to packets.
    fn give_up(&mut self, kept: &dyn Fn(u32) -> bool) -> Result<(), DpdkError> {
        let seated = self.directory.plans(&DpdkMaps)?;
        // After that, no packet is under way with a plan that was not assigned just now.
        sys::answers()?;
        let numbers = (0..PLANS as u32).filter(|number| kept(*number) || seated.contains(number));
        let needed = numbers.map(|number| DpdkMaps.lookup("plans", &number.to_ne_bytes()));
        let needed: Result<Vec<_>, _> = needed.collect();
        self.registry.give_up(needed?.into_iter().flatten());
        Ok(())
    }

    /// The directions, as bits, of the packets that come in at each port.
    fn directions(&self) -> Result<[u32; 2], DpdkError> {
        let mut directions = [0; 2];
        for attachment in &self.attached {
            let index = self.devices.index(&attachment.interface)?;
            // What goes out at one port came in at the other.
            let port = match attachment.hook.is_egress() {
                true => 1 - index,
                false => index,
            };
            directions[port] |= 1 << attachment.direction as u32;
        }
        Ok(directions)
    }

    /// Has the cores limit what is attached.
    fn limit(&mut self) -> Result<(), DpdkError> {
        let directions = self.directions()?;
        if !self.runs {
            let packets = match beside::holds_packets() {
                true => BUFFERS_TO_WAIT,
                false => BUFFERS,
            };
            let start = sys::Start {
                packets,
                bytes: self.devices.frame(BUFFER),
                network: network(directions),
                sleeps: self.devices.are_software(),
            };
            sys::start(self.devices.ports(), start).map_err(|error| self.devices.named(error))?;
            interfaces::opened();
            self.runs = true;
        }
        sys::limit(directions)
    }

    /// Whether packet sockets took the packets of an interface that is gone. Another one with its name is none of theirs.
    fn is_deleted(&self, interface: &str) -> bool {
        let over = self.devices.over(interface);
        over.is_some_and(|interface| interfaces::now(interface).is_none())
    }

    fn attach_to(&mut self, attachment: &Attachment) -> Result<(), DpdkError> {
        let index = self.devices.index(&attachment.interface)?;
        if self.is_deleted(&attachment.interface) {
            return Err(DpdkError::Deleted(attachment.interface.clone()));
        }
        if comes_in(attachment) {
            let (port, name) = (index as u32 + 1, port_number(&attachment.interface));
            DpdkMaps.update("ports", &port.to_ne_bytes(), &name.to_ne_bytes())?;
        }
        let before = self.attached.clone();
        if !before.contains(attachment) {
            self.attached.push(attachment.clone());
        }
        let limited = self.limit();
        if limited.is_err() {
            self.attached = before;
        }
        limited
    }

    /// A limiter as it was at its latest packet, between two bursts. Only what it saved is that of now.
    fn state(&self, limiter: u32) -> Result<LimiterState, DpdkError> {
        let state = sys::read(limiter, layout::limiter::SIZE_OF)?;
        let plan =
            layout::plan_of(&state).map(|plan| DpdkMaps.lookup("plans", &plan.to_ne_bytes()));
        let plan = plan.transpose()?.flatten();
        let queues = plan.map_or(0, |plan| layout::queues_of(&plan));
        Ok(layout::limiter(&state, queues, sys::now()))
    }
}

impl DataPath for Dpdk {
    const OUTLIVES_PROCESS: bool = false;

    fn create(pins: &Path, settings: &Settings) -> Result<Self, PathError> {
        Ok(Self::create(pins, settings)?)
    }

    fn hook(hook: Hook) -> Hook {
        hook.on_dpdk()
    }

    fn open(pins: &Path) -> Result<Self, PathError> {
        // The one that made it has it.
        Err(DpdkError::Missing(pins.to_owned()).into())
    }

    fn place(_: &Path) -> String {
        "gate on DPDK".to_owned()
    }

    fn exists(pins: &Path) -> bool {
        process().pins.as_deref() == Some(pins)
    }

    fn clear(_: &Path) -> Result<(), PathError> {
        let mut process = process();
        if process.stuck.is_some() {
            process.close();
        }
        match process.stuck {
            None => Ok(()),
            Some(worker) => Err(DpdkError::Endless { worker }.into()),
        }
    }

    fn check(attachment: &Attachment) -> Result<(), PathError> {
        Devices::chosen()?.index(&attachment.interface)?;
        match attachment.hook.is_nat() {
            true => Err(DpdkError::Nat(attachment.interface.clone()).into()),
            false => Ok(()),
        }
    }

    fn set_settings(&mut self, settings: &Settings) -> Result<(), PathError> {
        Ok(self.set(settings)?)
    }

    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError> {
        match self.registry.has_room(plans) {
            true => Ok(()),
            false => Ok(self.give_up(kept)?),
        }
    }

    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError> {
        Ok(self.store(number, plan)?)
    }

    fn put_node(&mut self, number: u32, node: &NetworkNode, fresh: bool) -> Result<(), PathError> {
        Ok(nodes::put(&DpdkMaps, number, node, fresh).map_err(DpdkError::from)?)
    }

    fn node(&self, number: u32) -> Result<NodeState, PathError> {
        Ok(nodes::read(&DpdkMaps, number, sys::now()).map_err(DpdkError::from)?)
    }

    fn seat(&mut self, seats: &[(Match, PerDirection<Seat>)]) -> Result<(), PathError> {
        let room = self.pages * PAGE;
        let mut limiters = seats.iter().flat_map(|(_, both)| both.values());
        if let Some(seat) = limiters.find(|seat| seat.limiter as usize >= room) {
            let needed = seat.limiter as usize + 1;
            return Err(DpdkError::from(MapsError::room("limiters", needed, room)).into());
        }
        let seats = seats.iter().map(|(what, both)| (*what, both.map(Some)));
        let seated = self.directory.seat(&DpdkMaps, seats);
        Ok(seated.map_err(DpdkError::from)?)
    }

    fn fits(&self, more: &[Match]) -> Result<(), PathError> {
        let room = self.directory.fits(&DpdkMaps, more);
        Ok(room.map_err(DpdkError::from)?)
    }

    fn unseat(&mut self, matches: &[Match]) -> Result<(), PathError> {
        let gone = self.directory.unseat(&DpdkMaps, matches);
        Ok(gone.map_err(DpdkError::from)?)
    }

    fn reserve(&mut self, limiters: u32) -> Result<(), PathError> {
        Ok(self.reserve_pages((limiters as usize).div_ceil(PAGE))?)
    }

    fn forget(&mut self, limiter: u32) -> Result<(), PathError> {
        Ok(sys::forget(limiter)?)
    }

    fn read(&self, limiter: u32) -> Result<LimiterState, PathError> {
        Ok(self.state(limiter)?)
    }

    fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, PathError> {
        let all = limiters.map_while(sys::counters);
        let all = all.map(
            |[
                passed_packets,
                passed_bytes,
                excess_packets,
                excess_bytes,
                marked_packets,
            ]| Counters {
                passed_packets,
                passed_bytes,
                excess_packets,
                excess_bytes,
                marked_packets,
            },
        );
        Ok(all.collect())
    }

    fn export(&self, limiters: Range<u32>, since: Nanos) -> Result<Vec<Remembered>, PathError> {
        let reserved = (self.pages * PAGE) as u32;
        let found = sys::active(limiters.start..limiters.end.min(reserved), since)?;
        let all = found.iter();
        Ok(all
            .filter_map(|(number, state)| layout::remembered(*number, state))
            .collect())
    }

    fn import(
        &mut self,
        limiter: u32,
        (plan, version): (u32, u32),
        state: &[u8],
        at: Nanos,
    ) -> Result<bool, PathError> {
        let own = sys::read(limiter, layout::limiter::SIZE_OF)?;
        let record = DpdkMaps.lookup("plans", &plan.to_ne_bytes());
        let Some(record) = record.map_err(DpdkError::from)? else {
            return Ok(false);
        };
        let Some(new) = layout::carried(&own, state, (plan, version), &record, at) else {
            return Ok(false);
        };
        sys::write(limiter, &new)?;
        Ok(true)
    }

    fn now(&self) -> Nanos {
        sys::now()
    }

    fn lines(&self) -> Result<Option<Lines>, PathError> {
        Ok(self.lines_of(0..(self.pages * PAGE / 2) as u32)?)
    }

    fn line(&self, subscriber: u32) -> Result<Option<Line>, PathError> {
        let found = self.lines_of(subscriber..subscriber + 1)?;
        Ok(found.and_then(|mut lines| lines.by_subscriber.remove(&subscriber)))
    }

    fn flows(&self, subscriber: u32) -> Result<Option<Vec<Flow>>, PathError> {
        if !self.directory.watches() {
            return Ok(None);
        }
        let found = sys::flows(subscriber)?;
        let now = sys::now();
        let flows = found.iter();
        let flows = flows.map(|(key, value)| watched::flow(key, value, now));
        Ok(Some(flows.collect()))
    }

    fn unknown(&self) -> Result<Others, PathError> {
        let strangers = layout::strangers(|reason| Ok::<_, PathError>(sys::tally(reason)))?;
        let named = strangers.into_iter().map(|one| (one.reason, one.packets));
        let mut lost = sys::lost();
        lost[sys::MISSED] += interfaces::lost();
        let lost = sys::LOSSES.into_iter().zip(lost);
        Ok(named.chain(lost).collect())
    }

    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        Ok(self.attach_to(attachment)?)
    }

    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        if !self.attached.contains(attachment) {
            return Ok(());
        }
        self.attached.retain(|other| other != attachment);
        self.limit()?;
        if comes_in(attachment) {
            let port = self.devices.index(&attachment.interface)? as u32 + 1;
            let deleted = DpdkMaps.delete("ports", &port.to_ne_bytes());
            deleted.map_err(DpdkError::from)?;
        }
        Ok(())
    }

    /// None if a core does not answer. Attaching then says which one.
    fn attachments(&self) -> Vec<Attachment> {
        match sys::answers() {
            Ok(()) => {
                let all = self.attached.iter();
                let there = |place: &&Attachment| !self.is_deleted(&place.interface);
                all.filter(there).cloned().collect()
            }
            Err(_) => Vec::new(),
        }
    }

    fn renamed(&self, attachment: &Attachment) -> Option<String> {
        let interface = self.devices.over(&attachment.interface)?;
        interfaces::now(interface).filter(|now| now != interface)
    }

    fn link(&self, attachment: &Attachment) -> Option<bool> {
        match self.devices.over(&attachment.interface) {
            // DPDK takes it for granted that packet sockets have one.
            Some(interface) => interfaces::link(interface),
            None => sys::links()[self.devices.index(&attachment.interface).ok()?],
        }
    }

    fn remove(self) -> Result<(), PathError> {
        drop(self);
        Self::clear(Path::new(""))
    }
}
