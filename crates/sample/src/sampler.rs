//! From the ring to files, with less of it if there is too much.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::choice::Choice;
use crate::counters::Counters;
use crate::error::SampleError;
use crate::feed::{Consumer, Feed};
use crate::files::{self, Origin};
use crate::fraction::Fraction;
use crate::key::Key;
use crate::load::{Fill, Load};
use crate::options::{Event, Options};
use crate::output::Output;
use crate::packet::Packet;
use crate::source::Source;

/// How long the kernel may need to hand over the last packets, at the end.
const LAST: Duration = Duration::from_millis(300);

/// A sampler. It needs no rights but those of its files.
pub struct Sampler {
    source: Source,
    target: Target,
    /// The interface's name.
    interface: String,
    /// Where the key is read again.
    key_file: Option<PathBuf>,
    /// What the filter chooses now.
    choice: Choice,
    load: Load,
}

/// Where packets go.
enum Target {
    Files(Box<Output>),
    Feed(Feed),
}

impl Target {
    fn counters(&self) -> &Arc<Counters> {
        match self {
            Self::Files(output) => output.counters(),
            Self::Feed(feed) => feed.counters(),
        }
    }

    fn count(&mut self, accepted: u32, dropped: u32) {
        match self {
            Self::Files(output) => output.count(accepted, dropped),
            Self::Feed(feed) => feed.count(dropped),
        }
    }

    fn choose(&mut self, choice: Choice) {
        match self {
            Self::Files(output) => output.choose(choice),
            Self::Feed(feed) => feed.choose(choice),
        }
    }

    fn write(
        &mut self,
        packet: &Packet<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        match self {
            Self::Files(output) => output.write(packet, report),
            Self::Feed(feed) => feed.write(packet),
        }
    }

    fn rest(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        match self {
            Self::Files(output) => output.rest(report),
            Self::Feed(feed) => feed.rest(),
        }
    }

    fn end(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        match self {
            Self::Files(output) => output.end(report),
            Self::Feed(feed) => feed.rest(),
        }
    }
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
        let output = Output::new(options.clone(), origin)?;
        Ok(Self::with(source, options, Target::Files(Box::new(output))))
    }

    /// A sampler that hands on what arrives from the source, and writes no files. It adds to the counters.
    pub fn feeding(
        source: Source,
        options: Options,
        consumer: Box<dyn Consumer>,
        counters: Arc<Counters>,
    ) -> Self {
        let feed = Feed::new(&source, &options, consumer, counters);
        Self::with(source, options, Target::Feed(feed))
    }

    fn with(source: Source, options: Options, target: Target) -> Self {
        Self {
            source,
            target,
            interface: options.interface,
            key_file: options.key_file,
            load: Load::new(options.choice.fraction, files::now()),
            choice: options.choice,
        }
    }

    /// Counts since it began.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.target.counters())
    }

    /// Its complete files, the oldest first, also those of earlier processes.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, SampleError> {
        match &self.target {
            Target::Files(output) => output.complete(),
            Target::Feed(_) => Ok(Vec::new()),
        }
    }

    /// Samples until it is asked to stop, and completes the last file then.
    ///
    /// # Errors
    /// A file cannot be written for another reason than a full disk, or the interface is gone. The last file is completed
    /// then too, if it can be written.
    pub fn run(
        &mut self,
        requests: &Requests,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        self.sample(requests, report).inspect_err(|_| {
            // The first error is the reason. What was handed over before the interface went is kept.
            let _ = self.take(report);
            let _ = self.target.end(report);
        })
    }

    fn sample(
        &mut self,
        requests: &Requests,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        while !requests.stop.load(Ordering::Relaxed) {
            self.source.tap.wait(&self.interface)?;
            self.take(report)?;
            self.target.rest(report)?;
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
        self.target.end(report)
    }

    /// Takes the packets that the kernel handed over.
    fn take(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        self.weigh(report)?;
        // At most one round, so that requests are looked at even if packets come faster than they are written.
        let mut left = self.source.tap.fill().whole;
        while left > 0 {
            let target = &mut self.target;
            let took = self
                .source
                .tap
                .take(|packet| target.write(packet, report))?;
            if took == 0 {
                break;
            }
            left = left.saturating_sub(took);
            self.weigh(report)?;
        }
        Ok(())
    }

    /// Lowers the share if the ring is filling or packets were lost, or raises it again.
    fn weigh(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        let (accepted, lost) = self.source.tap.counts()?;
        self.target.count(accepted, lost);
        let fill = Fill {
            lost: lost.into(),
            ..self.source.tap.fill()
        };
        let before = self.choice.fraction;
        if let Some(now) = self.load.change(before, fill, files::now()) {
            self.choice.fraction = now;
            if now < before {
                Counters::add(&self.target.counters().lowered, 1);
            }
            self.choose();
            report(Event::Share { before, now });
        }
        Ok(())
    }

    /// Puts the choice in force, first in the kernel: packets of a later time are chosen by it.
    fn choose(&mut self) {
        self.source.filter.choose(&self.choice);
        self.target.choose(self.choice.clone());
    }

    /// Reads the key again, and begins another file.
    fn reload(&mut self, report: &mut dyn FnMut(Event)) {
        let read = self.key_file.as_deref().map(Key::read);
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
