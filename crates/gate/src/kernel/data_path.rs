//! The kernel as a data path.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::net::if_::if_nametoindex;
use tidegate_limiter::{Nanos, NetworkNode, Scheme};

use super::load::{is_bpf, is_hidden};
use super::{Kernel, KernelError, renew, sys};
use crate::claimed::{self, Owner};
use crate::flow::Flow;
use crate::line::{Line, Lines};
use crate::path::{DataPath, Others, PathError, Remembered, Renewal};
use crate::table::{
    Attachment, BESIDE, Counters, LimiterState, Match, NodeState, PerDirection, Plan, Seat,
    Settings,
};

impl From<KernelError> for PathError {
    fn from(error: KernelError) -> Self {
        Self(Box::new(error))
    }
}

impl DataPath for Kernel {
    fn create(pins: &Path, settings: &Settings) -> Result<Self, PathError> {
        // Left by a process that was killed before the gate was complete.
        if !Self::exists(pins) && is_bpf(pins) {
            Self::clear(pins)?;
        }
        Ok(Self::create(pins, settings)?)
    }

    fn open(pins: &Path) -> Result<Self, PathError> {
        Ok(Self::open(pins)?)
    }

    fn sees(pins: &Path) -> Result<(), PathError> {
        match is_hidden(pins) {
            true => Err(KernelError::Mounts.into()),
            false => Ok(()),
        }
    }

    fn network() -> Option<u64> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net");
        namespace.ok().map(|file| file.ino())
    }

    fn renew(&mut self) -> Renewal {
        renew::renew(&self.pins)
    }

    fn outdated(&self) -> Vec<&'static str> {
        renew::outdated(&self.pins)
    }

    fn exists(pins: &Path) -> bool {
        is_bpf(pins) && Self::exists(pins)
    }

    fn clear(pins: &Path) -> Result<(), PathError> {
        match is_bpf(pins) {
            true => Ok(Self::clear(pins)?),
            false => Ok(()),
        }
    }

    fn check(attachment: &Attachment) -> Result<(), PathError> {
        let interface = &attachment.interface;
        if if_nametoindex(interface.as_str()).is_err() {
            return Err(KernelError::Interface(interface.clone()).into());
        }
        match claimed::owner(interface) {
            Some(Owner { process, user }) if user == nix::unistd::geteuid().as_raw() => {
                let interface = interface.clone();
                Err(KernelError::OnDpdk { interface, process }.into())
            }
            _ => Ok(()),
        }
    }

    fn set_settings(&mut self, settings: &Settings) -> Result<(), PathError> {
        Ok(self.set_settings(settings)?)
    }

    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError> {
        Ok(self.make_room(plans, kept)?)
    }

    fn has(scheme: Scheme) -> bool {
        !BESIDE.contains(&scheme)
    }

    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError> {
        if BESIDE.contains(&plan.limiter().scheme()) {
            return Err(KernelError::Beside(plan.limiter().scheme()).into());
        }
        Ok(self.put_plan(number, plan)?)
    }

    fn put_node(&mut self, number: u32, node: &NetworkNode, fresh: bool) -> Result<(), PathError> {
        Ok(self.put_node(number, node, fresh)?)
    }

    fn node(&self, number: u32) -> Result<NodeState, PathError> {
        Ok(self.node(number)?)
    }

    fn fits(&self, more: &[Match]) -> Result<(), PathError> {
        Ok(self.fits(more)?)
    }

    fn seat(&mut self, seats: &[(Match, PerDirection<Seat>)]) -> Result<(), PathError> {
        Ok(self.seat_both(seats)?)
    }

    fn unseat(&mut self, matches: &[Match]) -> Result<(), PathError> {
        Ok(self.unseat(matches)?)
    }

    fn reserve(&mut self, limiters: u32) -> Result<(), PathError> {
        Ok(self.reserve(limiters)?)
    }

    fn forget(&mut self, limiter: u32) -> Result<(), PathError> {
        Ok(self.forget(limiter)?)
    }

    fn read(&self, limiter: u32) -> Result<LimiterState, PathError> {
        Ok(self.read(limiter)?)
    }

    fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, PathError> {
        Ok(self.counters(limiters)?)
    }

    fn export(&self, limiters: Range<u32>, since: Nanos) -> Result<Vec<Remembered>, PathError> {
        Ok(self.export(limiters, since)?)
    }

    fn import(
        &mut self,
        limiter: u32,
        plan: (u32, u32),
        state: &[u8],
        at: Nanos,
    ) -> Result<bool, PathError> {
        Ok(self.import(limiter, plan, state, at)?)
    }

    fn now(&self) -> Nanos {
        sys::now()
    }

    fn lines(&self) -> Result<Option<Lines>, PathError> {
        Ok(self.lines()?)
    }

    fn line(&self, subscriber: u32) -> Result<Option<Line>, PathError> {
        Ok(self.line(subscriber)?)
    }

    fn flows(&self, subscriber: u32) -> Result<Option<Vec<Flow>>, PathError> {
        Ok(self.flows(subscriber)?)
    }

    fn unknown(&self) -> Result<Others, PathError> {
        let strangers = self.unknown()?.into_iter();
        Ok(strangers
            .map(|tally| (tally.reason, tally.packets))
            .collect())
    }

    fn prepare(&mut self, attachments: &[Attachment]) {
        self.prepare(attachments);
    }

    fn ready(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        Ok(self.ready(attachment)?)
    }

    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        match self.attach(attachment) {
            // It is attached already, perhaps by a process that was killed.
            Err(KernelError::Attached(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        Ok(self.detach(attachment)?)
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.attachments()
    }

    fn renamed(&self, attachment: &Attachment) -> Option<String> {
        self.renamed(attachment)
    }

    fn remove(self) -> Result<(), PathError> {
        Ok(self.remove()?)
    }
}
