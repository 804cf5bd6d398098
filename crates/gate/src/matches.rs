//! How a subscriber's packets are recognised, as text: `192.0.2.0/24`, `2001:db8::/56`, `vlan 100`,
//! `qinq 100.200`, `pppoe 17`.

use std::fmt;
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

/// Reads addresses.
pub(crate) fn prefix(text: &str) -> Result<Match, String> {
    text.parse()
        .map(Match::Prefix)
        .map_err(|error: tidegate_limiter::PrefixError| error.to_string())
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
