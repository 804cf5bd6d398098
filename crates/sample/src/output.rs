//! Packets to files: which file, in which form, and what is done when the disk is full.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_trace::read::Nanos;

use crate::choice::{By, Choice};
use crate::choices::Choices;
use crate::counters::Counters;
use crate::error::SampleError;
use crate::files::{self, Open, Origin};
use crate::folder::{Folder, is_full};
use crate::fraction::Fraction;
use crate::options::{Event, Options};
use crate::packet::Packet;
use crate::recover::recover;

/// A file ends this long after its time at the latest, if no packet comes.
const LATE: Nanos = 1_000_000_000;
/// How long nothing is written after the disk was full and nothing could be removed.
const FULL: Nanos = 1_000_000_000;

/// The part of a sampler that writes.
pub(crate) struct Output {
    options: Options,
    origin: Origin,
    folder: Folder,
    open: Option<Open>,
    frame: Vec<u8>,
    /// What was sampled from which time on, and the form of addresses in the file that is open.
    choices: Choices,
    /// Packets that passed the filter, and lost ones, since the last file was closed.
    accepted: u64,
    dropped: u64,
    /// Packets that were not written since the last file was closed.
    discarded: u64,
    full_until: Nanos,
    /// What became of the files of a process that was killed, until it is reported.
    recovered: Vec<Event>,
    counters: Arc<Counters>,
}

impl Output {
    pub fn new(options: Options, origin: Origin) -> Result<Self, SampleError> {
        let folder = Folder::open(&options.folder, &origin.host, &origin.interface)?;
        let recovered = recover(&folder).map_err(SampleError::write(folder.path()))?;
        let counters = Arc::new(Counters::default());
        counters.set_fraction(options.choice.fraction.get());
        Ok(Self {
            counters,
            choices: Choices::new(options.choice.clone(), options.addresses),
            options,
            origin,
            folder,
            open: None,
            frame: Vec::new(),
            accepted: 0,
            dropped: 0,
            discarded: 0,
            full_until: 0,
            recovered,
        })
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The complete files, the oldest first.
    pub fn complete(&self) -> Result<Vec<PathBuf>, SampleError> {
        let files = self.folder.complete();
        files.map_err(SampleError::write(self.folder.path()))
    }

    /// Counts what the kernel says of packets that it has for the file that is open, or for the next one.
    pub fn count(&mut self, accepted: u32, dropped: u32) {
        self.accepted += u64::from(accepted);
        self.dropped += u64::from(dropped);
        Counters::add(&self.counters.dropped, dropped.into());
    }

    /// Another choice is in force, for packets from now on. They begin another file.
    pub fn choose(&mut self, choice: Choice) {
        let now = files::now();
        self.counters.set_fraction(choice.fraction.get());
        if let Some(open) = &mut self.open {
            open.end_at(now);
        }
        self.choices.push(now, choice);
    }

    pub fn write(
        &mut self,
        packet: &Packet<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        if packet.at < self.full_until {
            self.discard(1);
            return Ok(());
        }
        let result = self.try_to_write(packet, report);
        self.unless_full(result, packet.at, 1, report)
    }

    fn try_to_write(
        &mut self,
        packet: &Packet<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let rotation = self.options.rotation;
        let is_over = |open: &Open| open.is_over(packet.at, rotation);
        if self.open.as_ref().is_some_and(is_over) {
            self.close(report)?;
        }
        if self.open.is_none() {
            self.begin(packet.at)?;
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let wire_len = packet.frame(&mut self.frame);
        if !self.choices.hide(self.origin.link, &mut self.frame) {
            // The filter accepts no such packet. If it did, its addresses must not be written.
            self.discard(1);
            return Ok(());
        }
        open.write(packet.at, &self.frame, wire_len, packet.marks)
            .map_err(SampleError::write(&self.options.folder))
    }

    /// Gives up the file that is open if the disk is full: that makes room. Other errors stay.
    fn unless_full(
        &mut self,
        result: Result<(), SampleError>,
        at: Nanos,
        unwritten: u64,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let removed = self.folder.removed();
        if !removed.is_empty() {
            Counters::add(&self.counters.removed, removed.len() as u64);
            report(Event::Removed(removed));
        }
        match result {
            Err(SampleError::Write { path, source }) if is_full(&source) => {
                let packets = self
                    .open
                    .take()
                    .map_or(0, |open| open.packets())
                    .max(unwritten);
                self.discard(packets);
                self.full_until = at.saturating_add(FULL);
                let reason = SampleError::Write { path, source };
                report(Event::Discarded { packets, reason });
                Ok(())
            }
            other => other,
        }
    }

    fn discard(&mut self, packets: u64) {
        self.discarded += packets;
        Counters::add(&self.counters.discarded, packets);
    }

    /// Begins a file with a packet of this time, for as long as the same is sampled.
    fn begin(&mut self, at: Nanos) -> Result<(), SampleError> {
        let choice = self.choices.at(at).1.clone();
        let comment = self.comment(&choice);
        let mut open = Open::begin(
            &self.folder,
            &self.origin,
            self.options.rotation,
            &comment,
            at,
        )?;
        if let Some(from) = self.choices.next() {
            open.end_at(from);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Ends a file whose time is over, if no packet did.
    pub fn rest(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        self.recovered.drain(..).for_each(&mut *report);
        let before = files::now().saturating_sub(LATE);
        let rotation = self.options.rotation;
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.is_over(before, rotation))
        {
            self.end(report)?;
        }
        Ok(())
    }

    /// Completes the file that is open, if there is one.
    pub fn end(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        let packets = self.open.as_ref().map_or(0, Open::packets);
        let result = self.close(report);
        self.unless_full(result, files::now(), packets, report)
    }

    fn close(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let closed = open.close(self.accepted, self.dropped)?;
        (self.accepted, self.dropped, self.discarded) = (0, 0, 0);
        Counters::add(&self.counters.files, 1);
        Counters::add(&self.counters.packets, closed.packets);
        Counters::add(&self.counters.bytes, closed.bytes);
        report(Event::Closed(closed));
        if let Some(keep) = self.options.keep {
            // The file that is written next must fit too.
            let others = keep.saturating_sub(self.options.rotation.size);
            let kept = self.folder.keep(others);
            kept.map_err(SampleError::write(self.folder.path()))?;
        }
        Ok(())
    }

    /// What the header of a file says, as words that programs can split.
    fn comment(&self, choice: &Choice) -> String {
        let Choice { by, fraction, key } = choice;
        let by = match by {
            By::Flow => "flow".to_owned(),
            By::Client(prefixes) => format!("client prefixes={prefixes}"),
        };
        let mut comment = format!(
            "tidegate sample: fraction={fraction} by={by} addresses={} key={} host={} interface={}",
            self.options.addresses,
            key.name(),
            self.origin.host,
            self.origin.interface,
        );
        let asked: Fraction = self.options.choice.fraction;
        if asked != *fraction {
            comment += &format!(" asked={asked} lowered=overload");
        }
        if self.discarded > 0 {
            comment += &format!(" discarded_before={}", self.discarded);
        }
        comment
    }
}
