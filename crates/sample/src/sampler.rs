//! From the ring to files, with less of it if there is too much.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::choice::Choice;
use crate::counters::Counters;
use crate::error::SampleError;
use crate::files::{self, Origin};
use crate::fraction::Fraction;
use crate::key::Key;
use crate::load::{Fill, Load};
use crate::options::{Event, Options};
use crate::output::Output;
use crate::packet;
use crate::source::Source;

/// How long to wait for packets before flags and times are looked at.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// How long the kernel may need to hand over the last packets, at the end.
const LAST: Duration = Duration::from_millis(300);

/// A sampler. It needs no rights but those of its files.
pub struct Sampler {
    source: Source,
    /// The block that the kernel hands over next.
    next: usize,
    output: Output,
    /// What the filter chooses now.
    choice: Choice,
    load: Load,
}

/// What other threads, or signals, ask of a sampler.
#[derive(Debug, Default)]
pub struct Requests {
    /// To end.
    pub stop: Arc<AtomicBool>,
    /// To read the key again, and begin another file.
    pub reload: Arc<AtomicBool>,
}

impl Sampler {
    /// A sampler that writes what arrives from the source.
    ///
    /// # Errors
    /// The folder cannot be written, or another sampler writes to it.
    pub fn new(source: Source, options: Options) -> Result<Self, SampleError> {
        let origin = Origin {
            host: options.host.clone(),
            interface: options.interface.clone(),
            link: source.link,
        };
        let choice = options.choice.clone();
        Ok(Self {
            source,
            next: 0,
            output: Output::new(options, origin)?,
            load: Load::new(choice.fraction, files::now()),
            choice,
        })
    }

    /// Counts since it began.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.output.counters())
    }

    /// Its complete files, the oldest first, also those of earlier processes.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, SampleError> {
        self.output.complete()
    }

    /// Samples until it is asked to stop, and completes the last file then.
    ///
    /// # Errors
    /// A file cannot be written for another reason than a full disk, or the interface is gone.
    pub fn run(
        &mut self,
        requests: &Requests,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        while !requests.stop.load(Ordering::Relaxed) {
            self.wait()?;
            self.take(report)?;
            self.output.rest(report)?;
            if requests.reload.swap(false, Ordering::Relaxed) {
                self.reload(report);
            }
        }
        // No more packets are accepted, and those that were are handed over when the timer of their block ends.
        let mut none = self.choice.clone();
        none.fraction = Fraction::NOTHING;
        self.source.filter.choose(&none);
        std::thread::sleep(LAST);
        self.take(report)?;
        self.output.end(report)
    }

    /// Waits a moment for packets.
    fn wait(&self) -> Result<(), SampleError> {
        let socket = &self.source.socket;
        let mut ready = [PollFd::new(socket, PollFlags::IN | PollFlags::ERR)];
        match poll(&mut ready, Some(&WAIT)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(SampleError::system("wait for packets")(error.into())),
        }
        if ready[0].revents().contains(PollFlags::ERR) {
            let what = format!("the interface {}", self.output.options().interface);
            let error = socket.error().map_err(SampleError::system(&*what))?;
            return error.map_or(Ok(()), |error| Err(SampleError::system(what)(error)));
        }
        Ok(())
    }

    /// Takes the packets that the kernel handed over.
    fn take(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        self.weigh(report)?;
        // At most one round, so that requests are looked at even if packets come faster than they are written.
        for _ in 0..self.source.ring.blocks() {
            let Some(block) = self.source.ring.block(self.next) else {
                break;
            };
            for packet in packet::packets(block, self.source.mtu) {
                self.output.write(&packet, report)?;
            }
            self.source.ring.give_back(self.next);
            self.next = (self.next + 1) % self.source.ring.blocks();
            self.weigh(report)?;
        }
        Ok(())
    }

    /// Lowers the share if the ring is filling or packets were lost, or raises it again.
    fn weigh(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        let Source { socket, ring, .. } = &self.source;
        let counts = socket.counts();
        let (accepted, lost) = counts.map_err(SampleError::system("read the kernel's counts"))?;
        self.output.count(accepted, lost);
        let blocks = ring.blocks();
        let fill = Fill {
            waiting: (0..blocks).filter(|block| ring.is_ready(*block)).count(),
            blocks,
            lost: lost.into(),
        };
        let before = self.choice.fraction;
        if let Some(now) = self.load.change(before, fill, files::now()) {
            self.choice.fraction = now;
            if now < before {
                Counters::add(&self.output.counters().lowered, 1);
            }
            self.choose();
            report(Event::Share { before, now });
        }
        Ok(())
    }

    /// Puts the choice in force, first in the kernel: packets of a later time are chosen by it.
    fn choose(&mut self) {
        self.source.filter.choose(&self.choice);
        self.output.choose(self.choice.clone());
    }

    /// Reads the key again, and begins another file.
    fn reload(&mut self, report: &mut dyn FnMut(Event)) {
        let read = self.output.options().key_file.as_deref().map(Key::read);
        let event = read.map(|read| match read {
            Ok(key) => {
                self.choice.key = key.clone();
                Event::Key(key.name())
            }
            Err(error) => Event::KeyKept(error),
        });
        self.choose();
        // Once it is in force: packets that come from now on are chosen and hidden by it.
        if let Some(event) = event {
            report(event);
        }
    }
}
