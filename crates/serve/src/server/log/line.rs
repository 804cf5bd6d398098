//! The format of lines of the access log.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::server::account::Account;
use crate::server::request::{LONGEST_TEXT, Request};

/// 06/Nov/1994:08:49:37 +0000, out of an HTTP date.
fn common_date(at: SystemTime) -> String {
    let date = httpdate::fmt_http_date(at);
    let parts: Vec<&str> = date.split_whitespace().collect();
    match parts[..] {
        [_, day, month, year, time, _] => format!("{day}/{month}/{year}:{time} +0000"),
        _ => date,
    }
}

pub(super) fn common(account: &Account<'_>, request: &Request, sent: u64) -> String {
    let mut line = String::with_capacity(256);
    let _ = write!(
        line,
        "{} - - [{}] \"{} {} {:?}\" {} {sent}",
        account.address(),
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
    let _ = writeln!(line, " {}", figures(account, request.began.elapsed()));
    line
}

/// What the common format has at its end.
fn figures(account: &Account<'_>, took: Duration) -> String {
    format!(
        "{:.3} {} {} {} {}",
        took.as_secs_f64(),
        account.group.way,
        account.now.retransmitted,
        account.now.srtt_us,
        account.by,
    )
}

/// A connection that ended because its request was none. How it was answered depends on what was wrong; 400 stands for all of it.
pub(super) fn common_refused(account: &Account<'_>) -> String {
    format!(
        "{} - - [{}] \"-\" 400 0 \"-\" \"-\" {}\n",
        account.address(),
        common_date(SystemTime::now()),
        figures(account, account.duration),
    )
}

/// Quotes, backslashes and all characters that are not printable ASCII are written as by Apache. Text that is too
/// long is cut.
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

/// Writes whole items until they would exceed the bound for a text from outside.
fn escape<T>(into: &mut String, items: impl Iterator<Item = T>, write: impl Fn(&mut String, T)) {
    let begin = into.len();
    for item in items {
        let before = into.len();
        write(into, item);
        if into.len() - begin > LONGEST_TEXT {
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

/// The fields about the connection in lines of both kinds.
fn describe_connection(object: &mut Object, account: &Account<'_>) {
    object.number("connection", account.number);
    object.text("ip", &account.address().to_string());
    object.number("port", account.peer.port());
    object.text("group", &account.group.name);
    object.text("way", &account.group.way.to_string());
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

pub(super) fn json_request(account: &Account<'_>, request: &Request, sent: u64) -> String {
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
    describe_connection(&mut object, account);
    object.end()
}

pub(super) fn json_connection(account: &Account<'_>, why: &str) -> String {
    let mut object = Object::new("connection");
    let at = humantime::format_rfc3339_millis(account.accepted).to_string();
    object.text("time", &at);
    object.text("ended", why);
    object.number("requests", account.requests);
    object.number("bytes", account.written);
    object.number("acknowledged", account.now.acknowledged);
    object.seconds("seconds", account.duration);
    describe_connection(&mut object, account);
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

#[cfg(test)]
mod tests;
