//! One request to a gate's API, and its answer.

use std::io::{self, Read, Write};

use serde_json::Value;

/// A request with this body, unless it is null. `headers` are a line each, that of the host among them.
pub fn request(method: &str, path: &str, headers: &str, body: &Value) -> String {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let kind = match body.as_str() {
        "" => "",
        _ => "Content-Type: application/json\r\n",
    };
    // HTTP/1.0: the answer ends with the connection.
    format!(
        "{method} {path} HTTP/1.0\r\n{headers}{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request. Returns status and body of the answer, which has at most this many bytes; `None` if it is no answer.
///
/// # Errors
/// If the connection fails.
pub fn exchange(
    stream: &mut (impl Read + Write),
    request: &str,
    most: u64,
) -> io::Result<Option<(u16, Vec<u8>)>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(most).read_to_end(&mut answer) {
        // A peer that ends TLS without a word is no attack here: the length of the body is checked.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        other => drop(other?),
    }
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let body = answer.split_off(end + 4);
    let head = String::from_utf8_lossy(&answer);
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.eq_ignore_ascii_case("content-length")).then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = length.is_none_or(|length| length == body.len());
    Ok(status.filter(|_| whole).map(|status| (status, body)))
}

/// The reason that a refusal gives.
pub fn reason(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    Some(body["error"].as_str()?.to_owned())
}
