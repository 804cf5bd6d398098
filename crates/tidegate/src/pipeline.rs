//! Captures to rows: several at a time, in the order in which they were named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_trace::annotate::{FlowInfo, Metrics, Transfer, TransferSummary};
use tidegate_trace::detect::Judgement;
use tidegate_trace::flow::{Counters, FlowSummary};
use tidegate_trace::read::{Nanos, PassedOver};
use tidegate_trace::rows::{ClientRow, ClientRows, FlowRow, FlowRows, PacketRow, SegmentRow};
use tidegate_trace::{Options, Outcome, Sink, analyse_pieces};

use crate::cli::{Analysis, By, Chosen};
use crate::input::Input;
use crate::signals;
use crate::transfers::Transfers;

/// Rows in a batch. Batches are sorted: this is enough to show a usual capture in the order of its
/// flows, and takes little memory.
const BATCH: usize = 8192;
/// Batches that a capture may be ahead of the one being written.
const AHEAD: usize = 2;
/// Fewer bytes than this, even compressed, are read faster than a person could look at a bar.
const WORTH_A_BAR: u64 = 4 << 20;
/// Rows of a live capture are handed on when they are this old.
const MAX_AGE: Duration = Duration::from_secs(1);

/// What comes out of a capture.
pub enum Event {
    Segments(Vec<SegmentRow>),
    Flows(Vec<FlowRow>),
    Clients(Vec<ClientRow>),
    Packets(Vec<PacketRow>),
    Done(Box<Report>),
}

/// How the reading of a capture went.
#[derive(Debug, Default)]
pub struct Report {
    pub name: Arc<str>,
    pub counters: Counters,
    /// The flows that were wanted, …
    pub flows: u64,
    /// … and their segments with data.
    pub segments: u64,
    /// What was found of their transfers.
    pub transfers: Transfers,
    /// Whether reading began, before an interruption.
    pub begun: bool,
    pub passed_over: PassedOver,
    /// Why it could not be read, or not to its end.
    pub error: Option<String>,
    /// Whether the reason is that it is of several samplers.
    pub mixed: bool,
}

/// A flag that becomes true on Ctrl-C and when the terminal closes. Results so far are still
/// reported. A second Ctrl-C ends the program at once.
pub fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    Ok(interrupt_flags()?.0)
}

/// The same flag, and one that becomes true on SIGTERM alone.
pub fn interrupt_flags() -> anyhow::Result<(Arc<AtomicBool>, Arc<AtomicBool>)> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    let terminated = Arc::new(AtomicBool::new(false));
    let caught = signals::caught(&[SIGINT, SIGTERM, SIGHUP]);
    let (to_stop, to_terminate) = (Arc::clone(&stop), Arc::clone(&terminated));
    signals::on(&caught, move |signal| {
        to_terminate.fetch_or(signal == SIGTERM, Ordering::Relaxed);
        to_stop.store(true, Ordering::Relaxed);
    })?;
    Ok((stop, terminated))
}

