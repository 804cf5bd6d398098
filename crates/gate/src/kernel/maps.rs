//! The kernel's maps.

use std::collections::HashMap;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use crate::maps::{Maps, MapsError};

/// Open maps by their names.
#[derive(Debug, Default)]
pub(super) struct KernelMaps(HashMap<&'static str, MapHandle>);

impl KernelMaps {
    pub(super) fn insert(&mut self, name: &'static str, map: MapHandle) {
        self.0.insert(name, map);
    }

    pub(super) fn of(&self, name: &'static str) -> &MapHandle {
        &self.0[name]
    }
}

impl Maps for KernelMaps {
    fn lookup(&self, map: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, MapsError> {
        let found = self.of(map).lookup(key, MapFlags::ANY);
        found.map_err(|source| MapsError::map(map, source))
    }

    fn update_all(
        &self,
        map: &'static str,
        keys: &[u8],
        values: &[u8],
        count: u32,
    ) -> Result<(), MapsError> {
        let to = self.of(map);
        // Maps of all kinds take single values.
        let stored = match count {
            1 => to.update(keys, values, MapFlags::ANY),
            _ => to.update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY),
        };
        stored.map_err(|source| MapsError::map(map, source))
    }

    fn delete(&self, map: &'static str, key: &[u8]) -> Result<bool, MapsError> {
        match self.of(map).delete(key) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(MapsError::map(map, source)),
        }
    }

    fn keys(&self, map: &'static str) -> Box<dyn Iterator<Item = Vec<u8>> + '_> {
        Box::new(self.of(map).keys())
    }

    fn room(&self, map: &'static str) -> usize {
        self.of(map).max_entries() as usize
    }
}
