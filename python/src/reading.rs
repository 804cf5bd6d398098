//! Captures to record batches, on other threads.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use tidegate_dataset::{Network, Networks, Origin, Shares};
use tidegate_table::Row;
use tidegate_trace::annotate::{Metrics, Transfer, TransferSummary};
use tidegate_trace::detect::{Basis, Entry, Extent, Judgement};
use tidegate_trace::flow::{FlowSummary, Settings};
use tidegate_trace::read::{Nanos, Sampled};
use tidegate_trace::rows::{ClientRow, ClientRows, FlowRow, FlowRows, PacketRow, SegmentRow};
use tidegate_trace::{Options, Sink, analyse_pieces};

use crate::arrow;
use crate::problem::Problem;
use crate::source::Pieces;

/// Rows in a batch.
const BATCH: usize = 8192;
/// Batches that threads may be ahead of the reader.
const AHEAD: usize = 4;

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Segment,
    Flow,
    Client,
    Packet,
}

impl By {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "segment" => Self::Segment,
            "flow" => Self::Flow,
            "client" => Self::Client,
            "packet" => Self::Packet,
            _ => return None,
        })
    }

    /// The columns; those of datasets too, if rows are to have the networks of their clients.
    pub fn schema(self, placed: bool) -> SchemaRef {
        match self {
            Self::Segment if placed => arrow::schema_of_both::<SegmentRow, Origin>(PLACES),
            Self::Segment => arrow::schema::<SegmentRow>(),
            Self::Flow => arrow::schema::<FlowRow>(),
            Self::Client => arrow::schema::<ClientRow>(),
            Self::Packet => arrow::schema::<PacketRow>(),
        }
    }
}

/// Where clients are, and which share of the flows the captures hold.
#[derive(Clone)]
pub struct Places {
    pub networks: Arc<Networks>,
    /// `None`: as the captures say.
    pub sampled: Option<f64>,
}

/// What to read.
#[derive(Clone)]
pub struct Request {
    pub captures: Arc<[Pieces]>,
    pub by: By,
    /// Of segments: adds the columns of datasets.
    pub places: Option<Places>,
    pub detector: Entry,
    pub basis: Basis,
    pub threads: usize,
}

enum Message {
    Batch(Result<RecordBatch, ArrowError>),
    Problem(Problem),
    /// A capture is done.
    Done,
}

/// What comes next.
pub enum Next {
    Batch(Result<RecordBatch, ArrowError>),
    Problem(Problem),
    /// Nothing yet.
    Waiting,
    /// There is no more.
    End,
}

/// Captures that are being read. Dropped, it ends the reading.
pub struct Reading {
    receiver: Receiver<Message>,
    stop: Arc<AtomicBool>,
    /// Captures that are not done.
    left: usize,
    /// Bytes of files that were read.
    bytes: Arc<AtomicU64>,
}

