//! The way from a capture to verdicts.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::annotate::{Metrics, Transfer, TransferId, TransferSummary};
use crate::detect::{Cause, DETECTORS, Detector, Judgement, Verdicts};
use crate::flow::{Counters, FlowSink, FlowSummary, FlowTable, Settings};
use crate::read::{Capture, Clients, Frame, Nanos, PassedOver, ReadError, Sampled};

#[cfg(test)]
mod tests;

/// Frames between two checks whether the analysis is cancelled.
const STRIDE: usize = 4096;

/// Receives what an analysis finds. Every method may be left out.
pub trait Sink {
    /// The first frame was captured at this time.
    fn begin(&mut self, at: Nanos) {
        let _ = at;
    }

    /// Frames from this time on are of a sampler, as the capture's header says; `None`: it no longer
    /// says so. Comes behind the first frame that it is true for, and again when it changes.
    fn sampled(&mut self, from: Nanos, said: Option<&Sampled>) {
        let _ = (from, said);
    }

    /// A transfer is done: all that one endpoint sent in one segment, packet by packet.
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        let _ = (transfer, metrics);
    }

    /// What limited a transfer. Comes once for each transfer, behind it: at once, or later where
    /// the detector waits for more of the connection or the client.
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let _ = (transfer, judgement);
    }

    /// A flow is over; its transfers and the verdicts on them came before.
    fn flow(&mut self, summary: FlowSummary) {
        let _ = summary;
    }
}

/// How to analyse.
pub struct Options {
    /// Bounds on what is kept, and where segments end.
    pub flows: Settings,
    /// What judges the transfers; `None`: they are measured, and there are no verdicts.
    pub detector: Option<Box<dyn Detector>>,
    /// Ends the analysis soon after it becomes true, as if the capture ended there.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    /// The default bounds and the default detector.
    fn default() -> Self {
        Self {
            detector: Some(DETECTORS[0].whole()),
            ..Self::measuring(Settings::default())
        }
    }
}

