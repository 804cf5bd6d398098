//! What tells a subscriber's packets, as text: `192.0.2.0/24`, `2001:db8::/56`, `vlan 100`,
//! `qinq 100.200`, `pppoe 17`.

use crate::table::Match;

#[cfg(test)]
mod tests;

/// As it is written.
pub fn text(of: &Match) -> String {
    match of {
        Match::Prefix(prefix) => prefix.to_string(),
        Match::Vlan(tag) => format!("vlan {tag}"),
        Match::QinQ { outer, inner } => format!("qinq {outer}.{inner}"),
        Match::Pppoe(session) => format!("pppoe {session}"),
    }
}

/// Reads what [`text`] writes.
///
/// # Errors
/// Why it is none.
pub fn parse(text: &str) -> Result<Match, String> {
    match text.split_once(' ') {
        None => prefix(text),
        Some(("vlan", tag)) => vlan(tag),
        Some(("qinq", pair)) => qinq(pair),
        Some(("pppoe", session)) => pppoe(session),
        Some(_) => Err(format!("'{text}' tells no packets")),
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
        format!("'{text}' is no pair of tags: write the outer one first, 100.200")
    })?;
    Ok(Match::QinQ {
        outer: tag(outer)?,
        inner: tag(inner)?,
    })
}

/// Reads a PPPoE session. 0 and 65535 are none, RFC 2516 §4.
pub(crate) fn pppoe(text: &str) -> Result<Match, String> {
    let number = text.trim().parse().ok();
    let session = number.filter(|session| (1..u16::MAX).contains(session));
    session
        .map(Match::Pppoe)
        .ok_or_else(|| format!("'{text}' is no PPPoE session: they are numbers from 1 to 65534"))
}

/// 0 is no VLAN, 4095 is reserved, IEEE 802.1Q §9.6.
fn tag(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok();
    let tag = number.filter(|tag| (1..=4094).contains(tag));
    tag.ok_or_else(|| format!("'{text}' is no VLAN tag: they are numbers from 1 to 4094"))
}