impl Reading {
    /// Starts the threads.
    pub fn start(request: &Request) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let left = request.captures.len();
        let bytes = Arc::new(AtomicU64::new(0));
        let queue = Arc::new(Mutex::new(0..left));
        for _ in 0..request.threads.clamp(1, left.max(1)) {
            let (request, sender) = (request.clone(), sender.clone());
            let (stop, queue) = (Arc::clone(&stop), Arc::clone(&queue));
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || {
                let next = || queue.lock().ok().and_then(|mut queue| queue.next());
                while let Some(number) = next() {
                    read(&request, &request.captures[number], &sender, &stop, &bytes);
                    // The receiver may have gone.
                    let _ = sender.send(Message::Done);
                }
            });
        }
        Self {
            receiver,
            stop,
            left,
            bytes,
        }
    }

    /// Bytes of files that were read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits this long at most.
    pub fn next(&mut self, timeout: Duration) -> Next {
        while self.left > 0 {
            match self.receiver.recv_timeout(timeout) {
                Ok(Message::Batch(batch)) => return Next::Batch(batch),
                Ok(Message::Problem(problem)) => return Next::Problem(problem),
                Ok(Message::Done) => self.left -= 1,
                Err(RecvTimeoutError::Timeout) => return Next::Waiting,
                Err(RecvTimeoutError::Disconnected) => {
                    self.left = 0;
                    let error = "the analysis ended by a bug of Tidegate";
                    return Next::Batch(Err(ArrowError::ComputeError(error.to_owned())));
                }
            }
        }
        Next::End
    }

    /// Reads no more.
    pub fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.left = 0;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(
    request: &Request,
    capture: &Pieces,
    out: &SyncSender<Message>,
    stop: &Arc<AtomicBool>,
    bytes: &Arc<AtomicU64>,
) {
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let extent = Extent {
        basis: request.basis,
        causal: false,
    };
    let options = Options {
        flows: Settings::default(),
        detector: Some((request.detector.make)(extent)),
        cancel: Some(Arc::clone(stop)),
    };
    let mut rows = Gather::new(request, &capture.name(), out, stop);
    let pieces = capture.in_order();
    let mut read = Vec::new();
    let opened = pieces.iter().filter_map(|piece| match piece.open(bytes) {
        Ok(source) => {
            read.push(*piece);
            Some(source)
        }
        Err(error) => {
            let _ = out.send(Message::Problem(Problem::of_file(
                Path::new(&piece.name),
                &error,
            )));
            None
        }
    });
    let outcome = analyse_pieces(opened, options, &mut rows);
    rows.finish();
    if let (Some(error), Some(piece)) = (outcome.error, read.get(outcome.piece)) {
        let name = Path::new(&piece.name);
        let problem = Problem::of_capture(name, &error, piece.errno());
        let _ = out.send(Message::Problem(problem));
    }
}

/// Rows of one kind that are not sent yet.
struct Pending<R> {
    rows: Vec<R>,
    schema: SchemaRef,
}

impl<R: Row> Pending<R> {
    fn new() -> Self {
        Self {
            rows: Vec::new(),
            schema: arrow::schema::<R>(),
        }
    }

    /// Sends what is there, if it is at least this many rows. Returns whether somebody still reads.
    fn send(&mut self, least: usize, out: &SyncSender<Message>) -> bool {
        if self.rows.len() < least.max(1) {
            return true;
        }
        let batch = arrow::batch(&self.schema, &self.rows);
        self.rows.clear();
        out.send(Message::Batch(batch)).is_ok()
    }
}

enum Kept {
    Segments(Pending<SegmentRow>),
    Placed(Pending<SegmentRow>, Finder),
    Flows(Pending<FlowRow>, FlowRows),
    Clients(Pending<ClientRow>, ClientRows),
    Packets(Pending<PacketRow>),
}

/// Of the columns of datasets, those that rows get. A capture's name in a dataset, which is the first, needs all of its content.
const PLACES: std::ops::RangeFrom<usize> = 1..;

/// Finds the networks of clients.
struct Finder {
    places: Places,
    /// One for each segment that is not sent yet.
    origins: Vec<Origin>,
    /// The client before: rows of a client often come together.
    last: Option<(IpAddr, Arc<Network>)>,
    file: Arc<str>,
    shares: Shares,
}

impl Finder {
    fn add(&mut self, transfer: &TransferSummary) {
        let flow = &transfer.flow;
        let client = flow.client.ip();
        let network = match &self.last {
            Some((address, network)) if *address == client => Arc::clone(network),
            _ => Arc::new(self.places.networks.find(client)),
        };
        self.last = Some((client, Arc::clone(&network)));
        let (from, length) = (transfer.metrics.first_sent, transfer.metrics.duration);
        self.origins.push(Origin {
            capture: Arc::clone(&self.file),
            client,
            server: flow.server.ip(),
            network,
            sampled: self.shares.during(from, from.saturating_add(length)),
        });
    }

    /// Segments with what was found of them.
    fn batch(&mut self, rows: &mut Vec<SegmentRow>) -> Result<RecordBatch, ArrowError> {
        let batch = arrow::batch_of_both(rows, &self.origins, PLACES);
        rows.clear();
        self.origins.clear();
        batch
    }
}

