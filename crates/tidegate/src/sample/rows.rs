//! `tidegate sample --rows`: sampled packets are analysed at once, and their rows added to a dataset, period by period.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use tidegate_dataset::{Dataset, Error, Networks, Shares};
use tidegate_sample::{Consumer, Counters, Fraction, Refused, was_set_back};
use tidegate_story::remarks::problems;
use tidegate_trace::flow::Settings;
use tidegate_trace::read::{Clients, Frame, LinkType, Nanos, PassedOver};
use tidegate_trace::{Analysis, Options};

use crate::cli::Chosen;
use crate::cli::sample::Sample;
use crate::dataset::{self, Segments};
use crate::units::plural;

/// Frames are handed on when together they have so many bytes.
const BATCH: usize = 1 << 16;
/// Batches that may wait: with the ring, they bridge the time in which rows are judged and written.
const AHEAD: usize = 256;
/// A period ends this long after its time, so that packets in the ring are still in it.
const LATE: Nanos = 1_000_000_000;

/// Collects frames for the writer.
struct Feeder {
    batch: Batch,
    writer: SyncSender<Message>,
}

/// The thread that analyses, and writes rows.
pub struct Writer(JoinHandle<anyhow::Result<u64>>);

enum Message {
    Frames(Batch),
    Share(Nanos, f64),
    Dropped(u64),
    Time(Nanos),
}

/// Frames one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Each frame's time, link layer, length here, length on the wire, and direction.
    frames: Vec<(Nanos, LinkType, u32, u32, Option<bool>)>,
}

/// Opens the dataset, and starts the thread that writes to it.
pub fn start(
    options: &Sample,
    root: &Path,
    sampler: &tidegate_sample::Options,
    quiet: bool,
    counters: &Arc<Counters>,
) -> anyhow::Result<(impl Consumer + use<>, Writer)> {
    let work = work(options, root, sampler, quiet, counters)?;
    let (writer, messages) = sync_channel(AHEAD);
    let thread = thread::Builder::new()
        .name("rows".to_owned())
        .spawn(move || work.run(&messages))
        .context("cannot start the thread that writes rows")?;
    let batch = Batch::default();
    Ok((Feeder { batch, writer }, Writer(thread)))
}

fn work(
    options: &Sample,
    root: &Path,
    sampler: &tidegate_sample::Options,
    quiet: bool,
    counters: &Arc<Counters>,
) -> anyhow::Result<Work> {
    let detector = options.analysis.detector()?;
    // A table that cannot be read must not leave an empty dataset behind.
    let networks = dataset::networks(&options.asn)?;
    Ok(Work {
        dataset: dataset::open(root, &options.analysis, &detector, &[])?,
        networks,
        flows: options.analysis.settings(),
        detector,
        clients: sampler.told_apart(),
        keep: sampler.keep,
        source: format!("{}-{}", sampler.host, sampler.interface),
        every: u64::try_from(options.every.as_nanos()).unwrap_or(u64::MAX),
        quiet,
        counters: Arc::clone(counters),
    })
}

impl Writer {
    /// Waits until all rows are written, or could not be written. Returns how many periods lost their rows.
    pub fn end(self) -> anyhow::Result<u64> {
        let ended = self.0.join();
        ended.unwrap_or_else(|_| Err(anyhow!("the thread that writes rows panicked")))
    }
}

impl Feeder {
    fn send(&self, message: Message) -> Result<(), Refused> {
        let sent = self.writer.send(message);
        sent.map_err(|_| "the thread that writes rows has ended".into())
    }

    fn hand_on(&mut self) -> Result<(), Refused> {
        let batch = std::mem::take(&mut self.batch);
        match batch.frames.is_empty() {
            true => Ok(()),
            false => self.send(Message::Frames(batch)),
        }
    }
}

impl Consumer for Feeder {
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Refused> {
        let Batch { bytes, frames } = &mut self.batch;
        bytes.extend_from_slice(frame.data);
        // The sampler keeps headers alone: their length fits.
        frames.push((
            frame.at,
            frame.link,
            frame.data.len() as u32,
            frame.wire_len,
            frame.outbound,
        ));
        match bytes.len() >= BATCH {
            true => self.hand_on(),
            false => Ok(()),
        }
    }

