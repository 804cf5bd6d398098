//! Who sits where: the maps from addresses and tags to limiters, and the lengths of prefixes in use,
//! which packets try one after the other.

use std::collections::{HashMap, HashSet};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use super::layout::{self, LENGTHS, Writer, read_u32, read_u64};
use super::policy::mask;
use super::{KernelError, Seat};
use crate::table::{Accounting, Direction, Match, Settings, Unknown};

type Maps = HashMap<&'static str, MapHandle>;

/// Words of the flows' hash, with which settings begin.
const HASH: usize = 11;

const IPV4: u128 = 0xffff << 32;

/// What user space knows of the directory without asking the kernel.
#[derive(Debug)]
pub(super) struct Directory {
    accounting: Accounting,
    unknown: Unknown,
    /// The words of the flows' hash, as they are in the kernel: its key is not known to who takes a
    /// gate over.
    hash: [u64; HASH],
    /// Entries of each length by direction. Of IPv4, prefixes of IPv6 that contain all of it follow
    /// as 128 and their length.
    lengths4: [Vec<u32>; 2],
    lengths6: [Vec<u32>; 2],
    /// Of each kind of link.
    links: [[u32; 3]; 2],
}

/// Where an entry is.
struct Place {
    map: &'static str,
    key: Vec<u8>,
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::Down => 0,
        Direction::Up => 1,
    }
}

fn link_key(kind: usize, id: u32, direction: usize) -> Place {
    let mut key = Writer::default();
    key.u32(id).u8(kind as u8).u8(direction as u8);
    Place {
        map: "seats_link",
        key: key.fill(8),
    }
}

fn key4(address: u32, length: u32, direction: usize) -> Place {
    let mut key = Writer::default();
    key.bytes(&address.to_be_bytes())
        .u8(length as u8)
        .u8(direction as u8);
    Place {
        map: "seats4",
        key: key.fill(8),
    }
}

fn key6(address: u128, length: u32, direction: usize) -> Place {
    let mut key = Writer::default();
    key.bytes(&address.to_be_bytes())
        .u8(length as u8)
        .u8(direction as u8);
    Place {
        map: "seats6",
        key: key.fill(20),
    }
}