/// Gathers the rows of a capture into batches.
struct Gather<'a> {
    file: Arc<str>,
    start: Nanos,
    detector: &'static str,
    kept: Kept,
    out: &'a SyncSender<Message>,
    stop: &'a AtomicBool,
}

impl<'a> Gather<'a> {
    fn new(
        request: &Request,
        name: &str,
        out: &'a SyncSender<Message>,
        stop: &'a AtomicBool,
    ) -> Self {
        let file: Arc<str> = name.into();
        Self {
            file: Arc::clone(&file),
            start: 0,
            detector: request.detector.name,
            kept: match (request.by, &request.places) {
                (By::Segment, Some(places)) => {
                    let finder = Finder {
                        places: places.clone(),
                        shares: Shares::new(places.sampled.unwrap_or(1.0)),
                        origins: Vec::new(),
                        last: None,
                        file,
                    };
                    Kept::Placed(Pending::new(), finder)
                }
                (By::Segment, None) => Kept::Segments(Pending::new()),
                (By::Flow, _) => Kept::Flows(Pending::new(), FlowRows::default()),
                (By::Client, _) => Kept::Clients(Pending::new(), ClientRows::default()),
                (By::Packet, _) => Kept::Packets(Pending::new()),
            },
            out,
            stop,
        }
    }

    /// Sends full batches, or with `least` 1 all that is left.
    fn send(&mut self, least: usize) {
        let read = match &mut self.kept {
            Kept::Segments(rows) => rows.send(least, self.out),
            Kept::Placed(rows, finder) => {
                rows.rows.len() < least.max(1)
                    || self
                        .out
                        .send(Message::Batch(finder.batch(&mut rows.rows)))
                        .is_ok()
            }
            Kept::Flows(rows, _) => rows.send(least, self.out),
            Kept::Clients(rows, _) => rows.send(least, self.out),
            Kept::Packets(rows) => rows.send(least, self.out),
        };
        if !read {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn finish(&mut self) {
        if let Kept::Clients(rows, sums) = &mut self.kept {
            rows.rows.extend(sums.finish(&self.file, self.start));
        }
        self.send(1);
    }
}

impl Sink for Gather<'_> {
    fn begin(&mut self, at: Nanos) {
        self.start = at;
    }

    fn sampled(&mut self, from: Nanos, said: Option<&Sampled>) {
        let Kept::Placed(_, finder) = &mut self.kept else {
            return;
        };
        if said.is_some_and(|said| said.pseudonyms) {
            // Pseudonyms have no networks.
            finder.places.networks = Arc::default();
        }
        if finder.places.sampled.is_none() {
            let share = said.map_or(1.0, |said| said.share);
            finder.shares.change(from, share);
        }
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        // A transfer may have millions of packets.
        let file = Arc::clone(&self.file);
        for row in PacketRow::of(&file, self.start, transfer) {
            let Kept::Packets(rows) = &mut self.kept else {
                return;
            };
            rows.rows.push(row);
            self.send(BATCH);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if let Kept::Placed(_, finder) = &mut self.kept {
            finder.add(transfer);
        }
        match &mut self.kept {
            Kept::Segments(rows) | Kept::Placed(rows, _) => rows.rows.push(SegmentRow {
                file: Arc::clone(&self.file),
                capture_start: self.start,
                transfer: *transfer,
                detector: self.detector,
                judgement,
            }),
            Kept::Flows(_, sums) => sums.verdict(transfer, &judgement),
            Kept::Clients(_, sums) => sums.verdict(transfer, &judgement),
            Kept::Packets(_) => {}
        }
        self.send(BATCH);
    }

    fn flow(&mut self, summary: FlowSummary) {
        match &mut self.kept {
            Kept::Flows(rows, sums) => {
                rows.rows.extend(sums.flow(&self.file, self.start, summary));
            }
            Kept::Clients(rows, sums) => {
                rows.rows
                    .extend(sums.flow(&self.file, self.start, &summary));
            }
            Kept::Segments(_) | Kept::Placed(..) | Kept::Packets(_) => {}
        }
        self.send(BATCH);
    }
}