    fn share(&mut self, from: Nanos, share: Fraction) -> Result<(), Refused> {
        self.hand_on()?;
        self.send(Message::Share(from, share.get()))
    }

    fn dropped(&mut self, packets: u64) -> Result<(), Refused> {
        self.hand_on()?;
        self.send(Message::Dropped(packets))
    }

    fn rest(&mut self, now: Nanos) -> Result<(), Refused> {
        self.hand_on()?;
        self.send(Message::Time(now))
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let _ = self.hand_on();
    }
}

/// What the thread works with.
struct Work {
    dataset: Dataset,
    networks: Networks,
    detector: Chosen,
    flows: Settings,
    clients: Clients,
    /// Most bytes of all rows of samplers.
    keep: Option<u64>,
    /// The host and the interface.
    source: String,
    every: Nanos,
    quiet: bool,
    counters: Arc<Counters>,
}

impl Work {
    fn run(self, messages: &Receiver<Message>) -> anyhow::Result<u64> {
        let mut live = self.live();
        for message in messages {
            match message {
                Message::Frames(batch) => {
                    let mut rest = &batch.bytes[..];
                    for (at, link, kept, wire_len, outbound) in batch.frames {
                        let data;
                        (data, rest) = rest.split_at(kept as usize);
                        live.frame(&Frame {
                            at,
                            link,
                            data,
                            wire_len,
                            outbound,
                        })?;
                    }
                }
                Message::Share(from, share) => live.segments.shares.change(from, share),
                Message::Dropped(packets) => live.dropped += packets,
                Message::Time(now) => live.time(now)?,
            }
        }
        live.end()
    }

    fn live(&self) -> Live<'_> {
        let mut live = Live {
            dataset: &self.dataset,
            segments: Segments {
                networks: &self.networks,
                detector: self.detector.name(),
                ports: &[],
                file: Arc::from(""),
                start: 0,
                draft: None,
                shares: Shares::new(1.0),
                believes: false,
                pseudonyms: false,
                error: None,
            },
            analysis: Analysis::new(Options {
                flows: self.flows,
                detector: Some(self.detector.make()),
                cancel: None,
            }),
            period: None,
            number: 0,
            dropped: 0,
            before: Counts::default(),
            source: &self.source,
            every: self.every,
            keep: self.keep,
            quiet: self.quiet,
            counters: &self.counters,
        };
        live.analysis.clients(self.clients, &mut live.segments);
        live
    }
}

/// The analysis of all periods, and the rows of the present one.
struct Live<'a> {
    dataset: &'a Dataset,
    segments: Segments<'a>,
    analysis: Analysis,
    /// From what began the present period to its end. There is none before the first packet.
    period: Option<Range<Nanos>>,
    /// The number of the period since the sampler began.
    number: u64,
    /// Packets that the kernel dropped in the period.
    dropped: u64,
    /// The analysis' counts when the period began.
    before: Counts,
    source: &'a str,
    every: Nanos,
    keep: Option<u64>,
    quiet: bool,
    counters: &'a Counters,
}

/// What is counted of a period.
#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    flows: u64,
}

