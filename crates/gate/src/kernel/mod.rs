//! The data path in the kernel: maps and programs, pinned in a folder of a BPF file system, where they
//! outlive the process that made them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use nix::net::if_::if_nametoindex;
use tidegate_limiter::NetworkNode;

use crate::binding::{comes_in, port_number};
use crate::table::{
    Attachment, Counters, Direction, LimiterState, Match, NodeState, PerDirection, Plan, Settings,
};

mod attach;
mod carry;
mod content;
mod data_path;
mod error;
mod footprint;
mod load;
mod maps;
mod renew;
mod sys;
mod watch;

pub use crate::maps::Stranger;
pub use crate::table::Seat;
pub use error::KernelError;
pub use footprint::Footprint;

use crate::maps::directory::Directory;
use crate::maps::layout::{self, Field, PAGE, tally};
use crate::maps::nodes;
use crate::maps::policy::Registry;
use maps::KernelMaps;

/// How programs are attached at tc.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TcKind {
    /// By tcx if the kernel has it, else by clsact.
    #[default]
    Best,
    /// By tcx (kernel 6.6).
    Tcx,
    /// By a clsact queueing discipline and a filter.
    Clsact,
}

/// The maps and programs of one gate.
#[derive(Debug)]
pub struct Kernel {
    pins: PathBuf,
    maps: KernelMaps,
    pages: Vec<MapHandle>,
    directory: Directory,
    registry: Registry,
    tc: TcKind,
    /// Programs that are being loaded.
    loading: Option<JoinHandle<()>>,
}

impl Kernel {
    /// Numbers of plans are below this.
    pub const PLANS: u32 = layout::PLANS as u32;

    /// Loads the programs and pins everything in this folder, which is created. Mounts the BPF file
    /// system if necessary.
    ///
    /// # Errors
    /// If a gate is there, or privileges or features of the kernel are missing. Nothing is left then.
    pub fn create(pins: &Path, settings: &Settings) -> Result<Self, KernelError> {
        Self::create_with(pins, settings, false)
    }

    /// As [`create`](Self::create), with the clock of a test if `timed`.
    fn create_with(pins: &Path, settings: &Settings, timed: bool) -> Result<Self, KernelError> {
        if Self::exists(pins) {
            return Err(KernelError::Exists(pins.into()));
        }
        load::load(pins, timed)?;
        let ready = Self::open(pins).and_then(|mut kernel| {
            kernel.set_settings(settings)?;
            kernel.reserve(1)?;
            Ok(kernel)
        });
        if ready.is_err() {
            let _ = load::unpin(pins);
        }
        ready
    }

    /// Takes over what is pinned in this folder.
    ///
    /// # Errors
    /// If nothing is there, or something else.
    pub fn open(pins: &Path) -> Result<Self, KernelError> {
        if !Self::exists(pins) {
            return Err(KernelError::Missing(pins.into()));
        }
        let mut maps = KernelMaps::default();
        for &(name, value) in load::MAPS {
            let path = pins.join("maps").join(name);
            if !path.exists() {
                return Err(KernelError::Other { path });
            }
            let map = MapHandle::from_pinned_path(&path)
                .map_err(|source| KernelError::pin(&path, source))?;
            if map.value_size() as usize != value {
                return Err(KernelError::Other { path });
            }
            maps.insert(name, map);
        }
        let mut kernel = Self {
            pins: pins.into(),
            directory: Directory::read(&maps)?,
            registry: Registry::read(&maps)?,
            pages: Vec::new(),
            maps,
            tc: TcKind::default(),
            loading: None,
        };
        kernel.find_pages()?;
        Ok(kernel)
    }

    /// Whether a gate is pinned in this folder.
    pub fn exists(pins: &Path) -> bool {
        pins.join("maps").is_dir()
    }

    /// Chooses how programs are attached at tc from now on.
    pub fn set_tc(&mut self, kind: TcKind) {
        self.tc = kind;
    }

    fn map(&self, name: &'static str) -> &MapHandle {
        self.maps.of(name)
    }

