//! Flows that are watched, and what lines feel.

use std::fs;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::{Kernel, KernelError, load, sys};
use crate::flow::Flow;
use crate::line::{Line, Lines};
use crate::maps::layout::{self, flow, flow_key};
use crate::maps::watched;

const MAP: &str = "flow_tables";
/// Values that are read from a map at once.
const BATCH: u32 = 1 << 12;

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
        Ok(Some(watched::lines(
            batch.map(|(key, value)| {
                let number = u32::from_ne_bytes(key.try_into().unwrap_or_default());
                (number, value)
            }),
            window,
        )))
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
        Ok(found.map(|value| watched::line(&value, sys::now() >> layout::LATELY)))
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
            its.map(|(key, value)| watched::flow(&key, &value, now))
                .collect(),
        ))
    }
}