impl Live<'_> {
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        match &self.period {
            None => {
                // One name for all periods: a flow that goes on keeps its number.
                let time = UNIX_EPOCH + Duration::from_nanos(frame.at);
                let time = humantime::format_rfc3339_nanos(time);
                self.segments.file = format!("{}-{time}", self.source).into();
                self.begin(frame.at)?;
            }
            Some(period) if is_over(period, frame.at) => {
                self.close()?;
                self.begin(frame.at)?;
            }
            Some(_) => {}
        }
        self.analysis.frame(frame, &mut self.segments);
        Ok(())
    }

    /// Ends flows and a period whose time is over, if no packet did.
    fn time(&mut self, now: Nanos) -> Result<(), Error> {
        let Some(period) = self.period.clone() else {
            return Ok(());
        };
        let past = now.saturating_sub(LATE);
        self.analysis.time(past, &mut self.segments);
        if is_over(&period, past) {
            self.close()?;
            self.begin(now)?;
        }
        Ok(())
    }

    fn begin(&mut self, at: Nanos) -> Result<(), Error> {
        let every = self.every.max(1);
        self.period = Some(at..(at / every).saturating_add(1).saturating_mul(every));
        self.number += 1;
        let name = format!("{}, period {}", self.segments.file, self.number);
        self.segments.draft = match self.dataset.live(&name) {
            Err(error) if passes(&error) => {
                self.segments.error = Some(error);
                None
            }
            other => Some(other?),
        };
        Ok(())
    }

    /// Judges the transfers that are done, and adds the rows of the period to the dataset. Flows go on.
    fn close(&mut self) -> Result<(), Error> {
        self.analysis.judge(&mut self.segments);
        self.commit()
    }

    /// The same with all that is left. Flows that are not over are judged by what came of them.
    fn end(mut self) -> anyhow::Result<u64> {
        if self.period.is_some() {
            self.analysis.finish(&mut self.segments);
            self.commit()?;
        }
        self.dataset.place()?;
        Ok(self.counters.lost_periods.load(Ordering::Relaxed))
    }

    fn commit(&mut self) -> Result<(), Error> {
        let counters = self.analysis.counters();
        let now = Counts {
            packets: counters.frames,
            flows: counters.flows,
        };
        let draft = self.segments.draft.take();
        let rows = draft.as_ref().map_or(0, |draft| draft.rows());
        let error = match (self.segments.error.take(), draft) {
            (None, Some(draft)) if rows > 0 => {
                let passed_over = PassedOver {
                    dropped_by_capture: self.dropped,
                    ..PassedOver::default()
                };
                let committed = draft.commit(tidegate_dataset::Report {
                    packets: now.packets - self.before.packets,
                    flows: now.flows - self.before.flows,
                    problems: problems(&passed_over, None),
                    given: None,
                });
                committed.err()
            }
            // Without rows there is nothing to add: packets are counted with the next period's.
            (None, _) => return Ok(()),
            (error, _) => error,
        };
        match error {
            None | Some(Error::Unplaced(_)) => {
                if let Some(error) = error {
                    eprintln!("tidegate: {error}");
                }
                self.counters.files.fetch_add(1, Ordering::Relaxed);
                self.counters.rows.fetch_add(rows, Ordering::Relaxed);
                if !self.quiet {
                    // Rows of transfers that were done now: their packets may have come in earlier periods.
                    eprintln!(
                        "tidegate: {} added; {} came meanwhile, and the kernel dropped {}",
                        plural(rows, "row", "rows"),
                        plural(now.packets - self.before.packets, "packet", "packets"),
                        self.dropped
                    );
                }
            }
            Some(error) if passes(&error) => {
                self.counters.lost_periods.fetch_add(1, Ordering::Relaxed);
                eprintln!("tidegate: the rows of this period are lost: {error}");
            }
            Some(error) => return Err(error),
        }
        (self.before, self.dropped) = (now, 0);
        self.make_room()
    }

    /// Removes the rows of the oldest periods, where they are more than asked for.
    fn make_room(&self) -> Result<(), Error> {
        let Some(keep) = self.keep else { return Ok(()) };
        let removed = self.dataset.keep(keep)?;
        self.counters.removed.fetch_add(removed, Ordering::Relaxed);
        if removed > 0 && !self.quiet {
            let periods = plural(removed, "period", "periods");
            eprintln!("tidegate: removed the rows of {periods} to make room");
        }
        Ok(())
    }
}

/// Whether a period is over at this time, or the clock was set back, so that its end may not come for long.
fn is_over(period: &Range<Nanos>, at: Nanos) -> bool {
    at >= period.end || was_set_back(period.start, at)
}

/// Whether the next period may succeed after this error: the disk is full, or the times of packets cannot be right.
fn passes(error: &Error) -> bool {
    use ErrorKind::{QuotaExceeded, StorageFull};
    match error {
        Error::Times(_) => true,
        Error::Io { source, .. } => matches!(source.kind(), QuotaExceeded | StorageFull),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
