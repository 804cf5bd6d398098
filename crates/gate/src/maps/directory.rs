//! The maps from addresses and tags to limiters, and the lengths of prefixes in use, which packets try
//! one after the other.

use std::collections::{HashMap, HashSet};

use tidegate_limiter::Prefix;

use super::access::{Maps, MapsError};
use super::layout::{
    self, Field, LENGTHS, Record, binding, key4, key6, length4, length6, link_key, network_words,
    seat, seats, settings,
};
use crate::table::{
    Accounting, Direction, Match, Origin, PerDirection, Seat, Settings, Sources, Unknown,
};

const IPV4: u128 = 0xffff << 32;

/// A copy in user space of what the maps hold.
#[derive(Debug)]
pub(crate) struct Directory {
    accounting: Accounting,
    unknown_drop: u8,
    /// By direction.
    other_drop: [u8; 2],
    /// A bit for each kind.
    link_frames: u8,
    known_sources: u8,
    /// Limiters whose subscribers are bound.
    bound: HashSet<u32>,
    /// Whether to attach beside other gates.
    pub(crate) beside: bool,
    /// Bits of `enum watched`.
    modes: u8,
    /// The words of the flow hash, as they are in the kernel: a process that takes a gate over does
    /// not know its key.
    hash: [u64; 11],
    counts: Counts,
}

/// How many entries there are.
#[derive(Debug, Clone)]
struct Counts {
    /// Number of entries of each length. For IPv4, prefixes of IPv6 that contain all of it are counted at 128 plus
    /// their length.
    lengths4: Vec<u32>,
    lengths6: Vec<u32>,
    /// Number of entries of each kind of link.
    links: [u32; 3],
}

/// The keys by which packets are looked up.
#[derive(Debug, PartialEq, Eq)]
struct Lengths {
    /// Lengths of prefixes, the longest first.
    ipv4: Vec<u32>,
    ipv6: Vec<u32>,
    /// A bit for each kind of link.
    links: u8,
}

impl Lengths {
    fn is_empty(&self) -> bool {
        self.ipv4.is_empty() && self.ipv6.is_empty() && self.links == 0
    }
}

/// An entry of a map of seats.
struct Entry {
    map: &'static str,
    key: Vec<u8>,
}

impl Entry {
    fn link(kind: usize, id: u32) -> Self {
        let key = Record::new(link_key::SIZE_OF)
            .with(link_key::ID, id)
            .with(link_key::KIND, kind as u8);
        Self {
            map: "seats_link",
            key: key.into_bytes(),
        }
    }

    /// The address is in the machine's byte order.
    fn ipv4(address: u32, length: u32) -> Self {
        let key = Record::new(key4::SIZE_OF)
            .with(key4::ADDRESS, address.to_be())
            .with(key4::LENGTH, length as u8);
        Self {
            map: "seats4",
            key: key.into_bytes(),
        }
    }

    fn ipv6(address: u128, length: u32) -> Self {
        let key = Record::new(key6::SIZE_OF)
            .with(key6::ADDRESS, network_words(address))
            .with(key6::LENGTH, length as u8);
        Self {
            map: "seats6",
            key: key.into_bytes(),
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            lengths4: vec![0; 256],
            lengths6: vec![0; 129],
            links: [0; 3],
        }
    }
}

impl Counts {
    /// The count that an entry is part of.
    fn of(&mut self, entry: &Entry) -> Option<&mut u32> {
        let key = &entry.key;
        match entry.map {
            "seats4" => self.lengths4.get_mut(usize::from(key4::LENGTH.of(key))),
            "seats6" => self.lengths6.get_mut(usize::from(key6::LENGTH.of(key))),
            _ => self.links.get_mut(usize::from(link_key::KIND.of(key))),
        }
    }

    /// Whether there is room for as many entries, and lengths, as are counted.
    fn check(&self, maps: &dyn Maps) -> Result<(), MapsError> {
        self.check_lengths().and_then(|()| self.check_room(maps))
    }

