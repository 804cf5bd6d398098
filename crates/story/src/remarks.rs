//! Why a capture gives no results, or few: one line for each reason.

use tidegate_trace::flow::{Counters, ForeignKind};
use tidegate_trace::read::PassedOver;

use crate::units::plural;

/// Fewer packets may well have been captured at the same time.
const SAME_TIME: u64 = 10;

/// Ethernet types that people know by name.
const NAMES: [(u16, &str); 12] = [
    (0x0806, "ARP"),
    (0x4305, "B.A.T.M.A.N."),
    (0x8863, "PPPoE discovery"),
    (0x888e, "802.1X"),
    (0x8892, "PROFINET"),
    (0x88a4, "EtherCAT"),
    (0x88cc, "LLDP"),
    (0x88e5, "MACsec"),
    (0x88f7, "PTP"),
    (0x8902, "802.1ag"),
    (0x8906, "FCoE"),
    (0x8915, "RoCE"),
];

/// IP protocols that people know by name.
const PROTOCOLS: [(u16, &str); 9] = [
    (1, "ICMP"),
    (2, "IGMP"),
    (17, "UDP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (89, "OSPF"),
    (132, "SCTP"),
];

/// What could not be read of a capture, in a sentence each.
pub fn problems(passed_over: &PassedOver, error: Option<&str>) -> Vec<String> {
    let left_out = passed_over.first.as_ref().map(|first| {
        let packets = plural(passed_over.unsupported, "packet", "packets");
        format!("{first}; {packets} left out")
    });
    let error = error.map(str::to_owned);
    left_out.into_iter().chain(error).collect()
}

/// Why nothing or little can be said about a capture.
pub fn remarks(counters: &Counters) -> Vec<String> {
    let mut found = Vec::new();
    let packets = plural(counters.frames, "packet", "packets");
    if counters.frames > 0 && counters.not_ip == counters.frames {
        found.push(format!(
            "{packets}, none of them IP over a link layer we know{}",
            foreign(counters)
        ));
    } else if counters.frames > 0 && counters.tcp == 0 {
        let parts = [
            (counters.not_tcp, OTHER_IP),
            (counters.not_ip, "not IP"),
            (counters.fragments, "fragments"),
            (counters.cut, "cut before the TCP header"),
            (counters.malformed, "malformed"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| match *what {
                OTHER_IP => format!("{count} {what}{}", protocols(counters)),
                _ => format!("{count} {what}"),
            })
            .collect();
        let parts = parts.join(", ");
        found.push(format!(
            "{packets}, none of them TCP that can be read: {parts}"
        ));
    }
    if let Some(span) = counters.span
        && span.first == span.last
        && (span.last == 0 || counters.frames >= SAME_TIME)
    {
        let when = match span.last {
            0 => "no packet has a time (all are 0)",
            _ => "all packets have the same time",
        };
        found.push(format!(
            "{when}: rates, round-trip times and verdicts say nothing"
        ));
    }
    found
}

const OTHER_IP: &str = "other IP";

/// The IP protocols, if there are any.
fn protocols(counters: &Counters) -> String {
    let kinds = counters.protocols.kinds().into_iter();
    let kinds: Vec<String> = kinds
        .map(|ForeignKind { number, frames }| {
            let name = PROTOCOLS.iter().find(|(known, _)| *known == number);
            match name {
                Some((_, name)) => format!("{frames} {name}"),
                None => format!("{frames} of protocol {number}"),
            }
        })
        .collect();
    match kinds.is_empty() {
        true => String::new(),
        false => format!(" ({})", kinds.join(", ")),
    }
}

/// The Ethernet types, if there are any.
fn foreign(counters: &Counters) -> String {
    let kinds: Vec<String> = counters
        .foreign
        .kinds()
        .into_iter()
        .map(|ForeignKind { number, frames }| {
            let name = NAMES.iter().find(|(known, _)| *known == number);
            match name {
                _ if number < 1536 => format!("{frames} of IEEE 802.2"),
                Some((_, name)) => format!("{frames} of Ethernet type 0x{number:04x} ({name})"),
                None => format!("{frames} of Ethernet type 0x{number:04x}"),
            }
        })
        .collect();
    match kinds.is_empty() {
        true => String::new(),
        false => format!(": {}", kinds.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_trace::flow::Span;

    #[test]
    fn what_cannot_be_read_is_named() {
        let span = |first, last| Some(Span { first, last });
        let macsec = Counters {
            frames: 42_253,
            not_ip: 42_253,
            span: span(5, 9),
            ..Counters::default()
        };
        assert_eq!(
            remarks(&macsec),
            ["42253 packets, none of them IP over a link layer we know"]
        );
        let udp = Counters {
            frames: 3,
            not_tcp: 2,
            cut: 1,
            span: span(0, 0),
            ..Counters::default()
        };
        assert_eq!(
            remarks(&udp),
            [
                "3 packets, none of them TCP that can be read: 2 other IP, 1 cut before the TCP header",
                "no packet has a time (all are 0): rates, round-trip times and verdicts say nothing",
            ]
        );
        assert!(remarks(&Counters::default()).is_empty());
    }
}
