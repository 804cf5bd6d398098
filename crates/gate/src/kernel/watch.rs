//! Flows that are watched, and what lines feel.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::{Kernel, KernelError, load, sys};
use crate::flow::{Flow, Way};
use crate::line::{Counted, Line, Lines, Segments, Trips};
use crate::maps::layout::{self, Field, flow, flow_key, lately, line, way};
use crate::table::PerDirection;

const MAP: &str = "flow_tables";
/// Values that are read from a map at once.
const BATCH: u32 = 1 << 12;

// The groups of round trips are those of the programs.
const _: () = {
    assert!(layout::TRIPS == crate::line::GROUPS);
    assert!(layout::STEPS_SHIFT == crate::line::STEPS_SHIFT as usize);
    assert!(layout::LEAST_TRIP == crate::line::LEAST as usize);
};

impl Kernel {
    /// The table of flows, if there is one.
    fn flow_table(&self) -> Option<MapHandle> {
        let found = self.map(MAP).lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let number = found.ok().flatten()?;
        let table = MapHandle::from_pinned_path(load::flows(&self.pins)).ok()?;
        let info = table.info().ok()?.info;
        (info.id.to_ne_bytes() == number[..]).then_some(table)
    }

    /// Watches at most this many flows; 0: none. A table of another size begins empty.
    pub(super) fn watch(&mut self, flows: u32) -> Result<(), KernelError> {
        let room = self.flow_table().map_or(0, |table| table.max_entries());
        if room == flows {
            return Ok(());
        }
        let path = load::flows(&self.pins);
        let zero = 0u32.to_ne_bytes();
        let there = self.map(MAP).lookup(&zero, MapFlags::ANY);
        if matches!(there, Ok(Some(_))) {
            let removed = self.map(MAP).delete(&zero);
            removed.map_err(|source| KernelError::map(MAP, source))?;
        }
        let _ = fs::remove_file(&path);
        if flows == 0 {
            return Ok(());
        }
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let (key, value) = (flow_key::SIZE_OF as u32, flow::SIZE_OF as u32);
        let mut table =
            MapHandle::create(MapType::LruHash, Some("flows"), key, value, flows, &options)
                .map_err(|source| KernelError::map("flows", source))?;
        table
            .pin(&path)
            .map_err(|source| KernelError::pin(&path, source))?;
        self.update(MAP, &zero, &sys::number_of(&table))
    }

    /// Whether flows are watched.
    fn is_watching(&self) -> bool {
        self.directory.watches()
    }

    /// What the lines of subscribers feel; `None` if nothing is watched.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn lines(&self) -> Result<Option<Lines>, KernelError> {
        if !self.is_watching() {
            return Ok(None);
        }
        let window = sys::now() >> layout::LATELY;
        let batch = self
            .map("lines")
            .lookup_batch(BATCH, MapFlags::LOCK, MapFlags::ANY)
            .map_err(|source| KernelError::map("lines", source))?;
        let (mut lines, mut all) = (Lines::default(), Counted::default());
        for (key, value) in batch {
            let number = u32::from_ne_bytes(key.try_into().unwrap_or_default());
            let counted = counted(&value, window);
            all.add(&counted);
            lines.by_subscriber.insert(number, counted.summary());
        }
        lines.all = all.summary();
        Ok(Some(lines))
    }

    /// What the line of a subscriber feels, by its number; `None` if it is not known.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn line(&self, subscriber: u32) -> Result<Option<Line>, KernelError> {
        if !self.is_watching() {
            return Ok(None);
        }
        let found = self
            .map("lines")
            .lookup(&subscriber.to_ne_bytes(), MapFlags::LOCK)
            .map_err(|source| KernelError::map("lines", source))?;
        Ok(found.map(|value| counted(&value, sys::now() >> layout::LATELY).summary()))
    }

    /// Forgets what the line of a former subscriber felt.
    pub(super) fn forget_line(&self, subscriber: u32) {
        // It may have had none.
        let _ = self.map("lines").delete(&subscriber.to_ne_bytes());
    }

    /// The watched flows of a subscriber, by its number; `None` if nothing is watched.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn flows(&self, subscriber: u32) -> Result<Option<Vec<Flow>>, KernelError> {
        let Some(table) = self.flow_table().filter(|_| self.is_watching()) else {
            return Ok(None);
        };
        let now = sys::now();
        let batch = table
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(|source| KernelError::map("flows", source))?;
        let its = batch.filter(|(_, value)| flow::SUBSCRIBER.of(value) == subscriber);
        Ok(Some(
            its.map(|(key, value)| one(&key, &value, now)).collect(),
        ))
    }
}