impl Directory {
    /// Counts what is in the maps.
    pub(super) fn read(maps: &Maps) -> Result<Self, KernelError> {
        let current = maps["current"]
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| KernelError::map("current", source))?
            .unwrap_or_default();
        let settings = maps["settings"]
            .lookup(&read_u32(&current, 0).to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| KernelError::map("settings", source))?
            .unwrap_or_default();
        let mut directory = Self {
            accounting: Accounting {
                layer: settings.get(92).copied().unwrap_or(0),
                overhead: read_u32(&settings, 88) as i32 as i16,
            },
            unknown: match settings.get(93) {
                Some(1) => Unknown::Drop,
                _ => Unknown::Pass,
            },
            hash: std::array::from_fn(|word| read_u64(&settings, word * 8)),
            lengths4: std::array::from_fn(|_| vec![0; 256]),
            lengths6: std::array::from_fn(|_| vec![0; 129]),
            links: Default::default(),
        };
        for map in ["seats4", "seats6", "seats_link"] {
            for key in maps[map].keys() {
                let place = Place { map, key };
                if let Some(count) = directory.count(&place) {
                    *count += 1;
                }
            }
        }
        Ok(directory)
    }

    /// The count that an entry is part of.
    fn count(&mut self, place: &Place) -> Option<&mut u32> {
        let key = &place.key;
        match place.map {
            "seats4" => self.lengths4[usize::from(key[5]) & 1].get_mut(usize::from(key[4])),
            "seats6" => self.lengths6[usize::from(key[17]) & 1].get_mut(usize::from(key[16])),
            _ => self.links[usize::from(key[5]) & 1].get_mut(usize::from(key[4])),
        }
    }

    /// Plans that packets are led to.
    pub(super) fn plans(&self, maps: &Maps) -> Result<HashSet<u32>, KernelError> {
        let mut plans = HashSet::new();
        for map in ["seats4", "seats6", "seats_link"] {
            for key in maps[map].keys() {
                let seat = maps[map]
                    .lookup(&key, MapFlags::ANY)
                    .map_err(|source| KernelError::map(map, source))?;
                plans.extend(seat.map(|seat| read_u32(&seat, 4)));
            }
        }
        Ok(plans)
    }

    pub(super) fn set(&mut self, settings: &Settings) {
        self.accounting = settings.accounting;
        self.unknown = settings.unknown;
        self.hash = *settings.hash.words();
    }

    /// Where entries of a match are; two, if it is of both families.
    fn places(matched: &Match, direction: usize) -> Vec<Place> {
        match *matched {
            Match::Vlan(id) => vec![link_key(0, id.into(), direction)],
            Match::QinQ { outer, inner } => {
                vec![link_key(
                    1,
                    u32::from(outer) << 16 | u32::from(inner),
                    direction,
                )]
            }
            Match::Pppoe(session) => vec![link_key(2, session.into(), direction)],
            Match::Prefix(prefix) => {
                let (address, bits) = (prefix.address(), prefix.bits());
                if prefix.is_ipv4() {
                    return vec![key4(address as u32, bits - 96, direction)];
                }
                let mut places = vec![key6(address, bits, direction)];
                if (address ^ IPV4) & mask(bits) == 0 {
                    places.push(key4(0, 128 + bits, direction));
                }
                places
            }
        }
    }

    pub(super) fn seat(
        &mut self,
        maps: &Maps,
        direction: Direction,
        seats: &[(Match, Seat)],
    ) -> Result<(), KernelError> {
        let mut batches: HashMap<&'static str, (Vec<u8>, Vec<u8>, u32)> = HashMap::new();
        let before = self.lengths();
        for (matched, seat) in seats {
            for place in Self::places(matched, index(direction)) {
                let map = &maps[place.map];
                let there = map
                    .lookup(&place.key, MapFlags::ANY)
                    .map_err(|source| KernelError::map(place.map, source))?;
                if there.is_none()
                    && let Some(count) = self.count(&place)
                {
                    *count += 1;
                }
                let (keys, values, count) = batches.entry(place.map).or_default();
                keys.extend(place.key);
                let mut value = Writer::default();
                value.u32(seat.limiter).u32(seat.plan).u32(seat.version);
                values.extend(value.fill(12));
                *count += 1;
            }
        }
        let checked = self.check_lengths();
        let result = checked.and_then(|()| {
            for (map, (keys, values, count)) in &batches {
                maps[map]
                    .update_batch(keys, values, *count, MapFlags::ANY, MapFlags::ANY)
                    .map_err(|source| KernelError::map(map, source))?;
            }
            Ok(())
        });
        if result.is_err() {
            // What was counted may not be there.
            if let Ok(read) = Self::read(maps) {
                *self = Self {
                    accounting: self.accounting,
                    unknown: self.unknown,
                    hash: self.hash,
                    ..read
                };
            }
        }
        if self.lengths() != before {
            self.publish(maps)?;
        }
        result
    }

    pub(super) fn unseat(
        &mut self,
        maps: &Maps,
        direction: Direction,
        matches: &[Match],
    ) -> Result<(), KernelError> {
        let before = self.lengths();
        let mut result = Ok(());
        for matched in matches {
            for place in Self::places(matched, index(direction)) {
                match maps[place.map].delete(&place.key) {
                    Ok(()) => {
                        if let Some(count) = self.count(&place) {
                            *count = count.saturating_sub(1);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(source) => result = Err(KernelError::map(place.map, source)),
                }
            }
        }
        if self.lengths() != before {
            self.publish(maps)?;
        }
        result
    }

    /// The lengths in use by direction, the longest first: of IPv4, of IPv6, and links as bits.
    fn lengths(&self) -> [(Vec<u32>, Vec<u32>, u8); 2] {
        [0, 1].map(|direction| {
            let used = |counts: &[u32]| -> Vec<u32> {
                let lengths = (0..counts.len() as u32).rev();
                lengths
                    .filter(|&length| counts[length as usize] > 0)
                    .collect()
            };
            let (four, more): (Vec<u32>, Vec<u32>) = used(&self.lengths4[direction])
                .into_iter()
                .partition(|&length| length <= 32);
            let links = (0..3).filter(|&kind| self.links[direction][kind] > 0);
            (
                [four, more].concat(),
                used(&self.lengths6[direction]),
                links.map(|kind| 1 << kind).sum(),
            )
        })
    }

    fn check_lengths(&self) -> Result<(), KernelError> {
        for (four, six, _) in self.lengths() {
            for (what, found) in [
                ("different lengths of IPv4 prefixes", four.len()),
                ("different lengths of IPv6 prefixes", six.len()),
            ] {
                if found > LENGTHS {
                    return Err(KernelError::room(what, found, LENGTHS));
                }
            }
        }
        Ok(())
    }

    /// Puts settings and lengths where packets find them, all at once.
    pub(super) fn publish(&self, maps: &Maps) -> Result<(), KernelError> {
        let mut writer = Writer::default();
        for word in self.hash {
            writer.u64(word);
        }
        let lengths = self.lengths();
        writer
            .bytes(&i32::from(self.accounting.overhead).to_ne_bytes())
            .u8(self.accounting.layer)
            .u8(u8::from(self.unknown == Unknown::Drop))
            .bytes(&[lengths[0].2, lengths[1].2])
            .bytes(&[lengths[0].0.len() as u8, lengths[1].0.len() as u8])
            .bytes(&[lengths[0].1.len() as u8, lengths[1].1.len() as u8])
            .u32(0);
        for (four, ..) in &lengths {
            for at in 0..LENGTHS {
                let length = four.get(at).copied().unwrap_or(0);
                let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
                let mask = if length > 32 { 0 } else { mask };
                writer.bytes(&mask.to_be_bytes()).u32(length);
            }
        }
        for (_, six, _) in &lengths {
            for at in 0..LENGTHS {
                let length = six.get(at).copied().unwrap_or(0);
                writer.bytes(&mask(length).to_be_bytes()).u32(length);
            }
        }
        let refused = |name: &'static str| move |source| KernelError::map(name, source);
        let zero = 0u32.to_ne_bytes();
        let current = maps["current"]
            .lookup(&zero, MapFlags::ANY)
            .map_err(refused("current"))?
            .unwrap_or_default();
        // Packets go by one while the other is written.
        let other = 1 - (read_u32(&current, 0) & 1);
        maps["settings"]
            .update(
                &other.to_ne_bytes(),
                &writer.fill(layout::SETTINGS),
                MapFlags::ANY,
            )
            .map_err(refused("settings"))?;
        maps["current"]
            .update(&zero, &other.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused("current"))
    }
}
