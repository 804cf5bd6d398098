//! Percent-encoding (RFC 3986, section 2.1).

use std::fmt::Write;

/// A path with all but letters, digits, `-._~` and `/` in percents (RFC 3986, section 2).
pub(crate) fn encoded(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(byte as char);
            }
            _ => {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Undoes percent-encoding; `None` if a percent sign is not followed by two digits.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        match (digit(bytes.next()), digit(bytes.next())) {
            (Some(high), Some(low)) => decoded.push((high * 16 + low) as u8),
            _ => return None,
        }
    }
    Some(decoded)
}
