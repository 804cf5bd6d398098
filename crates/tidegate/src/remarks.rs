//! Why a capture gives no results, or few: one line for each reason.

use tidegate_trace::flow::{Counters, ForeignKind};

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
            (counters.not_tcp, "other IP"),
            (counters.not_ip, "not IP"),
            (counters.fragments, "fragments"),
            (counters.cut, "cut before the TCP header"),
            (counters.malformed, "malformed"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
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

/// The Ethernet types, if there are any.
fn foreign(counters: &Counters) -> String {
    let kinds: Vec<String> = counters
        .foreign
        .kinds()
        .into_iter()
        .map(|ForeignKind { ether_type, frames }| {
            let name = NAMES.iter().find(|(known, _)| *known == ether_type);
            match name {
                _ if ether_type < 1536 => format!("{frames} of IEEE 802.2"),
                Some((_, name)) => format!("{frames} of Ethernet type 0x{ether_type:04x} ({name})"),
                None => format!("{frames} of Ethernet type 0x{ether_type:04x}"),
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
