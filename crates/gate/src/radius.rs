//! RADIUS accounting and dynamic authorization: packets of RFC 2866 and RFC 5176, without a network and without a
//! clock.

use std::net::{Ipv4Addr, Ipv6Addr};

use md5::{Digest, Md5};
use tidegate_limiter::{Prefix, Rate};

use crate::table::Match;

#[cfg(test)]
mod tests;

/// Longest packet, RFC 2865 §3.
pub const MOST: usize = 4096;
/// Octets of the header: code, identifier, length and authenticator.
const HEADER: usize = 20;

const USER_NAME: u8 = 1;
const SERVICE_TYPE: u8 = 6;
const FRAMED_IP_ADDRESS: u8 = 8;
const FILTER_ID: u8 = 11;
const STATE: u8 = 24;
const VENDOR_SPECIFIC: u8 = 26;
const PROXY_STATE: u8 = 33;
const ACCT_STATUS_TYPE: u8 = 40;
const ACCT_SESSION_ID: u8 = 44;
const EVENT_TIMESTAMP: u8 = 55;
const MESSAGE_AUTHENTICATOR: u8 = 80;
const FRAMED_IPV6_PREFIX: u8 = 97;
const ERROR_CAUSE: u8 = 101;
const DELEGATED_IPV6_PREFIX: u8 = 123;
const FRAMED_IPV6_ADDRESS: u8 = 168;
/// The vendor of the Wi-Fi Alliance's WISPr, whose rates many access servers know.
const WISPR: u32 = 14122;
const WISPR_UP: u8 = 7;
const WISPR_DOWN: u8 = 8;

/// The Service-Type that asks for an Access-Request (RFC 5176 §3.2).
const AUTHORIZE_ONLY: u32 = 17;

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Accounting-Request of a session that begins.
    Begin,
    /// Accounting-Request of a session that goes on.
    GoesOn,
    /// Accounting-Request of a session that ends.
    End,
    /// Accounting-Request of anything else, such as a restart of the access server.
    Other,
    /// Disconnect-Request.
    Disconnect,
    /// CoA-Request.
    Change,
}

/// A request, checked with the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub kind: Kind,
    /// The user's name: the subscriber's, or one of its `users`.
    pub user: Option<String>,
    /// Addresses and prefixes of the session.
    pub matches: Vec<Match>,
    /// The plan, as Filter-Id has it.
    pub plan: Option<String>,
    /// Rates to the subscriber and from it, as WISPr's attributes have them.
    pub rates: (Option<Rate>, Option<Rate>),
    /// When it was made, in seconds since 1970, if it says so.
    pub at: Option<u32>,
    /// The name of the session, as Acct-Session-Id has it.
    pub session: Option<Vec<u8>>,
    /// Whether the gate is to ask a server whether it may, which it cannot.
    pub authorizes_only: bool,
    /// Attributes that the answer repeats, as they came.
    repeated: Vec<u8>,
    code: u8,
    identifier: u8,
    authenticator: [u8; 16],
}

/// Why a packet is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// Lengths that do not fit.
    #[error("it is no packet of RADIUS")]
    Malformed,
    /// A code that is not answered here.
    #[error(
        "its code is {0}: only accounting (4), disconnect (40) and change of authorization (43) are answered"
    )]
    Code(u8),
    /// Another secret.
    #[error("its sender has another secret")]
    Secret,
}

/// Why a request was not carried out, by the numbers of RFC 5176 §3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// An attribute is missing.
    Missing = 402,
    /// The request cannot be carried out as it is.
    Invalid = 404,
    /// A service that the gate does not have.
    Unsupported = 405,
    /// There is no such session.
    Nobody = 503,
    /// The gate could not.
    Failed = 506,
}

impl Request {
    /// Reads a packet, and checks that its sender knows the secret.
    ///
    /// # Errors
    /// If it must be ignored.
    pub fn read(packet: &[u8], secret: &[u8]) -> Result<Self, Ignored> {
        let [code, identifier, high, low, ..] = *packet else {
            return Err(Ignored::Malformed);
        };
        // Octets behind the length are padding.
        let length = usize::from(u16::from_be_bytes([high, low]));
        let packet = packet.get(..length).ok_or(Ignored::Malformed)?;
        if !(HEADER..=MOST).contains(&length) {
            return Err(Ignored::Malformed);
        }
        if ![4, 40, 43].contains(&code) {
            return Err(Ignored::Code(code));
        }
        let mut authenticator = [0; 16];
        authenticator.copy_from_slice(&packet[4..HEADER]);
        let mut zeroed = packet.to_vec();
        zeroed[4..HEADER].fill(0);
        if !same(&digest(&[&zeroed, secret]), &authenticator) {
            return Err(Ignored::Secret);
        }
        let mut request = Self {
            kind: match code {
                40 => Kind::Disconnect,
                43 => Kind::Change,
                _ => Kind::Other,
            },
            user: None,
            matches: Vec::new(),
            plan: None,
            rates: (None, None),
            at: None,
            session: None,
            authorizes_only: false,
            repeated: Vec::new(),
            code,
            identifier,
            authenticator,
        };
        let mut at = HEADER;
        while at < length {
            let (kind, value) = attribute(&packet[at..]).ok_or(Ignored::Malformed)?;
            if kind == MESSAGE_AUTHENTICATOR {
                let mut blank = zeroed.clone();
                let place = blank.get_mut(at + 2..at + 18).filter(|_| value.len() == 16);
                place.ok_or(Ignored::Malformed)?.fill(0);
                if !same(&keyed(&blank, secret), value) {
                    return Err(Ignored::Secret);
                }
            }
            request.take(kind, value);
            at += 2 + value.len();
        }
        Ok(request)
    }

