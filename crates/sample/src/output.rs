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

/// A file could not be written.
struct Failed {
    reason: SampleError,
    /// Packets that are lost, beside those of the file that is still open.
    packets: u64,
}

impl Failed {
    fn with(packets: u64) -> impl Fn(SampleError) -> Self {
        move |reason| Self { reason, packets }
    }
}

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
    /// When the disk was full and nothing could be removed.
    full_at: Option<Nanos>,
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
            full_at: None,
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
        if self.is_full(packet.at) {
            self.discard(1);
            return Ok(());
        }
        let result = self.try_to_write(packet, report);
        self.unless_full(result, packet.at, report)
    }

    /// Whether nothing is written at this time, because the disk was full shortly before.
    fn is_full(&self, at: Nanos) -> bool {
        self.full_at
            .is_some_and(|full| at < full.saturating_add(FULL) && !files::was_set_back(full, at))
    }

    fn try_to_write(
        &mut self,
        packet: &Packet<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), Failed> {
        let rotation = self.options.rotation;
        let is_over = |open: &Open| open.is_over(packet.at, rotation);
        if self.open.as_ref().is_some_and(is_over) {
            // This packet is lost with those of the file.
            self.close(report).map_err(|failed| Failed {
                packets: failed.packets + 1,
                ..failed
            })?;
        }
        if self.open.is_none() {
            self.begin(packet.at).map_err(Failed::with(1))?;
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
        // A packet that could not be written counts among those of the file.
        open.write(packet.at, &self.frame, wire_len, packet.marks)
            .map_err(SampleError::write(&self.options.folder))
            .map_err(Failed::with(0))
    }

    /// Gives up the file that is open if the disk is full: that makes room. Other errors stay.
    fn unless_full(
        &mut self,
        result: Result<(), Failed>,
        at: Nanos,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let removed = self.folder.removed();
        if !removed.is_empty() {
            Counters::add(&self.counters.removed, removed.len() as u64);
            report(Event::Removed(removed));
        }
        let Err(Failed { reason, packets }) = result else {
            return Ok(());
        };
        match &reason {
            SampleError::Write { source, .. } if is_full(source) => {
                let packets = packets + self.open.take().map_or(0, |open| open.packets());
                self.discard(packets);
                self.full_at = Some(at);
                report(Event::Discarded { packets, reason });
                Ok(())
            }
            _ => Err(reason),
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
        let now = files::now();
        self.choices.time(now);
        if let (Some(open), Some(from)) = (&mut self.open, self.choices.next()) {
            open.end_at(from);
        }
        let before = now.saturating_sub(LATE);
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
        let result = self.close(report);
        self.unless_full(result, files::now(), report)
    }

    fn close(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), Failed> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let packets = open.packets();
        let closed = open.close(self.accepted, self.dropped);
        let closed = closed.map_err(Failed::with(packets))?;
        (self.accepted, self.dropped, self.discarded) = (0, 0, 0);
        Counters::add(&self.counters.files, 1);
        Counters::add(&self.counters.packets, closed.packets);
        Counters::add(&self.counters.bytes, closed.bytes);
        report(Event::Closed(closed));
        if let Some(keep) = self.options.keep {
            // The file that is written next must fit too.
            let others = keep.saturating_sub(self.options.rotation.size);
            let kept = self.folder.keep(others);
            kept.map_err(SampleError::write(self.folder.path()))
                .map_err(Failed::with(0))?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tidegate_testbed::TestbedError;
    use tidegate_testbed::namespace::Namespace;
    use tidegate_trace::read::{Capture, LinkType};
    use tidegate_trace::write::pcapng::Marks;
    use tidegate_trace::write::{Ends, TcpFrame};

    use super::*;
    use crate::address::Addresses;
    use crate::key::Key;
    use crate::net::Prefixes;

    const SECOND: Nanos = 1_000_000_000;

    fn output(folder: &Path) -> Output {
        let choice = Choice {
            by: By::Flow,
            fraction: Fraction::new(1.0).unwrap(),
            key: Key::from_bytes([3; 32]),
        };
        let mut options = Options::new("eth0", folder, choice);
        options.rotation.every = Duration::from_secs(3600);
        let origin = Origin {
            host: "web1".to_owned(),
            interface: "eth0".to_owned(),
            link: LinkType::ETHERNET,
        };
        Output::new(options, origin).unwrap()
    }

    /// Writes a packet of this second, whose bytes do not compress. Returns what was reported.
    fn write(output: &mut Output, seconds: Nanos) -> Vec<Event> {
        let number = output.open.as_ref().map_or(0, Open::packets);
        let random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = Vec::new();
        TcpFrame {
            seq: random as u32,
            ack: (random >> 32) as u32,
            ..TcpFrame::new(Ends {
                src: "192.0.2.1:1000".parse().unwrap(),
                dst: "192.0.2.2:443".parse().unwrap(),
            })
        }
        .encode(&mut bytes);
        let packet = Packet {
            at: seconds * SECOND,
            bytes: &bytes,
            wire_len: bytes.len() as u32,
            tag: None,
            marks: Marks::default(),
        };
        let mut events = Vec::new();
        output
            .write(&packet, &mut |event| events.push(event))
            .unwrap();
        events
    }

    /// Does this with a disk of its own, where there are the rights to mount one.
    fn on_a_disk(test: &str, options: &str, work: impl FnOnce(&Path) + Send) {
        let space = match Namespace::new() {
            Err(TestbedError::Rights { .. }) => {
                writeln!(std::io::stderr(), "skipped {test}: needs root").unwrap();
                return;
            }
            other => other.unwrap(),
        };
        let disk = Path::new("/run/disk");
        space.enter(|| fs::create_dir(disk)).unwrap().unwrap();
        let mount = format!("-t tmpfs -o {options} tmpfs /run/disk");
        space.run("mount", &mount).unwrap();
        space.enter(|| work(disk)).unwrap();
    }

    #[test]
    fn readers_take_from_a_file_which_addresses_are_one_client() {
        let clients = |v4, v6| By::Client(Prefixes { v4, v6 });
        let cut = Addresses::Prefix(Prefixes { v4: 24, v6: 48 });
        for (by, addresses) in [
            (By::Flow, Addresses::Keep),
            (By::Flow, cut),
            (clients(32, 56), Addresses::Pseudonym),
            (clients(24, 56), cut),
        ] {
            let root = tempfile::tempdir().unwrap();
            let Output {
                mut options,
                origin,
                ..
            } = output(root.path());
            (options.choice.by, options.addresses) = (by, addresses);
            let told = options.told_apart();
            let mut output = Output::new(options, origin).unwrap();
            write(&mut output, 1000);
            output.end(&mut |_| {}).unwrap();
            let file = fs::File::open(&output.complete().unwrap()[0]).unwrap();
            let mut capture = Capture::new(file).unwrap();
            assert!(capture.frame().unwrap().is_some());
            let read = capture.sampled().map(|said| said.clients);
            assert_eq!(read, Some(told), "{by:?} {addresses:?}");
        }
    }

    #[test]
    fn a_file_that_a_full_disk_does_not_take_costs_all_of_its_packets() {
        let test = "a_file_that_a_full_disk_does_not_take_costs_all_of_its_packets";
        on_a_disk(test, "size=4k", |disk| {
            let mut output = output(disk);
            // The compressor keeps packets in memory until the file is completed: the disk is full only then.
            for _ in 0..1000 {
                assert!(write(&mut output, 1000).is_empty());
            }
            // It belongs to the next file.
            let events = write(&mut output, 3600);
            assert!(
                matches!(events[..], [Event::Discarded { packets: 1001, .. }]),
                "{events:?}"
            );
            // For a second, nothing is tried.
            assert!(write(&mut output, 3600).is_empty());
            assert_eq!(output.discarded, 1002);
            // The same at the end.
            for _ in 0..1000 {
                write(&mut output, 3700);
            }
            let mut events = Vec::new();
            output.end(&mut |event| events.push(event)).unwrap();
            assert!(
                matches!(events[..], [Event::Discarded { packets: 1000, .. }]),
                "{events:?}"
            );
            let lost = &output.counters.discarded;
            assert_eq!(lost.load(Ordering::Relaxed), 2002);
        });
    }

    #[test]
    fn a_disk_without_room_for_names_costs_the_oldest_file() {
        let test = "a_disk_without_room_for_names_costs_the_oldest_file";
        // The disk itself, the lock, and two files.
        on_a_disk(test, "nr_inodes=4", |disk| {
            let mut output = output(disk);
            let mut events = Vec::new();
            for hour in 0..4 {
                events.extend(write(&mut output, 3600 * hour));
            }
            let removed: usize = events
                .iter()
                .map(|event| match event {
                    Event::Removed(files) => files.len(),
                    Event::Closed(_) => 0,
                    other => panic!("{other:?}"),
                })
                .sum();
            assert_eq!(removed, 2);
            let files = output.complete().unwrap();
            assert!(files[0].to_string_lossy().contains("T020000"), "{files:?}");
        });
    }

    #[test]
    fn a_clock_that_is_set_back_ends_a_file_and_the_time_without_writing() {
        let root = tempfile::tempdir().unwrap();
        let mut output = output(root.path());
        for seconds in [100_000, 99_991] {
            assert!(write(&mut output, seconds).is_empty());
        }
        let events = write(&mut output, 99_000);
        assert!(
            matches!(&events[..], [Event::Closed(closed)] if closed.packets == 2),
            "{events:?}"
        );
        // Packets that wait elsewhere may come from before.
        output.full_at = Some(100_000 * SECOND);
        for (seconds, expected) in [(99_995, true), (100_000, true), (100_001, false)] {
            assert_eq!(output.is_full(seconds * SECOND), expected, "{seconds}");
        }
        assert!(!output.is_full(99_000 * SECOND));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_put_off_what_was_chosen() {
        let root = tempfile::tempdir().unwrap();
        let mut output = output(root.path());
        let now = files::now() / SECOND;
        write(&mut output, now);
        // Chosen by a clock that was an hour ahead.
        let mut choice = output.options.choice.clone();
        choice.fraction = choice.fraction.halved();
        let ahead = (now + 3600) * SECOND;
        output.choices.push(ahead, choice.clone());
        let mut events = Vec::new();
        output.rest(&mut |event| events.push(event)).unwrap();
        events.extend(write(&mut output, now + 2));
        assert!(matches!(&events[..], [Event::Closed(_)]), "{events:?}");
        assert_eq!(output.choices.at((now + 2) * SECOND).1, choice);
    }
}
