//! The maps in DPDK's memory.

use super::sys;
use crate::maps::layout::{
    binding, key4, key6, link_key, node, plan, rules, seats, settings, shape,
};
use crate::maps::{Maps, MapsError};

/// The names of maps in the order of their numbers in `dpdk/gate.c`, with the bytes of a key and of a value.
const MAPS: [(&str, usize, usize); 11] = [
    ("settings", 4, settings::SIZE_OF),
    ("current", 4, 4),
    ("seats4", key4::SIZE_OF, seats::SIZE_OF),
    ("seats6", key6::SIZE_OF, seats::SIZE_OF),
    ("seats_link", link_key::SIZE_OF, seats::SIZE_OF),
    ("bindings", 4, binding::SIZE_OF),
    ("ports", 4, 4),
    ("plans", 4, plan::SIZE_OF),
    ("shapes", 4, shape::SIZE_OF),
    ("rule_sets", 4, rules::SIZE_OF),
    ("nodes", 4, node::SIZE_OF),
];

const _: () = {
    let mut at = 0;
    while at < MAPS.len() {
        assert!(MAPS[at].1 <= 32 && MAPS[at].2 <= sys::LONGEST);
        at += 1;
    }
};

/// The maps of this process.
#[derive(Debug)]
pub(super) struct DpdkMaps;

fn described(map: &'static str) -> Result<(u32, usize, usize), MapsError> {
    let found = MAPS.iter().position(|(name, ..)| *name == map);
    let number = found.ok_or_else(|| MapsError::map(map, "there is no such map"))?;
    let (_, key, value) = MAPS[number];
    Ok((number as u32, key, value))
}

impl Maps for DpdkMaps {
    fn lookup(&self, map: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, MapsError> {
        let (number, ..) = described(map)?;
        Ok(sys::lookup(number, key))
    }

    fn update_all(
        &self,
        map: &'static str,
        keys: &[u8],
        values: &[u8],
        count: u32,
    ) -> Result<(), MapsError> {
        let (number, key, value) = described(map)?;
        let count_of = count as usize;
        if keys.len() != count_of * key || values.len() != count_of * value {
            return Err(MapsError::map(map, "keys or values are of another size"));
        }
        sys::update(number, keys, values, count).map_err(|source| MapsError::map(map, source))
    }

    fn delete(&self, map: &'static str, key: &[u8]) -> Result<bool, MapsError> {
        let (number, ..) = described(map)?;
        sys::delete(number, key).map_err(|source| MapsError::map(map, source))
    }

    fn keys(&self, map: &'static str) -> Box<dyn Iterator<Item = Vec<u8>> + '_> {
        let Ok((number, key, _)) = described(map) else {
            return Box::new(std::iter::empty());
        };
        let mut from = 0;
        Box::new(std::iter::from_fn(move || {
            let (found, after) = sys::next(number, from, key)?;
            from = after;
            Some(found)
        }))
    }

    fn room(&self, map: &'static str) -> usize {
        described(map).map_or(0, |(number, ..)| sys::room(number))
    }
}