/// A line as it was counted, until this number of a time.
fn counted(value: &[u8], window: u64) -> Counted {
    let mut counted = Counted::default();
    let two = |field: Field<[u64; 2]>| field.of(value);
    let ([all_down, all_up], [again_down, again_up]) = (two(line::SEGMENTS), two(line::AGAIN));
    let segments = |all, again| Segments { all, again };
    counted.segments = PerDirection {
        down: segments(all_down, again_down),
        up: segments(all_up, again_up),
    };
    let [down, up] = two(line::TRIPS);
    counted.measured = PerDirection { down, up };
    // The kernel counts in the low half of the number.
    let present = line::WINDOW.of(value);
    let behind = (window as u32).wrapping_sub(present);
    for generation in 0..2 {
        let is_present = (present & 1) as usize == generation;
        // An older one is over. A packet may have begun another since the time was asked.
        let counts = behind == 0 || behind == u32::MAX || (behind == 1 && is_present);
        if !counts {
            continue;
        }
        let at = |field: Field<[u32; 2]>| field.within(line::LATELY, generation).of(value);
        let (all, again) = (at(lately::SEGMENTS), at(lately::AGAIN));
        let trips = lately::TRIPS.within(line::LATELY, generation).of(value);
        let [down, up] = trips;
        add(&mut counted.trips.down, down);
        add(&mut counted.trips.up, up);
        counted.lately = PerDirection {
            down: counted
                .lately
                .down
                .plus(segments(all[0].into(), again[0].into())),
            up: counted
                .lately
                .up
                .plus(segments(all[1].into(), again[1].into())),
        };
    }
    counted
}

fn add(to: &mut Trips, counts: [u16; layout::TRIPS]) {
    to.add(counts.map(u32::from));
}

fn one(key: &[u8], value: &[u8], now: u64) -> Flow {
    let address = |field: Field<[u32; 4]>| -> IpAddr {
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(field.of(key)) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).to_canonical()
    };
    let ports = flow_key::PORTS.of(key);
    let way = |direction: usize| {
        let small = |field: Field<u32>| field.within(flow::WAYS, direction).of(value);
        let large = |field: Field<u64>| field.within(flow::WAYS, direction).of(value);
        Way {
            passed_packets: small(way::PACKETS).into(),
            passed_bytes: large(way::BYTES),
            excess_packets: small(way::EXCESS_PACKETS).into(),
            excess_bytes: large(way::EXCESS_BYTES),
            marked_packets: small(way::MARKED_PACKETS).into(),
            segments: Segments {
                all: small(way::SEGMENTS).into(),
                again: small(way::AGAIN).into(),
            },
            trip: u64::from(small(way::TRIP)) << 10,
            queue: way::QUEUE.within(flow::WAYS, direction).of(value),
        }
    };
    Flow {
        local: address(flow_key::LOCAL),
        remote: address(flow_key::REMOTE),
        ports: (
            u16::from_be(ports as u16),
            u16::from_be((ports >> 16) as u16),
        ),
        protocol: flow_key::PROTOCOL.of(key) as u8,
        age: now.saturating_sub(flow::BEGAN.of(value)),
        idle: now.saturating_sub(flow::LATEST.of(value)),
        ways: PerDirection {
            down: way(0),
            up: way(1),
        },
    }
}
