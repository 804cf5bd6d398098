//! Captures to record batches, on other threads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use tidegate_table::Row;
use tidegate_trace::annotate::{Metrics, Transfer, TransferSummary};
use tidegate_trace::detect::{Basis, Entry, Extent, Judgement};
use tidegate_trace::flow::{FlowSummary, Settings};
use tidegate_trace::read::Nanos;
use tidegate_trace::rows::{ClientRow, ClientRows, FlowRow, FlowRows, PacketRow, SegmentRow};
use tidegate_trace::{Options, Sink, analyse};

use crate::arrow;
use crate::problem::Problem;

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

    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Segment => arrow::schema::<SegmentRow>(),
            Self::Flow => arrow::schema::<FlowRow>(),
            Self::Client => arrow::schema::<ClientRow>(),
            Self::Packet => arrow::schema::<PacketRow>(),
        }
    }
}

/// What to read.
#[derive(Debug, Clone)]
pub struct Request {
    pub paths: Arc<[PathBuf]>,
    pub by: By,
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
}

impl Reading {
    /// Starts the threads.
    pub fn start(request: &Request) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let left = request.paths.len();
        let queue = Arc::new(Mutex::new(0..left));
        for _ in 0..request.threads.clamp(1, left.max(1)) {
            let (request, sender) = (request.clone(), sender.clone());
            let (stop, queue) = (Arc::clone(&stop), Arc::clone(&queue));
            std::thread::spawn(move || {
                let next = || queue.lock().ok().and_then(|mut queue| queue.next());
                while let Some(number) = next() {
                    read(&request, &request.paths[number], &sender, &stop);
                    // The receiver may have gone.
                    let _ = sender.send(Message::Done);
                }
            });
        }
        Self {
            receiver,
            stop,
            left,
        }
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

fn read(request: &Request, path: &Path, out: &SyncSender<Message>, stop: &Arc<AtomicBool>) {
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            let _ = out.send(Message::Problem(Problem::of_file(path, &error)));
            return;
        }
    };
    let extent = Extent {
        basis: request.basis,
        causal: false,
    };
    let options = Options {
        flows: Settings::default(),
        detector: Some((request.detector.make)(extent)),
        cancel: Some(Arc::clone(stop)),
    };
    let mut rows = Gather::new(request, path, out, stop);
    let outcome = analyse(file, options, &mut rows);
    rows.finish();
    if let Some(error) = outcome.error {
        let _ = out.send(Message::Problem(Problem::of_capture(path, &error)));
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
    Flows(Pending<FlowRow>, FlowRows),
    Clients(Pending<ClientRow>, ClientRows),
    Packets(Pending<PacketRow>),
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
        path: &Path,
        out: &'a SyncSender<Message>,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            file: path.display().to_string().into(),
            start: 0,
            detector: request.detector.name,
            kept: match request.by {
                By::Segment => Kept::Segments(Pending::new()),
                By::Flow => Kept::Flows(Pending::new(), FlowRows::default()),
                By::Client => Kept::Clients(Pending::new(), ClientRows::default()),
                By::Packet => Kept::Packets(Pending::new()),
            },
            out,
            stop,
        }
    }

    /// Sends full batches, or with `least` 1 all that is left.
    fn send(&mut self, least: usize) {
        let read = match &mut self.kept {
            Kept::Segments(rows) => rows.send(least, self.out),
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

    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        if let Kept::Packets(rows) = &mut self.kept {
            rows.rows
                .extend(PacketRow::of(&self.file, self.start, transfer));
            self.send(BATCH);
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        match &mut self.kept {
            Kept::Segments(rows) => rows.rows.push(SegmentRow {
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
            Kept::Segments(_) | Kept::Packets(_) => {}
        }
        self.send(BATCH);
    }
}
