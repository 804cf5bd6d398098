//! How a subscriber's packets are recognised, as text: `192.0.2.0/24`, `2001:db8::/56`, `vlan 100`,
//! `qinq 100.200`, `pppoe 17`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::table::Match;

#[cfg(test)]
mod tests;

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Vlan(tag) => write!(f, "vlan {tag}"),
            Self::QinQ { outer, inner } => write!(f, "qinq {outer}.{inner}"),
            Self::Pppoe(session) => write!(f, "pppoe {session}"),
        }
    }
}

/// Why a text is not a [`Match`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatchError(String);

impl FromStr for Match {
    type Err = MatchError;

    /// Reads the text that `Display` writes.
    fn from_str(text: &str) -> Result<Self, MatchError> {
        parse(text).map_err(MatchError)
    }
}

fn parse(text: &str) -> Result<Match, String> {
    match text.split_once(' ') {
        None => prefix(text),
        Some(("vlan", tag)) => vlan(tag),
        Some(("qinq", pair)) => qinq(pair),
        Some(("pppoe", session)) => pppoe(session),
        Some(_) => Err(format!(
            "'{text}' is not an address, `vlan N`, `qinq N.N` or `pppoe N`"
        )),
    }
}

/// What reads the values of a key.
type Reader = fn(&str) -> Result<Vec<Match>, String>;

/// The keys of a subscriber that say how its packets are recognised, in the configuration and in lists.
pub(crate) const KEYS: [(&str, Reader); 4] = [
    ("addresses", addresses),
    ("vlan", |text| Ok(vec![vlan(text)?])),
    ("qinq", |text| Ok(vec![qinq(text)?])),
    ("pppoe", |text| Ok(vec![pppoe(text)?])),
];

/// The key of a match.
pub(crate) fn key(what: &Match) -> &'static str {
    KEYS[match what {
        Match::Prefix(_) => 0,
        Match::Vlan(_) => 1,
        Match::QinQ { .. } => 2,
        Match::Pppoe(_) => 3,
    }]
    .0
}

/// Reads what a subscriber is recognised by: addresses, prefixes, a range, `vlan 7`, `qinq 7.8` or `pppoe 9`.
///
/// # Errors
/// If it is none of these.
pub fn read(text: &str) -> Result<Vec<Match>, MatchError> {
    let text = text.trim();
    if KEYS[1..].iter().any(|(key, _)| *key == text) {
        // A shell took the words apart.
        let number = if text == "qinq" { "7.8" } else { "7" };
        let message =
            format!("`{text}` lacks its number: write both in quotes, such as \"{text} {number}\"");
        return Err(MatchError(message));
    }
    let read = match text.contains(' ') && !text.contains('-') {
        true => parse(text).map(|what| vec![what]),
        false => addresses(text),
    };
    read.map_err(MatchError)
}

/// Reads addresses.
pub(crate) fn prefix(text: &str) -> Result<Match, String> {
    text.parse()
        .map(Match::Prefix)
        .map_err(|error: tidegate_limiter::PrefixError| error.to_string())
}

/// Reads addresses, also as a range: `192.0.2.10-192.0.2.20`, or `192.0.2.10-20`. A range becomes the few prefixes
/// that hold just its addresses.
pub(crate) fn addresses(text: &str) -> Result<Vec<Match>, String> {
    let Some((first, last)) = text.split_once('-') else {
        return Ok(vec![prefix(text)?]);
    };
    let wrong = || {
        format!(
            "'{text}' is no range of addresses: write two of one family, the lower one first, such as 192.0.2.10-192.0.2.20"
        )
    };
    let (first, last) = (first.trim(), last.trim());
    let from: IpAddr = first.parse().map_err(|_| wrong())?;
    let to: IpAddr = match (last.parse::<u8>(), first.rsplit_once('.')) {
        (Ok(_), Some((network, _))) if from.is_ipv4() => format!("{network}.{last}").parse(),
        _ => last.parse(),
    }
    .map_err(|_| wrong())?;
    let (mut from, to, width) = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (from.to_bits().into(), to.to_bits().into(), 32),
        (IpAddr::V6(from), IpAddr::V6(to)) => (from.to_bits(), to.to_bits(), 128),
        _ => return Err(wrong()),
    };
    if from > to {
        return Err(wrong());
    }
    let mut prefixes = Vec::new();
    loop {
        // The largest prefix that begins here and does not go beyond the end.
        let aligned = from.trailing_zeros().min(width);
        let fits = |bits: &u32| match 1u128.checked_shl(*bits) {
            Some(count) => count - 1 <= to - from,
            None => from == 0 && to == u128::MAX,
        };
        let bits = (0..=aligned).rev().find(fits).unwrap_or(0);
        let address: IpAddr = match width {
            32 => Ipv4Addr::from_bits(from as u32).into(),
            _ => Ipv6Addr::from_bits(from).into(),
        };
        prefixes.push(prefix(&format!("{address}/{}", width - bits))?);
        let count = 1u128.checked_shl(bits).unwrap_or(0);
        match from.checked_add(count) {
            Some(next) if count > 0 && next <= to => from = next,
            _ => return Ok(prefixes),
        }
    }
}

/// Reads a VLAN tag.
pub(crate) fn vlan(text: &str) -> Result<Match, String> {
    tag(text).map(Match::Vlan)
}

/// Reads a pair of tags.
pub(crate) fn qinq(text: &str) -> Result<Match, String> {
    let pair = text.split_once('.');
    let (outer, inner) = pair.ok_or_else(|| {
        format!("'{text}' is not a pair of VLAN tags: write the outer and the inner one with a dot, such as 100.200")
    })?;
    Ok(Match::QinQ {
        outer: tag(outer)?,
        inner: tag(inner)?,
    })
}

/// Reads a PPPoE session. 0 and 65535 are reserved, RFC 2516 §4.
pub(crate) fn pppoe(text: &str) -> Result<Match, String> {
    let number = text.trim().parse().ok();
    let session = number.filter(|session| (1..u16::MAX).contains(session));
    session
        .map(Match::Pppoe)
        .ok_or_else(|| format!("'{text}' is not a PPPoE session: write a number from 1 to 65534"))
}

/// Reads a tag. 0 means no VLAN and 4095 is reserved, IEEE 802.1Q §9.6.
fn tag(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok();
    let tag = number.filter(|tag| (1..=4094).contains(tag));
    tag.ok_or_else(|| format!("'{text}' is not a VLAN tag: write a number from 1 to 4094"))
}