impl Options {
    /// Without a detector.
    pub fn measuring(flows: Settings) -> Self {
        Self {
            flows,
            detector: None,
            cancel: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("flows", &self.flows)
            .field("detector", &self.detector.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// How reading a capture went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What became of the frames.
    pub counters: Counters,
    /// What the reader left out.
    pub passed_over: PassedOver,
    /// Why the capture could not be read, or not to its end. What came before is valid.
    pub error: Option<ReadError>,
    /// The number of the piece that the error is in, from 0, of a capture in pieces.
    pub piece: usize,
    /// Whether the analysis was cancelled.
    pub cancelled: bool,
}

impl Outcome {
    /// The outcome, if the capture was read to its end.
    ///
    /// # Errors
    /// Why it was not.
    pub fn whole(self) -> Result<Self, ReadError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// Reads a capture through, to its end, to what is wrong with it, or until it is cancelled, and
/// hands what is in it to a sink.
///
/// ```
/// use tidegate_trace::annotate::TransferSummary;
/// use tidegate_trace::detect::Judgement;
/// use tidegate_trace::{Options, Sink, analyse};
///
/// /// Collects a line for each transfer.
/// #[derive(Default)]
/// struct Lines(Vec<String>);
///
/// impl Sink for Lines {
///     fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
///         let (from, to) = (transfer.sender, transfer.receiver);
///         self.0.push(format!("{from} to {to}: {} ({})", judgement.cause, judgement.reason));
///     }
/// }
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
/// let mut lines = Lines::default();
/// let outcome = analyse(std::fs::File::open(path)?, Options::default(), &mut lines).whole()?;
/// println!("{} flows, {} packets", outcome.counters.flows, outcome.counters.frames);
/// assert!(lines.0.iter().any(|line| line.contains("policer")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the capture may have been read in part only"]
pub fn analyse(
    capture: impl Read + Send + 'static,
    options: Options,
    sink: &mut (impl Sink + ?Sized),
) -> Outcome {
    analyse_pieces([capture], options, sink)
}

/// As [`analyse`], for a capture in pieces, such as `tcpdump -G` and `-C` write: a flow may begin in one
/// and end in another. They are taken in the order in which they come. The rest of a piece that is
/// damaged is left out.
#[must_use = "the capture may have been read in part only"]
pub fn analyse_pieces<R: Read + Send + 'static>(
    pieces: impl IntoIterator<Item = R>,
    options: Options,
    sink: &mut (impl Sink + ?Sized),
) -> Outcome {
    let mut analysis = Analysis::new(options);
    let mut outcome = Outcome::default();
    for (number, piece) in pieces.into_iter().enumerate() {
        if analysis.is_cancelled() {
            break;
        }
        let read = Capture::new(piece)
            .and_then(|capture| analysis.capture(capture, &mut outcome.passed_over, sink));
        // What comes first, unless the pieces do not belong together.
        if let Err(error) = read
            && (outcome.error.is_none() || error.reason.is_mixed())
        {
            (outcome.error, outcome.piece) = (Some(error), number);
        }
    }
    outcome.cancelled = analysis.is_cancelled();
    if outcome.cancelled {
        // A reader may end with an error because it was cancelled: the capture is not at fault.
        outcome.error = None;
    }
    outcome.counters = analysis.finish(sink);
    outcome
}

/// The analysis of frames that do not come from one capture: from several, filtered, or live.
/// [`analyse`] is simpler where they do.
pub struct Analysis {
    table: FlowTable,
    judge: Judge,
    cancel: Option<Arc<AtomicBool>>,
    /// What the capture says of its sampler.
    sampled: Option<Sampled>,
}

impl Analysis {
    /// An analysis that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            table: FlowTable::new(options.flows),
            judge: Judge::new(options.detector),
            cancel: options.cancel,
            sampled: None,
        }
    }

    /// The flow table: its active flows, and how much it keeps.
    pub fn flow_table(&self) -> &FlowTable {
        &self.table
    }

    /// Whether [`Options::cancel`] asks to end.
    pub fn is_cancelled(&self) -> bool {
        let cancel = self.cancel.as_ref();
        cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Takes the next frame.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, sink: &mut (impl Sink + ?Sized)) {
        if self.table.counters().frames == 0 {
            sink.begin(frame.at);
        }
        let mut judged = Judged {
            judge: &mut self.judge,
            sink,
        };
        self.table.frame(frame, &mut judged);
    }

    /// Takes the frames of a capture, to its end or until the analysis is cancelled.
    fn capture(
        &mut self,
        mut capture: Capture,
        passed_over: &mut PassedOver,
        sink: &mut (impl Sink + ?Sized),
    ) -> Result<(), ReadError> {
        capture.goes_on(self.sampled.clone());
        let end = 'frames: loop {
            if self.is_cancelled() {
                break Ok(());
            }
            for _ in 0..STRIDE {
                match capture.frame() {
                    Ok(Some(frame)) => {
                        let at = frame.at;
                        self.frame(&frame, sink);
                        self.said(at, capture.sampled(), sink);
                    }
                    Ok(None) => break 'frames Ok(()),
                    Err(error) => break 'frames Err(error),
                }
            }
        };
        passed_over.add(capture.passed_over());
        end
    }

    /// What a capture says of its sampler, after a frame of this time. [`analyse`] does this.
    pub fn said(&mut self, from: Nanos, said: Option<&Sampled>, sink: &mut (impl Sink + ?Sized)) {
        if said != self.sampled.as_ref() {
            self.sampled(from, said, sink);
        }
    }

    /// Frames from this time on are of a sampler, or of none.
    #[cold]
    fn sampled(&mut self, from: Nanos, said: Option<&Sampled>, sink: &mut (impl Sink + ?Sized)) {
        self.clients(
            said.map_or_else(Clients::default, |said| said.clients),
            sink,
        );
        self.sampled = said.cloned();
        sink.sampled(from, said);
    }

    /// Which addresses are one client, of flows that end from now on. Unless a capture says it, each is one. [`analyse`] does
    /// this.
    pub fn clients(&mut self, clients: Clients, sink: &mut (impl Sink + ?Sized)) {
        self.judge.clients(clients, sink);
    }

    /// It is this time, and later frames are not older: ends the flows that are over. For live traffic, which may pause.
    pub fn time(&mut self, now: Nanos, sink: &mut (impl Sink + ?Sized)) {
        let mut judged = Judged {
            judge: &mut self.judge,
            sink,
        };
        self.table.time(now, &mut judged);
    }

    /// Judges all transfers that are done, by what is known so far. Flows go on. For traffic without an end, whose verdicts
    /// must not wait for it.
    pub fn judge(&mut self, sink: &mut (impl Sink + ?Sized)) {
        self.judge.finish(sink);
    }

