//! The access log: a line for each response, and one for each connection when it ends.

use std::io::{ErrorKind, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::account::Account;
use super::config::LogFormat;
use super::privileges::drop_privileges;
use super::request::Request;

mod line;

#[cfg(test)]
mod tests;

/// Lines that wait for the disk; more are dropped and counted.
const WAITING: usize = 16_384;
/// Bytes of them.
const WAITING_BYTES: usize = 8 << 20;
/// After what time a line that could not be written is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// Bytes that are written at once.
const BATCH: usize = 64 << 10;
/// How long lines are gathered before the next are written.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Why a connection ends whose request was none. No response of the server's own says so.
pub(super) const BAD_REQUEST: &str = "bad request";

type Output = Box<dyn Write + Send>;

/// Lines that are not written yet.
#[derive(Debug, Default)]
struct Waiting {
    lines: AtomicUsize,
    bytes: AtomicUsize,
    /// It was said that no more lines can wait. They can again when some are written.
    full: AtomicBool,
}

impl Waiting {
    fn less(&self, lines: usize, bytes: usize) {
        self.lines.fetch_sub(lines, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The destination of lines. A thread writes them, so that a slow disk does not delay connections.
#[derive(Debug)]
pub(super) struct Log {
    format: LogFormat,
    lines: Option<SyncSender<String>>,
    waiting: Arc<Waiting>,
    /// Whether the server ends.
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    pub fn new(format: LogFormat, to: Output) -> std::io::Result<Self> {
        let (lines, taken) = sync_channel(WAITING);
        let waiting = Arc::<Waiting>::default();
        let ended = Arc::new(AtomicBool::new(false));
        let (bytes, end) = (Arc::clone(&waiting), Arc::clone(&ended));
        let thread = std::thread::Builder::new()
            .name("access log".into())
            .spawn(move || {
                // Its output is open already.
                if let Err(error) = drop_privileges() {
                    tracing::warn!("the access log keeps its privileges: {error}");
                }
                write_lines(&taken, &bytes, &end, to);
            })?;
        Ok(Self {
            format,
            lines: Some(lines),
            waiting,
            ended,
            thread: Some(thread),
        })
    }

    /// Writes the line of a response; false if it was dropped.
    pub fn request(&self, account: &Account<'_>, request: &Request, sent: u64) -> bool {
        self.send(match self.format {
            LogFormat::Common => line::common(account, request, sent),
            LogFormat::Json => line::json_request(account, request, sent),
        })
    }

    /// Writes the line of a connection that ended; false if it was dropped. The common format has one only for those whose request was
    /// none, such as tools need that block addresses.
    pub fn connection(&self, account: &Account<'_>, why: &str) -> bool {
        match self.format {
            LogFormat::Common if why == BAD_REQUEST => self.send(line::common_refused(account)),
            LogFormat::Common => true,
            LogFormat::Json => self.send(line::json_connection(account, why)),
        }
    }

    fn send(&self, line: String) -> bool {
        let (lines, bytes) = (self.lines.as_ref(), line.len());
        let before = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.waiting.lines.fetch_add(1, Ordering::Relaxed);
        let full = before + bytes > WAITING_BYTES
            || lines
                .is_some_and(|lines| matches!(lines.try_send(line), Err(TrySendError::Full(_))));
        if full {
            self.waiting.less(1, bytes);
            if !self.waiting.full.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    "the access log is not written as fast as lines come: {} lines wait, and more are lost",
                    self.waiting.lines.load(Ordering::Relaxed)
                );
            }
        }
        !full
    }
}

impl Drop for Log {
    /// All lines are written before the server ends, unless the disk is full or the reader of a pipe takes none.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(self.lines.take());
        if let Some(thread) = self.thread.take() {
            let end = Instant::now() + LAST_LINES;
            while !thread.is_finished() {
                if Instant::now() >= end {
                    let lost = self.waiting.lines.load(Ordering::Relaxed);
                    tracing::error!(
                        "up to {lost} lines of the access log were lost: it could not be written in the end"
                    );
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = thread.join();
        }
    }
}

/// Writes lines until no more can come. While the disk is full, or a reader takes none, they wait.
fn write_lines(lines: &Receiver<String>, waiting: &Waiting, ended: &AtomicBool, to: Output) {
    let mut output = Retried { to, fails: false };
    let mut batch = String::new();
    while let Ok(line) = lines.recv() {
        batch.clear();
        batch.push_str(&line);
        let mut count = 1;
        while batch.len() < BATCH
            && let Ok(line) = lines.try_recv()
        {
            batch.push_str(&line);
            count += 1;
        }
        let left = output.write(batch.as_bytes(), ended);
        if !left.is_empty() {
            let lost = left.iter().filter(|byte| **byte == b'\n').count();
            let lost = lost + lines.try_iter().count();
            tracing::error!("{lost} lines of the access log were lost");
            return;
        }
        waiting.less(count, batch.len());
        waiting.full.store(false, Ordering::Relaxed);
        // The next lines come together then, and who sends one need not wake this thread.
        if batch.len() < BATCH && !ended.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// An output that may fail for a time.
struct Retried {
    to: Output,
    fails: bool,
}

impl Retried {
    /// Writes lines, however long that takes: a part of a line that fitted on a full disk is completed later. Returns what
    /// cannot be written before the server ends.
    fn write<'a>(&mut self, mut lines: &'a [u8], ended: &AtomicBool) -> &'a [u8] {
        while !lines.is_empty() {
            match self.to.write(lines) {
                Ok(written @ 1..) => {
                    lines = &lines[written..];
                    if mem::take(&mut self.fails) {
                        tracing::warn!("the access log can be written again");
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                failed => {
                    let error = failed.err().unwrap_or(ErrorKind::WriteZero.into());
                    if !mem::replace(&mut self.fails, true) {
                        tracing::error!("the access log cannot be written, lines wait: {error}");
                    }
                    if ended.load(Ordering::Relaxed) {
                        return lines;
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
        lines
    }
}
