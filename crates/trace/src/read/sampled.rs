//! What a sampler says of its capture.

use std::sync::Arc;

use super::clients::Clients;
use super::error::Reason;

/// What the comment of `tidegate sample` begins with.
const BEGIN: &str = "tidegate sample: ";

/// The least share of all flows that a sampler can have.
pub const LEAST_SHARE: f64 = 1e-9;

/// What `tidegate sample` wrote into the header of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The share of all flows that the capture holds: [`LEAST_SHARE`] to 1.
    pub share: f64,
    /// Whether addresses are pseudonyms, so that nothing is known of their networks.
    pub pseudonyms: bool,
    /// Which addresses are one client.
    pub clients: Clients,
    /// The host and the interface, if both are said.
    pub place: Option<Arc<str>>,
}

impl Sampled {
    /// What the comment of a section header says. A comment of another origin says nothing.
    pub(super) fn new(comment: &[u8]) -> Option<Self> {
        let words = std::str::from_utf8(comment).ok()?.strip_prefix(BEGIN)?;
        let word = |name| {
            let mut words = words.split(' ');
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let share = word("fraction")?.parse().ok()?;
        (LEAST_SHARE..=1.0).contains(&share).then(|| Self {
            share,
            pseudonyms: word("addresses") == Some("pseudonym"),
            clients: clients(
                word("prefixes"),
                word("addresses").and_then(|form| form.strip_prefix("prefix:")),
            ),
            place: word("host")
                .zip(word("interface"))
                .map(|(host, interface)| printable(&format!("{interface} of {host}")).into()),
        })
    }

    /// What is wrong with frames of this sampler behind those of another one.
    pub(super) fn behind(&self, before: &Self) -> Option<Reason> {
        let (before, after) = before.place.as_ref().zip(self.place.as_ref())?;
        (before != after).then(|| Reason::OtherSampler {
            before: Arc::clone(before),
            after: Arc::clone(after),
        })
    }
}

/// Text for a terminal, which obeys control characters: whoever wrote the capture must not command it.
fn printable(text: &str) -> String {
    let one = |letter: char| match letter.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    text.chars().map(one).collect()
}

/// Which addresses are one client: by the prefixes of clients that were sampled as a whole, and by the bits that are kept of
/// addresses.
fn clients(prefixes: Option<&str>, kept: Option<&str>) -> Clients {
    let prefixes = prefixes.and_then(lengths).unwrap_or(Clients::ADDRESSES);
    // Addresses that are cut in a way that is not understood tell no clients apart.
    let kept = kept.map_or(Clients::ADDRESSES, |kept| lengths(kept).unwrap_or((0, 0)));
    Clients::new(prefixes, kept)
}

/// Two lengths of prefixes: the one of IPv4 and the one of IPv6.
fn lengths(text: &str) -> Option<(u8, u8)> {
    let (v4, v6) = text.split_once(',')?;
    Some((v4.parse().ok()?, v6.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_from_the_comment_of_a_sampler_alone() {
        let comment = |text: &str| Sampled::new(text.as_bytes()).map(|said| said.share);
        let whole = "tidegate sample: fraction=0.005 by=flow addresses=keep asked=0.01";
        assert_eq!(comment(whole), Some(0.005));
        assert_eq!(comment("tidegate sample: fraction=1"), Some(1.0));
        for wrong in [
            "",
            "fraction=0.1",
            "tidegate sample: by=flow",
            "x: fraction=0.1",
        ] {
            assert_eq!(comment(wrong), None, "{wrong}");
        }
        for share in ["0", "-1", "1.5", "NaN", "inf", "", "a", "1e-10"] {
            let text = format!("tidegate sample: fraction={share} by=flow");
            assert_eq!(comment(&text), None, "{share}");
        }
        assert_eq!(Sampled::new(b"tidegate sample: fraction=0.1 \xff"), None);
    }

    #[test]
    fn a_client_is_what_was_sampled_as_a_whole_unless_addresses_are_cut_before() {
        let all = Clients::ADDRESSES;
        for (text, clients) in [
            ("by=flow addresses=keep", Clients::default()),
            (
                "by=client prefixes=32,56 addresses=keep",
                Clients::new((32, 56), all),
            ),
            (
                "by=client prefixes=24,64 addresses=pseudonym",
                Clients::new((24, 64), all),
            ),
            (
                "by=client prefixes=32,56 addresses=prefix:24,48",
                Clients::new((32, 56), (24, 48)),
            ),
            ("by=client prefixes=32 addresses=keep", Clients::default()),
            (
                "by=client prefixes=32,999 addresses=keep",
                Clients::default(),
            ),
            ("addresses=prefix:x", Clients::new(all, (0, 0))),
        ] {
            let text = format!("tidegate sample: fraction=0.1 {text} host=web1 interface=eth0");
            let said = Sampled::new(text.as_bytes()).expect("a sampler's");
            assert_eq!(said.clients, clients, "{text}");
        }
    }

    #[test]
    fn samplers_are_told_apart_by_host_and_interface() {
        let said = |text: &str| {
            let text = format!("tidegate sample: fraction=0.1 by=flow {text}");
            Sampled::new(text.as_bytes()).expect("a sampler's")
        };
        let one = said("addresses=pseudonym host=web1 interface=eth0 asked=0.2");
        assert!(one.pseudonyms && !said("addresses=keep").pseudonyms);
        assert_eq!(one.place.as_deref(), Some("eth0 of web1"));
        assert_eq!(said("host=web1 interface=eth0").behind(&one), None);
        assert_eq!(said("host=web2").behind(&one), None);
        for other in ["host=web2 interface=eth0", "host=web1 interface=eth1"] {
            assert!(said(other).behind(&one).is_some(), "{other}");
        }
        // What a terminal would obey is not told.
        let other = said("host=a\x1b[31mb\u{9b}2J\x07 interface=eth0\n");
        assert_eq!(
            other.place.as_deref(),
            Some("eth0\u{fffd} of a\u{fffd}[31mb\u{fffd}2J\u{fffd}")
        );
    }
}