    /// What became of the frames so far.
    pub fn counters(&self) -> &Counters {
        self.table.counters()
    }

    /// There are no more frames: hands on all that is left, and returns what became of the frames.
    pub fn finish(&mut self, sink: &mut (impl Sink + ?Sized)) -> Counters {
        let mut judged = Judged {
            judge: &mut self.judge,
            sink,
        };
        self.table.finish(&mut judged);
        self.judge.finish(sink);
        *self.table.counters()
    }
}

/// The detector, and what waits for its verdicts.
struct Judge {
    detector: Option<Box<dyn Detector>>,
    verdicts: Verdicts,
    transfers: HashMap<TransferId, TransferSummary>,
    /// Flows with transfers that wait, by number.
    flows: BTreeMap<u64, Waiting>,
}

/// A flow with transfers that wait for their verdicts.
#[derive(Default)]
struct Waiting {
    transfers: u64,
    /// The flow's end, once it came.
    summary: Option<FlowSummary>,
}

impl Judge {
    fn new(detector: Option<Box<dyn Detector>>) -> Self {
        Self {
            detector,
            verdicts: Verdicts::default(),
            transfers: HashMap::new(),
            flows: BTreeMap::new(),
        }
    }

    fn clients(&mut self, clients: Clients, sink: &mut (impl Sink + ?Sized)) {
        if let Some(detector) = &mut self.detector {
            detector.clients(clients, &mut self.verdicts);
            self.hand_on(&mut None, sink);
        }
    }

    fn transfer(
        &mut self,
        transfer: &Transfer<'_>,
        metrics: &Metrics,
        sink: &mut (impl Sink + ?Sized),
    ) {
        let Some(detector) = &mut self.detector else {
            return;
        };
        detector.transfer(transfer, metrics, &mut self.verdicts);
        let mut present = Some(TransferSummary::new(transfer, metrics));
        self.hand_on(&mut present, sink);
        if let Some(waits) = present {
            self.transfers.insert(waits.id, waits);
            self.flows.entry(waits.id.flow).or_default().transfers += 1;
        }
    }

    fn flow(&mut self, summary: FlowSummary, sink: &mut (impl Sink + ?Sized)) {
        if let Some(detector) = &mut self.detector {
            detector.flow(&summary, &mut self.verdicts);
            self.hand_on(&mut None, sink);
        }
        match self.flows.get_mut(&summary.info.number) {
            Some(waiting) => waiting.summary = Some(summary),
            None => sink.flow(summary),
        }
    }

    fn finish(&mut self, sink: &mut (impl Sink + ?Sized)) {
        if let Some(detector) = &mut self.detector {
            detector.finish(&mut self.verdicts);
            self.hand_on(&mut None, sink);
        }
        let mut left: Vec<TransferId> = self.transfers.keys().copied().collect();
        left.sort_unstable();
        for id in left {
            let judgement = Judgement::new(Cause::Unclear, "not judged");
            self.verdicts.give(id, judgement);
        }
        self.hand_on(&mut None, sink);
    }

    /// Hands the verdicts to the sink, and the flows that waited for them. Most verdicts are on the present transfer: it is taken.
    fn hand_on(&mut self, present: &mut Option<TransferSummary>, sink: &mut (impl Sink + ?Sized)) {
        for (id, judgement) in self.verdicts.take() {
            if let Some(summary) = present.take_if(|summary| summary.id == id) {
                sink.verdict(&summary, judgement);
                continue;
            }
            // A second verdict on a transfer finds nothing.
            let Some(summary) = self.transfers.remove(&id) else {
                continue;
            };
            sink.verdict(&summary, judgement);
            let Some(waiting) = self.flows.get_mut(&id.flow) else {
                continue;
            };
            waiting.transfers -= 1;
            if waiting.transfers == 0
                && let Some(waiting) = self.flows.remove(&id.flow)
                && let Some(summary) = waiting.summary
            {
                sink.flow(summary);
            }
        }
    }
}

/// A sink behind a judge.
struct Judged<'a, S: ?Sized> {
    judge: &'a mut Judge,
    sink: &'a mut S,
}

impl<S: Sink + ?Sized> FlowSink for Judged<'_, S> {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        self.sink.transfer(transfer, metrics);
        self.judge.transfer(transfer, metrics, self.sink);
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.judge.flow(summary, self.sink);
    }
}
