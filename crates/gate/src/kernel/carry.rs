//! Limiters that go on at the other gate of a pair.

use std::ops::Range;

use libbpf_rs::{MapCore, MapFlags};
use tidegate_limiter::Nanos;

use super::{Kernel, KernelError};
use crate::maps::layout;
use crate::path::Remembered;

impl Kernel {
    /// Limiters that had packets since a time.
    pub(crate) fn export(
        &self,
        limiters: Range<u32>,
        since: Nanos,
    ) -> Result<Vec<Remembered>, KernelError> {
        let mut all = Vec::new();
        self.visit(limiters, |number, state| {
            if layout::latest(state) >= since {
                all.extend(layout::remembered(number, state));
            }
        })?;
        Ok(all)
    }

    /// Lets a limiter go on where that of another gate is, if that had its latest packet later.
    pub(crate) fn import(
        &mut self,
        limiter: u32,
        (plan, version): (u32, u32),
        other: &[u8],
        at: Nanos,
    ) -> Result<bool, KernelError> {
        let (page, place) = self.page(limiter)?;
        let failed = |source| KernelError::map("limiters", source);
        let own = page.lookup(&place, MapFlags::LOCK).map_err(failed)?;
        let own = own.unwrap_or_else(|| vec![0; layout::limiter::SIZE_OF]);
        let found = self.map("plans").lookup(&plan.to_ne_bytes(), MapFlags::ANY);
        let Some(record) = found.map_err(|source| KernelError::map("plans", source))? else {
            return Ok(false);
        };
        let Some(new) = layout::carried(&own, other, (plan, version), &record, at) else {
            return Ok(false);
        };
        page.update(&place, &new, MapFlags::LOCK).map_err(failed)?;
        Ok(true)
    }
}
