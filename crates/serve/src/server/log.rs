//! The access log: a line for each response, and one for each connection when it ends.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The destination of lines. A thread writes them, so that a slow disk does not delay connections.
#[derive(Debug)]
pub(super) struct Log {
    format: LogFormat,
    lines: Option<SyncSender<String>>,
    /// Bytes of lines that are not written yet.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    pub fn new(format: LogFormat, to: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (lines, taken) = sync_channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let bytes = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("access log".into())
            .spawn(move || {
                // Its output is open already.
                if let Err(error) = drop_privileges() {
                    tracing::warn!("the access log keeps its privileges: {error}");
                }
                write_lines(&taken, &bytes, to);
            })?;
        Ok(Self {
            format,
            lines: Some(lines),
            waiting,
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

    /// Writes the line of a connection that ended; false if it was dropped.
    pub fn connection(&self, account: &Account<'_>, why: &str) -> bool {
        match self.format {
            LogFormat::Common => true,
            LogFormat::Json => self.send(line::json_connection(account, why)),
        }
    }

    fn send(&self, line: String) -> bool {
        let (lines, bytes) = (self.lines.as_ref(), line.len());
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let full = before + bytes > WAITING_BYTES
            || lines
                .is_some_and(|lines| matches!(lines.try_send(line), Err(TrySendError::Full(_))));
        if full {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        !full
    }
}

impl Drop for Log {
    /// All lines are written before the server ends, unless the reader of a pipe takes none.
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(thread) = self.thread.take() {
            let end = Instant::now() + LAST_LINES;
            while !thread.is_finished() {
                if Instant::now() >= end {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = thread.join();
        }
    }
}

fn write_lines(lines: &Receiver<String>, waiting: &AtomicUsize, mut to: Box<dyn Write + Send>) {
    let write = |to: &mut dyn Write, line: String| {
        let result = to.write_all(line.as_bytes());
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
        result
    };
    while let Ok(line) = lines.recv() {
        let mut result = write(&mut *to, line);
        // Lines that arrived meanwhile are written with it.
        while let (Ok(()), Ok(line)) = (&result, lines.try_recv()) {
            result = write(&mut *to, line);
        }
        if let Err(error) = result.and_then(|()| to.flush()) {
            tracing::error!("the access log cannot be written: {error}");
        }
    }
}