    /// Notes an attribute. Those that are not known, or make no sense, are ignored (RFC 2865 §5).
    fn take(&mut self, kind: u8, value: &[u8]) {
        let text = || std::str::from_utf8(value).ok().map(str::to_owned);
        let number = <[u8; 4]>::try_from(value).map(u32::from_be_bytes).ok();
        match kind {
            USER_NAME => self.user = text(),
            FILTER_ID => self.plan = text(),
            SERVICE_TYPE if self.code != 4 => {
                self.authorizes_only = number == Some(AUTHORIZE_ONLY);
            }
            FRAMED_IP_ADDRESS => {
                // The two highest numbers ask the access server to choose.
                let address = number.filter(|number| *number < u32::MAX - 1);
                self.gets(address.map(|address| Ipv4Addr::from_bits(address).to_string()));
            }
            FRAMED_IPV6_ADDRESS => {
                let address = <[u8; 16]>::try_from(value).ok();
                self.gets(address.map(|address| Ipv6Addr::from(address).to_string()));
            }
            FRAMED_IPV6_PREFIX | DELEGATED_IPV6_PREFIX => self.gets(prefix(value)),
            ACCT_STATUS_TYPE if self.code == 4 => {
                self.kind = match number {
                    Some(1) => Kind::Begin,
                    Some(3) => Kind::GoesOn,
                    Some(2) => Kind::End,
                    _ => Kind::Other,
                };
            }
            EVENT_TIMESTAMP => self.at = number,
            ACCT_SESSION_ID => self.session = Some(value.to_vec()),
            // RFC 2866 §2.3 and RFC 5176 §3.1; §3.3.
            PROXY_STATE => self.repeats(kind, value),
            STATE if self.code != 4 => self.repeats(kind, value),
            VENDOR_SPECIFIC => self.vendor(value),
            _ => {}
        }
    }

    fn repeats(&mut self, kind: u8, value: &[u8]) {
        // It came with its length in an octet.
        self.repeated.extend([kind, 2 + value.len() as u8]);
        self.repeated.extend(value);
    }

    /// Whether it is one of accounting.
    #[must_use]
    pub fn is_accounting(&self) -> bool {
        self.code == 4
    }

    fn gets(&mut self, prefix: Option<String>) {
        let prefix = prefix.and_then(|text| text.parse::<Prefix>().ok());
        // 0.0.0.0 and `::` stand for no address yet, and prefixes with them in it for everybody's.
        let nobodys = [
            Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(),
            Ipv6Addr::UNSPECIFIED,
        ];
        let has = |prefix: &Prefix| nobodys.iter().any(|at| prefix.contains(at.octets()));
        let prefix = prefix.filter(|prefix| !has(prefix));
        self.matches.extend(prefix.map(Match::Prefix));
    }

    fn vendor(&mut self, value: &[u8]) {
        let Some((vendor, mut rest)) = value.split_first_chunk::<4>() else {
            return;
        };
        if u32::from_be_bytes(*vendor) != WISPR {
            return;
        }
        while let Some((kind, value)) = attribute(rest) {
            let rate = <[u8; 4]>::try_from(value).map(u32::from_be_bytes).ok();
            let rate = rate.map(|rate| Rate::from_bits_per_second(rate.into()));
            match kind {
                WISPR_UP => self.rates.1 = rate,
                WISPR_DOWN => self.rates.0 = rate,
                _ => {}
            }
            rest = &rest[2 + value.len()..];
        }
    }

    /// The answer: done, or why not. None if a request for accounting was not carried out: its sender sends it again
    /// (RFC 2866 §4.2).
    pub fn answer(&self, done: Result<(), Refused>, secret: &[u8]) -> Option<Vec<u8>> {
        let code = match (self.code, done) {
            (4, Ok(())) => 5,
            (4, Err(_)) => return None,
            (code, Ok(())) => code + 1,
            (code, Err(_)) => code + 2,
        };
        let mut attributes = self.repeated.clone();
        if let Err(why) = done {
            attributes.extend([ERROR_CAUSE, 6]);
            attributes.extend((why as u32).to_be_bytes());
        }
        let length = (HEADER + attributes.len()) as u16;
        let mut packet = vec![code, self.identifier];
        packet.extend(length.to_be_bytes());
        packet.extend(self.authenticator);
        packet.extend(attributes);
        let authenticator = digest(&[&packet, secret]);
        packet[4..HEADER].copy_from_slice(&authenticator);
        Some(packet)
    }
}

/// The type and the value of the first attribute, of at least its header.
fn attribute(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [kind, length, ..] = *bytes else {
        return None;
    };
    Some((kind, bytes.get(2..usize::from(length))?))
}

/// A prefix as in RFC 3162 §2.3: a reserved octet, its length, and as many octets as it has at least.
fn prefix(value: &[u8]) -> Option<String> {
    let [_, length, bits @ ..] = value else {
        return None;
    };
    let mut address = [0; 16];
    address.get_mut(..bits.len())?.copy_from_slice(bits);
    Some(format!("{}/{length}", Ipv6Addr::from(address)))
}

fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut digest = Md5::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().into()
}

/// HMAC-MD5, RFC 2104.
fn keyed(text: &[u8], secret: &[u8]) -> [u8; 16] {
    let mut key = [0; 64];
    match key.get_mut(..secret.len()) {
        Some(part) => part.copy_from_slice(secret),
        None => key[..16].copy_from_slice(&digest(&[secret])),
    }
    let inner = digest(&[&key.map(|byte| byte ^ 0x36), text]);
    digest(&[&key.map(|byte| byte ^ 0x5c), &inner])
}

/// Whether two digests are the same, in a time that does not tell where they differ.
fn same(one: &[u8; 16], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
