//! The access log: a line for each response, and one for each connection when it ends.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use hyper::header::{HeaderName, REFERER, USER_AGENT};
use hyper::{StatusCode, Version};

use super::connection::{Account, Connection};
use super::privileges::drop_privileges;

#[cfg(test)]
mod tests;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The combined log format of other servers, with more at the end; responses only.
    Common,
    /// An object a line; responses and connections.
    Json,
}

/// Lines that wait for the disk; more are dropped and counted.
const WAITING: usize = 16_384;
/// Bytes of them.
const WAITING_BYTES: usize = 8 << 20;
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Bytes of a text from outside that are logged, as they are written.
const LONGEST: usize = 1024;

/// Where lines go: a thread writes them, so that a slow disk does not hold up connections.
#[derive(Debug)]
pub(super) struct Log {
    format: Format,
    lines: Option<SyncSender<String>>,
    /// Bytes of lines that are not written yet.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of a request when it comes.
#[derive(Debug, Clone)]
pub(super) struct Request {
    began: Instant,
    at: SystemTime,
    method: String,
    target: String,
    pub version: Version,
    referer: Option<String>,
    agent: Option<String>,
    range: Option<String>,
    /// Set when it is answered.
    pub status: StatusCode,
}

impl Request {
    pub fn of<B>(request: &hyper::Request<B>) -> Self {
        let header = |name: HeaderName| {
            let value = request.headers().get(name)?;
            let bytes = &value.as_bytes()[..value.len().min(LONGEST)];
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let mut target = match request.uri().path_and_query() {
            Some(target) => target.as_str().to_owned(),
            None => request.uri().to_string(),
        };
        let cut = (0..=LONGEST.min(target.len()))
            .rev()
            .find(|&cut| target.is_char_boundary(cut));
        target.truncate(cut.unwrap_or(0));
        Self {
            began: Instant::now(),
            at: SystemTime::now(),
            method: request.method().as_str().chars().take(32).collect(),
            target,
            version: request.version(),
            referer: header(REFERER),
            agent: header(USER_AGENT),
            range: header(hyper::header::RANGE),
            status: StatusCode::OK,
        }
    }
}

impl Log {
    pub fn new(format: Format, to: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (lines, taken) = sync_channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let bytes = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("access log".into())
            .spawn(move || {
                // What it writes to is open already.
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
    pub fn request(&self, connection: &Connection, request: &Request, sent: u64) -> bool {
        let account = connection.account();
        let line = match self.format {
            Format::Common => common(connection, request, sent, &account),
            Format::Json => json_request(connection, request, sent, &account),
        };
        self.send(line)
    }

    /// Writes the line of a connection that ended; false if it was dropped.
    pub fn connection(&self, connection: &Connection, why: &str) -> bool {
        match self.format {
            Format::Common => true,
            Format::Json => self.send(json_connection(connection, why, &connection.account())),
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
    /// All lines are written before the server ends, unless nobody takes them.
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
        // What has come meanwhile goes with it.
        while let (Ok(()), Ok(line)) = (&result, lines.try_recv()) {
            result = write(&mut *to, line);
        }
        if let Err(error) = result.and_then(|()| to.flush()) {
            tracing::error!("the access log cannot be written: {error}");
        }
    }
}

/// 06/Nov/1994:08:49:37 +0000, out of an HTTP date.
fn common_date(at: SystemTime) -> String {
    let date = httpdate::fmt_http_date(at);
    let parts: Vec<&str> = date.split_whitespace().collect();
    match parts[..] {
        [_, day, month, year, time, _] => format!("{day}/{month}/{year}:{time} +0000"),
        _ => date,
    }
}

fn common(connection: &Connection, request: &Request, sent: u64, account: &Account) -> String {
    let mut line = String::with_capacity(256);
    let _ = write!(
        line,
        "{} - - [{}] \"{} {} {:?}\" {} {sent}",
        connection.address(),
        common_date(request.at),
        quoted(&request.method),
        quoted(&request.target),
        request.version,
        request.status.as_u16(),
    );
    for header in [&request.referer, &request.agent] {
        let _ = match header {
            Some(header) => write!(line, " \"{}\"", quoted(header)),
            None => write!(line, " \"-\""),
        };
    }
    let _ = writeln!(
        line,
        " {:.3} {} {} {} {}",
        request.began.elapsed().as_secs_f64(),
        connection.group().way,
        account.now.retransmitted,
        account.now.srtt_us,
        account.by,
    );
    line
}

/// Quotes, backslashes and all that is not printable ASCII, as Apache writes them; the beginning of what is too long.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    escape(&mut quoted, text.bytes(), |quoted, byte| match byte {
        b'"' | b'\\' => quoted.extend(['\\', byte as char]),
        b' '..=b'~' => quoted.push(byte as char),
        _ => {
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    });
    quoted
}

/// Writes items until they come to more than a text from outside may, and none in part.
fn escape<T>(into: &mut String, items: impl Iterator<Item = T>, write: impl Fn(&mut String, T)) {
    let begin = into.len();
    for item in items {
        let before = into.len();
        write(into, item);
        if into.len() - begin > LONGEST {
            into.truncate(before);
            break;
        }
    }
}

/// An object that is written field by field.
struct Object(String);

impl Object {
    fn new(event: &str) -> Self {
        let mut object = Self("{".to_owned());
        object.text("event", event);
        object
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{name}\":");
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        self.0.push('"');
        escape(&mut self.0, text.chars(), |line, c| match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\u{20}'..='\u{7e}' | '\u{a0}'.. => line.push(c),
            _ => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
        });
        self.0.push('"');
    }