    /// Changes the settings for all packets.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_settings(&mut self, settings: &Settings) -> Result<(), KernelError> {
        self.directory.set(settings);
        // Packets find the table before they look for it, and as long as they do.
        if settings.flows > 0 {
            self.watch(settings.flows)?;
        }
        self.directory.publish(&self.maps)?;
        if settings.flows == 0 {
            self.watch(0)?;
        }
        Ok(())
    }

    /// Stores a plan. A plan that a limiter runs under must not be changed: use another number.
    ///
    /// # Errors
    /// If the plan or its number is out of range, or there is no room for it.
    pub fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), KernelError> {
        if number >= Self::PLANS {
            return Err(KernelError::room(
                "plans",
                number as usize + 1,
                layout::PLANS,
            ));
        }
        let encoded = self.registry.encode(plan, &self.maps)?;
        self.update("plans", &number.to_ne_bytes(), &encoded)
    }

    /// Stores a node of the network, which keeps what it knows unless it is `fresh`.
    ///
    /// # Errors
    /// If a number is out of range, or the kernel refuses.
    pub fn put_node(
        &mut self,
        number: u32,
        node: &NetworkNode,
        fresh: bool,
    ) -> Result<(), KernelError> {
        Ok(nodes::put(&self.maps, number, node, fresh)?)
    }

    /// What a node of the network knows.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn node(&self, number: u32) -> Result<NodeState, KernelError> {
        Ok(nodes::read(&self.maps, number, sys::now())?)
    }

    /// Makes room for the policies and rules of this number of further plans, if there is not enough.
    /// Policies and rules are given up unless a plan that is `kept` or assigned to packets needs them.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn make_room(
        &mut self,
        plans: usize,
        kept: &dyn Fn(u32) -> bool,
    ) -> Result<(), KernelError> {
        if self.registry.has_room(plans) {
            return Ok(());
        }
        let seated = self.directory.plans(&self.maps)?;
        // Changing a map of maps waits for all packets on their way (synchronize_rcu). After that, no
        // packet is under way with a plan that was not assigned just now.
        if let Some(first) = self.pages.first() {
            self.update("pages", &0u32.to_ne_bytes(), &sys::number_of(first))?;
        }
        let all = self
            .maps
            .of("plans")
            .lookup_batch(1 << 12, MapFlags::ANY, MapFlags::ANY)
            .map_err(|source| KernelError::map("plans", source))?;
        let mut read = 0;
        let needed = all.inspect(|_| read += 1).filter(|(number, _)| {
            let number = u32::from_ne_bytes(number[..].try_into().unwrap_or_default());
            kept(number) || seated.contains(&number)
        });
        let needed: Vec<_> = needed.map(|(_, plan)| plan).collect();
        // The iterator also ends if the kernel refuses.
        if read != Self::PLANS {
            let short =
                std::io::Error::other(format!("{read} of {} plans can be read", Self::PLANS));
            return Err(KernelError::map("plans", short.into()));
        }
        self.registry.give_up(needed.into_iter());
        Ok(())
    }

    fn update(&self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), KernelError> {
        self.map(map)
            .update(key, value, MapFlags::ANY)
            .map_err(|source| KernelError::map(map, source))
    }

    /// Checks that there is room for matches that nobody has.
    pub(crate) fn fits(&self, more: &[Match]) -> Result<(), KernelError> {
        Ok(self.directory.fits(&self.maps, more)?)
    }

    /// Adds or replaces seats of one direction. If the kernel refuses, some of them may be in force.
    ///
    /// # Errors
    /// If there are too many, or a limiter is not [reserved](Self::reserve).
    pub fn seat(
        &mut self,
        direction: Direction,
        seats: &[(Match, Seat)],
    ) -> Result<(), KernelError> {
        self.seat_any(seats.iter().map(|(what, seat)| {
            let mut both = PerDirection::default();
            both[direction] = Some(*seat);
            (*what, both)
        }))
    }

    /// Adds or replaces seats of both directions at once, which is faster.
    ///
    /// # Errors
    /// As [`seat`](Self::seat).
    pub fn seat_both(&mut self, seats: &[(Match, PerDirection<Seat>)]) -> Result<(), KernelError> {
        self.seat_any(seats.iter().map(|(what, both)| (*what, both.map(Some))))
    }

    fn seat_any(
        &mut self,
        seats: impl Iterator<Item = (Match, PerDirection<Option<Seat>>)> + Clone,
    ) -> Result<(), KernelError> {
        let room = self.pages.len() * PAGE;
        let limiters = seats.clone().flat_map(|(_, both)| both.values());
        let highest = limiters.flatten().map(|seat| seat.limiter as usize).max();
        if let Some(limiter) = highest.filter(|&limiter| limiter >= room) {
            return Err(KernelError::room("limiters", limiter + 1, room));
        }
        Ok(self.directory.seat(&self.maps, seats)?)
    }

    /// Removes seats of both directions. Matches without a seat are ignored.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn unseat(&mut self, matches: &[Match]) -> Result<(), KernelError> {
        Ok(self.directory.unseat(&self.maps, matches)?)
    }

    /// Makes room for limiters with numbers below this. 1024 of them take 2 MB.
    ///
    /// # Errors
    /// If there are too many, or memory is short.
    pub fn reserve(&mut self, limiters: u32) -> Result<(), KernelError> {
        let (there, room) = (self.pages.len(), self.map("pages").max_entries() as usize);
        let wanted = (limiters as usize).div_ceil(PAGE);
        if wanted > room {
            let room = room * PAGE;
            return Err(KernelError::room("limiters", limiters as usize, room));
        }
        if wanted <= there {
            return Ok(());
        }
        let first = self.pages.first().ok_or_else(|| KernelError::Other {
            path: load::page(&self.pins, 0),
        })?;
        let made = load::make_pages(&self.pins, first, there..wanted)?;
        // In one call: the kernel waits for all packets on their way after each change of a map of maps.
        let numbers: Vec<u8> = (there as u32..wanted as u32)
            .flat_map(u32::to_ne_bytes)
            .collect();
        let values: Vec<u8> = made.iter().flat_map(sys::number_of).collect();
        let added = self.map("pages").update_batch(
            &numbers,
            &values,
            made.len() as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        );
        if let Err(source) = added {
            // Some of them may be in place.
            self.find_pages()?;
            return Err(KernelError::map("pages", source));
        }
        self.pages.extend(made);
        Ok(())
    }

    fn find_pages(&mut self) -> Result<(), KernelError> {
        let outer = self.map("pages");
        let mut pages = Vec::new();
        for number in 0..outer.max_entries() {
            let found = outer.lookup(&number.to_ne_bytes(), MapFlags::ANY);
            let Ok(Some(id)) = found else { break };
            let path = load::page(&self.pins, number);
            // The pinned page must be the one that packets find.
            let page = MapHandle::from_pinned_path(&path).ok().filter(|page| {
                page.value_size() as usize == layout::limiter::SIZE_OF
                    && (page.info()).is_ok_and(|found| found.info.id.to_ne_bytes() == id[..])
            });
            let page = page.ok_or(KernelError::Other { path })?;
            pages.push(page);
        }
        self.pages = pages;
        Ok(())
    }

    fn page(&self, limiter: u32) -> Result<(&MapHandle, [u8; 4]), KernelError> {
        let (page, place) = (limiter as usize / PAGE, limiter % PAGE as u32);
        let room = self.pages.len() * PAGE;
        let page = self
            .pages
            .get(page)
            .ok_or_else(|| KernelError::room("limiters", limiter as usize + 1, room))?;
        Ok((page, place.to_ne_bytes()))
    }

    /// Resets a limiter, before its number is used again.
    ///
    /// # Errors
    /// If it is not reserved.
    pub fn forget(&mut self, limiter: u32) -> Result<(), KernelError> {
        let (page, place) = self.page(limiter)?;
        self.forget_line(limiter / 2);
        page.update(&place, &[0; layout::limiter::SIZE_OF], MapFlags::LOCK)
            .map_err(|source| KernelError::map("limiters", source))
    }

    /// A limiter as it was at its latest packet: phantom queues are drained when packets come. Only what it saved is that of now.
    ///
    /// # Errors
    /// If it is not reserved.
    pub fn read(&self, limiter: u32) -> Result<LimiterState, KernelError> {
        let (page, place) = self.page(limiter)?;
        let state = page
            .lookup(&place, MapFlags::LOCK)
            .map_err(|source| KernelError::map("limiters", source))?
            .unwrap_or_else(|| vec![0; layout::limiter::SIZE_OF]);
        // The first packet of a limiter gives it its plan.
        let plan = layout::plan_of(&state);
        let queues = plan.map_or(0, |plan| self.queues_of(plan));
        Ok(layout::limiter(&state, queues, sys::now()))
    }

    /// The number of queues of a plan.
    fn queues_of(&self, plan: u32) -> usize {
        let found = self.map("plans").lookup(&plan.to_ne_bytes(), MapFlags::ANY);
        match found {
            Ok(Some(plan)) => layout::queues_of(&plan),
            _ => 0,
        }
    }

    /// The counters of limiters, as far as they are reserved.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, KernelError> {
        let mut all = Vec::with_capacity(limiters.len());
        self.visit(limiters, |_, state| all.push(layout::counters(state)))?;
        Ok(all)
    }

    /// Calls with the numbers and the memory of limiters, as far as they are reserved.
    fn visit(
        &self,
        limiters: Range<u32>,
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<(), KernelError> {
        let mut limiter = limiters.start;
        while limiter < limiters.end {
            let number = limiter as usize / PAGE;
            let Some(page) = self.pages.get(number) else {
                break;
            };
            let first = (number * PAGE) as u32;
            let batch = page
                .lookup_batch(PAGE as u32, MapFlags::LOCK, MapFlags::ANY)
                .map_err(|source| KernelError::map("limiters", source))?;
            for (key, state) in batch {
                let place = u32::from_ne_bytes(key.try_into().unwrap_or_default());
                if (limiter..limiters.end).contains(&(first + place)) {
                    each(first + place, &state);
                }
            }
            limiter = first + PAGE as u32;
        }
        Ok(())
    }

    /// Packets that no limiter saw, by reason.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn unknown(&self) -> Result<Vec<Stranger>, KernelError> {
        layout::strangers(|reason| {
            let cpus = self
                .map("strangers")
                .lookup_percpu(&reason.to_ne_bytes(), MapFlags::ANY)
                .map_err(|source| KernelError::map("strangers", source))?
                .unwrap_or_default();
            let sum = |field: fn() -> Field<u64>| cpus.iter().map(|cpu| field().of(cpu)).sum();
            Ok((sum(|| tally::PACKETS), sum(|| tally::BYTES)))
        })
    }

    /// Begins to load the programs of these attachments in a thread: the kernel takes half a second to verify one.
    fn prepare(&mut self, attachments: &[Attachment]) {
        let mut names: Vec<_> = attachments
            .iter()
            .filter_map(|attachment| attach::program_of(attachment).ok())
            .collect();
        names.sort_unstable();
        names.dedup();
        let pins = self.pins.clone();
        self.wait();
        self.loading = Some(thread::spawn(move || {
            for name in names {
                // `attach` tries it again, and reports why it fails.
                let _ = load::program(&pins, name);
            }
        }));
    }

    /// Waits for the programs that are being loaded.
    fn wait(&mut self) {
        if let Some(loading) = self.loading.take() {
            let _ = loading.join();
        }
    }

    /// Loads the program of an attachment, if it is not loaded yet.
    fn ready(&mut self, attachment: &Attachment) -> Result<(), KernelError> {
        self.wait();
        load::program(&self.pins, attach::program_of(attachment)?).map(drop)
    }

    /// Attaches to an interface.
    ///
    /// # Errors
    /// If there is no such interface, or it is attached already, or the kernel refuses.
    pub fn attach(&mut self, attachment: &Attachment) -> Result<(), KernelError> {
        self.wait();
        // The first packet must find where it came in.
        self.keep_ports(Some(attachment))?;
        let attached = attach::attach(&self.pins, attachment, self.tc, self.directory.beside);
        if attached.is_ok() {
            return attached;
        }
        attached.and(self.keep_ports(None))
    }

    /// Has the programs know the interfaces where packets from subscribers come in: those that are attached, and one that will
    /// be. Others are forgotten.
    fn keep_ports(&self, next: Option<&Attachment>) -> Result<(), KernelError> {
        let attached = attach::attachments(&self.pins).into_iter();
        let next = next.map(|next| (next.clone(), next.interface.clone()));
        let all = attached.chain(next).filter(|(place, _)| comes_in(place));
        // An interface that is gone has no number, and another one may get the number that it had.
        let present: HashMap<Vec<u8>, u32> = all
            .filter_map(|(place, name)| {
                let interface = if_nametoindex(name.as_str()).ok()?;
                let number = port_number(&place.interface);
                Some((interface.to_ne_bytes().to_vec(), number))
            })
            .collect();
        let ports = self.map("ports");
        let known: Vec<Vec<u8>> = ports.keys().collect();
        for gone in known.iter().filter(|known| !present.contains_key(*known)) {
            let deleted = ports.delete(gone);
            deleted.map_err(|source| KernelError::map("ports", source))?;
        }
        for (interface, number) in present {
            self.update("ports", &interface, &number.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Detaches from an interface. Does nothing if it is not attached.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn detach(&mut self, attachment: &Attachment) -> Result<(), KernelError> {
        let detached = attach::detach(&self.pins, attachment);
        detached.and(self.keep_ports(None))
    }

    /// The interfaces that the gate is attached to.
    pub fn attachments(&self) -> Vec<Attachment> {
        let all = attach::attachments(&self.pins).into_iter();
        all.map(|(attachment, _)| attachment).collect()
    }

    /// The present name of the interface of an attachment, if the interface was renamed since.
    pub fn renamed(&self, attachment: &Attachment) -> Option<String> {
        let mut all = attach::attachments(&self.pins).into_iter();
        let (_, name) = all.find(|(other, _)| other == attachment)?;
        (name != attachment.interface).then_some(name)
    }

    /// Detaches and unpins everything, and removes the folder.
    ///
    /// # Errors
    /// If something cannot be detached or unpinned. The rest is removed.
    pub fn remove(mut self) -> Result<(), KernelError> {
        self.wait();
        Self::clear(&self.pins)
    }

    /// As [`remove`](Self::remove), of everything in this folder, complete or not.
    ///
    /// # Errors
    /// If something cannot be detached or unpinned. The rest is removed.
    pub fn clear(pins: &Path) -> Result<(), KernelError> {
        let detached = attach::detach_all(pins);
        let unpinned = load::unpin(pins);
        detached.and(unpinned)
    }
}

#[cfg(test)]
mod tests;