/// A bar on standard error, if that is a terminal and there is enough to wait for.
pub fn progress(inputs: &[Input], quiet: bool) -> ProgressBar {
    let total: u64 = inputs.iter().map(|input| input.length).sum();
    let known = !inputs.iter().any(|input| input.is_stdin() || input.follow);
    if quiet || (known && total < WORTH_A_BAR) {
        return ProgressBar::hidden();
    }
    let bar = if known {
        ProgressBar::new(total)
    } else {
        ProgressBar::new_spinner()
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let template = if known {
        "{bar:30} {percent:>3}%  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left"
    } else {
        "{spinner} {binary_bytes} read  {binary_bytes_per_sec}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Which captures to read, and how.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub inputs: &'a [Input],
    pub by: By,
    pub analysis: &'a Analysis,
    pub detector: Chosen,
    /// Only flows with one of these ports, if there are any.
    pub ports: &'a [u16],
    pub jobs: usize,
    pub bar: &'a ProgressBar,
    pub stop: &'a Arc<AtomicBool>,
}

/// Reads all captures, `jobs` at a time, and hands what they give to `each`, capture by capture.
pub fn run<E>(task: Task<'_>, mut each: impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
    let (senders, receivers): (Vec<SyncSender<Event>>, Vec<Receiver<Event>>) =
        task.inputs.iter().map(|_| sync_channel(AHEAD)).unzip();
    // Only the workers hold the senders: if all workers fail, the receivers see closed channels.
    let queue = Arc::new(Mutex::new(task.inputs.iter().zip(senders)));
    std::thread::scope(|scope| {
        for _ in 0..task.jobs.min(task.inputs.len()) {
            // Workers take the captures in order. So the capture that is written next is always
            // being read, and the later ones wait with a few batches.
            let queue = Arc::clone(&queue);
            scope.spawn(move || {
                let next = || queue.lock().ok().and_then(|mut queue| queue.next());
                while let Some((input, sender)) = next() {
                    read(input, task, &sender);
                }
            });
        }
        drop(queue);
        for receiver in receivers {
            for event in receiver {
                if let Err(error) = each(event) {
                    // The readers find their channels closed, and end.
                    task.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    })
}

fn read(input: &Input, task: Task<'_>, out: &SyncSender<Event>) {
    let mut report = Report {
        name: Arc::clone(&input.name),
        ..Report::default()
    };
    if !task.stop.load(Ordering::Relaxed) {
        let options = Options {
            flows: task.analysis.settings(),
            detector: Some(task.detector.make()),
            cancel: Some(Arc::clone(task.stop)),
        };
        let mut rows = Rows::new(input, task, out);
        report = analyse(input, task.bar, task.stop, options, &mut rows);
        rows.hand_on();
        report.segments = rows.count;
        report.flows = rows.wanted;
        report.transfers = std::mem::take(&mut rows.transfers);
        let clients = rows.of_clients.finish(&rows.file, rows.start);
        rows.hand_on_clients(clients);
    }
    if task.stop.load(Ordering::Relaxed) {
        // An interrupted reader may report an error; the capture is not at fault.
        report.error = None;
    }
    let _ = out.send(Event::Done(Box::new(report)));
}

/// Whether a flow has one of the ports, if there are any.
pub fn is_wanted(info: &FlowInfo, ports: &[u16]) -> bool {
    let has = |port: u16| ports.contains(&port);
    ports.is_empty() || has(info.client.port()) || has(info.server.port())
}

/// Analyses a capture, all its pieces. What cannot be opened or read is in the report.
pub fn analyse(
    input: &Input,
    bar: &ProgressBar,
    stop: &Arc<AtomicBool>,
    options: Options,
    sink: &mut (impl Sink + ?Sized),
) -> Report {
    let mut names = Vec::new();
    let mut closed = None;
    let opened = input.pieces().iter().filter_map(|piece| {
        let source = piece.open(bar, stop);
        match source {
            Ok(_) => names.push(&piece.name),
            Err(ref error) if closed.is_none() => {
                closed = Some(input.problem_of(&piece.name, error));
            }
            Err(_) => {}
        }
        source.ok()
    });
    let mut outcome = analyse_pieces(opened, options, sink);
    let damaged = outcome.error.take();
    let damaged = damaged.and_then(|error| Some((*names.get(outcome.piece)?, error)));
    let mut report = Report::new(&input.name, outcome);
    report.mixed = matches!(&damaged, Some((_, error)) if error.reason.is_mixed());
    report.error = closed.or(damaged.map(|(piece, error)| input.problem_of(piece, &error)));
    report
}

impl Report {
    /// Of a capture that could not be read at all.
    pub fn failed(name: &Arc<str>, error: String) -> Self {
        Self {
            name: Arc::clone(name),
            error: Some(error),
            begun: true,
            ..Self::default()
        }
    }

    /// What an analysis of the capture came to.
    pub fn new(name: &Arc<str>, outcome: Outcome) -> Self {
        Self {
            name: Arc::clone(name),
            counters: outcome.counters,
            flows: outcome.counters.flows,
            begun: true,
            passed_over: outcome.passed_over,
            error: outcome.error.map(|error| error.to_string()),
            ..Self::default()
        }
    }
}

/// Gathers rows into batches.
struct Rows<'a> {
    file: Arc<str>,
    /// When the capture's first packet was captured.
    start: Nanos,
    by: By,
    ports: &'a [u16],
    detector: &'static str,
    /// A person may be watching: rows are handed on when they are a second old, …
    live: bool,
    /// … or at once.
    follow: bool,
    handed_on: Instant,
    segments: Vec<SegmentRow>,
    flows: Vec<FlowRow>,
    packets: Vec<PacketRow>,
    /// Wanted flows that are done, …
    wanted: u64,
    /// … and their segments with data.
    count: u64,
    transfers: Transfers,
    /// What rows of flows and clients need, if these are wanted.
    of_flows: FlowRows,
    of_clients: ClientRows,
    out: &'a SyncSender<Event>,
}

impl<'a> Rows<'a> {
    fn new(input: &Input, task: Task<'a>, out: &'a SyncSender<Event>) -> Self {
        Self {
            file: Arc::clone(&input.name),
            start: 0,
            by: task.by,
            ports: task.ports,
            detector: task.detector.name(),
            live: input.is_stdin(),
            follow: input.follow,
            handed_on: Instant::now(),
            segments: Vec::new(),
            flows: Vec::new(),
            packets: Vec::new(),
            wanted: 0,
            count: 0,
            transfers: Transfers::default(),
            of_flows: FlowRows::default(),
            of_clients: ClientRows::default(),
            out,
        }
    }

    fn wants(&self, info: &FlowInfo) -> bool {
        is_wanted(info, self.ports)
    }

    /// Whether somebody has waited for rows for long enough.
    fn is_old(&self) -> bool {
        self.live && self.handed_on.elapsed() >= MAX_AGE
    }

    fn send(&mut self, event: Event) {
        // A closed channel means that the program is ending.
        let _ = self.out.send(event);
    }

    /// Hands on the rows, both endpoints' of a segment beside each other.
    fn hand_on(&mut self) {
        self.handed_on = Instant::now();
        if !self.segments.is_empty() {
            let mut rows = std::mem::take(&mut self.segments);
            rows.sort_by_key(|row| {
                let id = row.transfer.id;
                (id.flow, id.segment, !id.from_client)
            });
            self.send(Event::Segments(rows));
        }
        if !self.flows.is_empty() {
            let mut rows = std::mem::take(&mut self.flows);
            rows.sort_by_key(|row| (row.info.number, row.sender != row.info.client));
            self.send(Event::Flows(rows));
        }
        if !self.packets.is_empty() {
            let rows = std::mem::take(&mut self.packets);
            self.send(Event::Packets(rows));
        }
    }
}

impl Rows<'_> {
    fn hand_on_clients(&mut self, rows: Vec<ClientRow>) {
        if !rows.is_empty() {
            self.send(Event::Clients(rows));
        }
    }
}

impl Sink for Rows<'_> {
    fn begin(&mut self, at: Nanos) {
        self.start = at;
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        if self.by != By::Packet || !self.wants(transfer.flow) {
            return;
        }
        let file = Arc::clone(&self.file);
        for row in PacketRow::of(&file, self.start, transfer) {
            self.packets.push(row);
            if self.packets.len() == BATCH {
                let rows = std::mem::take(&mut self.packets);
                self.send(Event::Packets(rows));
            }
        }
        if self.follow {
            self.hand_on();
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if !self.wants(&transfer.flow) {
            return;
        }
        self.transfers.add(transfer, &judgement);
        match self.by {
            By::Flow => self.of_flows.verdict(transfer, &judgement),
            By::Client => self.of_clients.verdict(transfer, &judgement),
            By::Segment | By::Packet => {}
        }
        if self.by != By::Segment {
            if self.is_old() {
                self.hand_on();
            }
            return;
        }
        // A batch never ends between the two sides of a segment.
        let id = transfer.id;
        let same = |row: &SegmentRow| {
            let last = row.transfer.id;
            (last.flow, last.segment) == (id.flow, id.segment)
        };
        let due = self.segments.len() >= BATCH || (!self.segments.is_empty() && self.is_old());
        if due && !self.segments.last().is_some_and(same) {
            self.hand_on();
        }
        self.segments.push(SegmentRow {
            file: Arc::clone(&self.file),
            capture_start: self.start,
            transfer: *transfer,
            detector: self.detector,
            judgement,
        });
        if self.follow {
            self.hand_on();
        }
    }

    fn flow(&mut self, summary: FlowSummary) {
        if !self.wants(&summary.info) {
            return;
        }
        self.wanted += 1;
        self.count += summary.segments;
        if self.by == By::Client {
            let rows = self.of_clients.flow(&self.file, self.start, &summary);
            self.hand_on_clients(rows);
        }
        if self.by != By::Flow {
            return;
        }
        let rows = self.of_flows.flow(&self.file, self.start, summary);
        self.flows.extend(rows);
        if self.follow || self.flows.len() >= BATCH {
            self.hand_on();
        }
    }
}