    fn number(&mut self, name: &str, number: impl Into<u64>) {
        self.name(name);
        let _ = write!(self.0, "{}", number.into());
    }

    fn seconds(&mut self, name: &str, time: Duration) {
        self.name(name);
        let _ = write!(self.0, "{:.6}", time.as_secs_f64());
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

/// What lines of both kinds say of the connection.
fn standing(object: &mut Object, connection: &Connection, account: &Account) {
    object.number("connection", connection.number);
    object.text("ip", &connection.address().to_string());
    object.number("port", connection.peer.port());
    object.text("group", &connection.group().name);
    object.text("way", &connection.group().way.to_string());
    object.text("paced_by", account.by);
    object.number("segments", account.now.segments);
    object.number("retransmitted", account.now.retransmitted);
    object.number("srtt_us", account.now.srtt_us);
    object.number("min_rtt_us", account.now.min_rtt_us);
    if let Some((least, most)) = account.srtt {
        object.number("srtt_least_us", least);
        object.number("srtt_most_us", most);
    }
    object.number("cwnd", account.now.cwnd);
}

fn json_request(
    connection: &Connection,
    request: &Request,
    sent: u64,
    account: &Account,
) -> String {
    let mut object = Object::new("request");
    let at = humantime::format_rfc3339_millis(request.at).to_string();
    object.text("time", &at);
    object.text("method", &request.method);
    object.text("target", &request.target);
    object.text("protocol", &format!("{:?}", request.version));
    object.number("status", request.status.as_u16());
    object.number("bytes", sent);
    object.seconds("seconds", request.began.elapsed());
    let headers = [
        ("range", &request.range),
        ("referer", &request.referer),
        ("agent", &request.agent),
    ];
    for (name, header) in headers {
        if let Some(header) = header {
            object.text(name, header);
        }
    }
    standing(&mut object, connection, account);
    object.end()
}

fn json_connection(connection: &Connection, why: &str, account: &Account) -> String {
    let mut object = Object::new("connection");
    let at = humantime::format_rfc3339_millis(connection.accepted).to_string();
    object.text("time", &at);
    object.text("ended", why);
    object.number("requests", account.requests);
    object.number("bytes", account.written);
    object.number("acknowledged", account.now.acknowledged);
    object.seconds("seconds", account.duration);
    standing(&mut object, connection, account);
    if let Some((duration, bytes, then)) = account.throttled {
        let now = account.now;
        object.seconds("throttled_seconds", duration);
        object.number("throttled_bytes", bytes);
        let acknowledged = now.acknowledged.saturating_sub(then.acknowledged);
        object.number("throttled_acknowledged", acknowledged);
        let segments = now.segments.saturating_sub(then.segments);
        object.number("throttled_segments", segments);
        let retransmitted = now.retransmitted.saturating_sub(then.retransmitted);
        object.number("throttled_retransmitted", retransmitted);
    }
    object.end()
}