    /// The lengths and links that are in use.
    fn lengths(&self) -> Lengths {
        let used = |counts: &[u32]| -> Vec<u32> {
            let lengths = (0..counts.len() as u32).rev();
            lengths
                .filter(|&length| counts[length as usize] > 0)
                .collect()
        };
        let (four, more): (Vec<u32>, Vec<u32>) = used(&self.lengths4)
            .into_iter()
            .partition(|&length| length <= 32);
        let links = (0..3).filter(|&kind| self.links[kind] > 0);
        Lengths {
            ipv4: [four, more].concat(),
            ipv6: used(&self.lengths6),
            links: links.map(|kind| 1 << kind).sum(),
        }
    }

    /// Whether there is room for as many entries as are counted.
    fn check_room(&self, maps: &dyn Maps) -> Result<(), MapsError> {
        for (what, map, counts) in [
            ("IPv4 prefixes", "seats4", &self.lengths4[..]),
            ("IPv6 prefixes", "seats6", &self.lengths6),
            ("tags and sessions", "seats_link", &self.links),
        ] {
            let (found, room) = (counts.iter().sum::<u32>() as usize, maps.room(map));
            if found > room {
                return Err(MapsError::room(what, found, room));
            }
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), MapsError> {
        let Lengths { ipv4, ipv6, .. } = self.lengths();
        for (what, found) in [
            ("different lengths of IPv4 prefixes", ipv4.len()),
            ("different lengths of IPv6 prefixes", ipv6.len()),
        ] {
            if found > LENGTHS {
                return Err(MapsError::room(what, found, LENGTHS));
            }
        }
        Ok(())
    }
}

/// What is known of a seat in one direction.
fn known_of(both: &[u8], direction: Direction) -> u32 {
    seat::KNOWN.within(seats::WAY, direction as usize).of(both)
}

impl Directory {
    /// Counts what is in the maps.
    pub(crate) fn read(maps: &dyn Maps) -> Result<Self, MapsError> {
        let current = maps
            .lookup("current", &0u32.to_ne_bytes())?
            .unwrap_or_default();
        let settings = maps.lookup("settings", &current)?.unwrap_or_default();
        let mut directory = Self {
            accounting: Accounting {
                layer: settings::LAYER.of(&settings),
                overhead: settings::OVERHEAD.of(&settings) as i16,
            },
            unknown_drop: settings::UNKNOWN_DROP.of(&settings),
            other_drop: settings::OTHER_DROP.of(&settings),
            link_frames: settings::LINK_FRAMES.of(&settings),
            known_sources: settings::KNOWN_SOURCES.of(&settings),
            bound: HashSet::new(),
            beside: settings::BESIDE.of(&settings) == 1,
            modes: settings::MODES.of(&settings),
            hash: settings::HASH.of(&settings),
            counts: Counts::default(),
        };
        let bound = maps.keys("bindings");
        directory.bound = bound
            .filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?)))
            .collect();
        for map in ["seats4", "seats6", "seats_link"] {
            for key in maps.keys(map) {
                let entry = Entry { map, key };
                if let Some(count) = directory.count(&entry) {
                    *count += 1;
                }
            }
        }
        Ok(directory)
    }

    /// The count that an entry is part of.
    fn count(&mut self, entry: &Entry) -> Option<&mut u32> {
        self.counts.of(entry)
    }

    /// Checks that there is room for matches that nobody has.
    pub(crate) fn fits(&self, maps: &dyn Maps, more: &[Match]) -> Result<(), MapsError> {
        let mut counts = self.counts.clone();
        for entry in more.iter().flat_map(Self::entries) {
            if let Some(count) = counts.of(&entry) {
                *count += 1;
            }
        }
        counts.check(maps)
    }

    /// Plans that are assigned to packets.
    pub(crate) fn plans(&self, maps: &dyn Maps) -> Result<HashSet<u32>, MapsError> {
        let mut plans = HashSet::new();
        for map in ["seats4", "seats6", "seats_link"] {
            for key in maps.keys(map) {
                let both = maps.lookup(map, &key)?.unwrap_or_default();
                for direction in Direction::BOTH {
                    if !both.is_empty() && known_of(&both, direction) > 0 {
                        plans.insert(seat::PLAN.within(seats::WAY, direction as usize).of(&both));
                    }
                }
            }
        }
        Ok(plans)
    }

    /// Whether flows are watched.
    pub(crate) fn watches(&self) -> bool {
        usize::from(self.modes) & layout::WATCHES > 0
    }

    pub(crate) fn set(&mut self, settings: &Settings) {
        self.accounting = settings.accounting;
        self.unknown_drop = u8::from(settings.unknown == Unknown::Drop);
        self.other_drop = Direction::BOTH
            .map(|direction| u8::from(settings.other_frames.drops(direction, settings.unknown)));
        let link = settings.link_frames;
        let kinds = [
            (layout::ARP, link.arp),
            (layout::PPP, link.ppp),
            (layout::BRIDGE, link.bridge),
            (layout::LLDP, link.lldp),
            (layout::NEIGHBOURS, true),
        ];
        self.link_frames = (kinds.into_iter())
            .map(|(kind, passes)| u8::from(passes) << kind)
            .sum();
        self.known_sources = u8::from(settings.sources == Sources::Known);
        self.beside = settings.beside;
        self.modes = [
            (layout::WATCHES, settings.flows > 0),
            (layout::SHADOWS, settings.shadow),
        ]
        .into_iter()
        .map(|(mode, is_on)| mode as u8 * u8::from(is_on))
        .sum();
        self.hash = *settings.hash.words();
    }

    /// The entries of a match: two, if it is of both families.
    fn entries(matched: &Match) -> Vec<Entry> {
        match *matched {
            Match::Vlan(id) => vec![Entry::link(layout::VLAN, id.into())],
            Match::QinQ { outer, inner } => {
                let id = u32::from(outer) << 16 | u32::from(inner);
                vec![Entry::link(layout::QINQ, id)]
            }
            Match::Pppoe(session) => vec![Entry::link(layout::PPPOE, session.into())],
            Match::Prefix(prefix) => {
                let (address, bits) = (prefix.address(), prefix.bits());
                if prefix.is_ipv4() {
                    return vec![Entry::ipv4(address as u32, bits - 96)];
                }
                let mut entries = vec![Entry::ipv6(address, bits)];
                if (address ^ IPV4) & Prefix::mask(bits) == 0 {
                    entries.push(Entry::ipv4(0, 128 + bits));
                }
                entries
            }
        }
    }

    /// Assigns packets to limiters. A direction without a seat keeps the one that it has.
    pub(crate) fn seat(
        &mut self,
        maps: &dyn Maps,
        seats: impl Iterator<Item = (Match, PerDirection<Option<Seat>>)>,
    ) -> Result<(), MapsError> {
        let mut batches: HashMap<&'static str, (Vec<u8>, Vec<u8>, u32)> = HashMap::new();
        let before = self.counts.lengths();
        // As at the start of a gate. Matches differ, so none of their entries is there.
        let is_first = before.is_empty();
        for (matched, both) in seats {
            for seat in both.values().into_iter().flatten() {
                self.bind(maps, &seat)?;
            }
            for entry in Self::entries(&matched) {
                let there = match is_first {
                    true => None,
                    false => maps.lookup(entry.map, &entry.key)?,
                };
                if there.is_none()
                    && let Some(count) = self.count(&entry)
                {
                    *count += 1;
                }
                let mut value = there.map_or_else(|| Record::new(seats::SIZE_OF), Record::from);
                for (direction, seat) in both.iter() {
                    let Some(seat) = seat else { continue };
                    let at = |field: Field<u32>| field.within(seats::WAY, direction as usize);
                    let is_bound = usize::from(seat.from != Origin::default());
                    value.set(at(seat::LIMITER), seat.limiter);
                    value.set(at(seat::PLAN), seat.plan);
                    value.set(at(seat::VERSION), seat.version);
                    let known = layout::SEATED + layout::BOUND * is_bound;
                    value.set(at(seat::KNOWN), known as u32);
                }
                let (keys, values, count) = batches.entry(entry.map).or_default();
                keys.extend(entry.key);
                values.extend(value.into_bytes());
                *count += 1;
            }
        }
        let result = self.counts.check(maps).and_then(|()| {
            for (map, (keys, values, count)) in &batches {
                maps.update_all(map, keys, values, *count)?;
            }
            Ok(())
        });
        if result.is_err() {
            // Entries that were counted may be missing.
            if let Ok(read) = Self::read(maps) {
                *self = Self {
                    accounting: self.accounting,
                    unknown_drop: self.unknown_drop,
                    other_drop: self.other_drop,
                    link_frames: self.link_frames,
                    known_sources: self.known_sources,
                    beside: self.beside,
                    modes: self.modes,
                    hash: self.hash,
                    ..read
                };
            }
        }
        if self.counts.lengths() != before {
            self.publish(maps)?;
        }
        result
    }

    /// Stores where packets from the subscriber of a seat come from. Limiters of packets to subscribers are bound
    /// to nothing.
    fn bind(&mut self, maps: &dyn Maps, seat: &Seat) -> Result<(), MapsError> {
        let key = seat.limiter.to_ne_bytes();
        if seat.from != Origin::default() {
            let mac = seat.from.mac.map_or(0, |[a, b, rest @ ..]| {
                let upper = u32::from_le_bytes(rest);
                u64::from(upper) << 16 | u64::from(u16::from_be_bytes([a, b]))
            });
            let (outer, inner) = seat.from.tags;
            let value = Record::new(binding::SIZE_OF)
                .with(binding::MAC, mac)
                .with(binding::PORT, seat.from.port)
                .with(binding::TAGS, u32::from(outer) << 16 | u32::from(inner));
            maps.update("bindings", &key, &value.into_bytes())?;
            self.bound.insert(seat.limiter);
        } else if self.bound.remove(&seat.limiter) {
            maps.delete("bindings", &key)?;
        }
        Ok(())
    }

    /// Removes assignments of packets in both directions.
    pub(crate) fn unseat(&mut self, maps: &dyn Maps, matches: &[Match]) -> Result<(), MapsError> {
        let before = self.counts.lengths();
        let mut result = Ok(());
        for matched in matches {
            for entry in Self::entries(matched) {
                match maps.delete(entry.map, &entry.key) {
                    Ok(true) => {
                        if let Some(count) = self.count(&entry) {
                            *count = count.saturating_sub(1);
                        }
                    }
                    Ok(false) => {}
                    Err(error) => result = Err(error),
                }
            }
        }
        if self.counts.lengths() != before {
            self.publish(maps)?;
        }
        result
    }

    /// Publishes settings and lengths to packets, all at once.
    pub(crate) fn publish(&self, maps: &dyn Maps) -> Result<(), MapsError> {
        let lengths = self.counts.lengths();
        let mut record = Record::new(settings::SIZE_OF)
            .with(settings::HASH, self.hash)
            .with(settings::OVERHEAD, self.accounting.overhead.into())
            .with(settings::LAYER, self.accounting.layer)
            .with(settings::UNKNOWN_DROP, self.unknown_drop)
            .with(settings::OTHER_DROP, self.other_drop)
            .with(settings::LINK_FRAMES, self.link_frames)
            .with(settings::KNOWN_SOURCES, self.known_sources)
            .with(settings::BESIDE, u8::from(self.beside))
            .with(settings::MODES, self.modes)
            .with(settings::LINKS, lengths.links)
            .with(settings::COUNT4, lengths.ipv4.len() as u8)
            .with(settings::COUNT6, lengths.ipv6.len() as u8);
        for at in 0..LENGTHS {
            let length = lengths.ipv4.get(at).copied().unwrap_or(0);
            let mask4 = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            let mask4 = if length > 32 { 0 } else { mask4 };
            let lengths4 = settings::LENGTHS4;
            record.set(length4::MASK.within(lengths4, at), mask4.to_be());
            record.set(length4::LENGTH.within(lengths4, at), length);
            let length = lengths.ipv6.get(at).copied().unwrap_or(0);
            let mask6 = network_words(Prefix::mask(length));
            let lengths6 = settings::LENGTHS6;
            record.set(length6::MASK.within(lengths6, at), mask6);
            record.set(length6::LENGTH.within(lengths6, at), length);
        }
        let zero = 0u32.to_ne_bytes();
        let current = maps.lookup("current", &zero)?.unwrap_or_default();
        // Packets use one of the two settings while the other is written.
        let current = current[..].try_into().map_or(0, u32::from_ne_bytes);
        let other = 1 - (current & 1);
        maps.update("settings", &other.to_ne_bytes(), &record.into_bytes())?;
        maps.update("current", &zero, &other.to_ne_bytes())
    }
}
