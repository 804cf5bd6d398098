//! Losses by their position in the burst: a bucket drops what comes late in a burst, chance drops anything.

use super::passage::{Fate, Passage};

/// Packets at positions in their bursts, in bytes on the link that passed before in the same burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The least position.
    pub from: u32,
    /// The position from which packets are counted further on; `None` for the last one, which has no end.
    pub to: Option<u32>,
    /// Packets with data there.
    pub packets: u64,
    /// Of these, packets lost between the places.
    pub lost: u64,
}

impl Position {
    /// Lost packets of all there.
    pub fn loss_rate(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }
}

/// Counts packets with data in up to `most` parts of equal length, a whole number of full packets, up to the
/// position of the last loss, and in one more part that holds the rest. Empty without losses.
pub fn positions<'a>(
    passages: impl Iterator<Item = &'a Passage> + Clone,
    most: u32,
) -> Vec<Position> {
    let counted = |p: &&Passage| p.payload > 0 && p.fate != Fate::Uncovered;
    let lost = passages.clone().filter(counted).filter(|p| p.lost());
    let Some(last) = lost.map(|passage| passage.in_burst).max() else {
        return Vec::new();
    };
    let full = passages.clone().map(|passage| passage.link_bytes).max();
    let full = full.unwrap_or(1).max(1);
    let step = (last / most.max(1) / full + 1).saturating_mul(full);
    let parts = last / step + 1;
    let part = |i: u32| Position {
        from: i.saturating_mul(step),
        to: (i < parts).then(|| (i + 1).saturating_mul(step)),
        packets: 0,
        lost: 0,
    };
    let mut counts: Vec<Position> = (0..=parts).map(part).collect();
    for passage in passages.filter(counted) {
        let there = &mut counts[(passage.in_burst / step).min(parts) as usize];
        there.packets += 1;
        there.lost += u64::from(passage.lost());
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three bursts of ten packets, each of 100 bytes, of which those from the sixth on are lost in the last
    /// burst.
    #[test]
    fn late_packets_of_bursts_are_counted_apart() {
        let passage = |burst: u32, number: u32| Passage {
            at: 0,
            stream: 0,
            link_bytes: 100,
            ip_bytes: 100,
            payload: 60,
            seen: true,
            in_flight: 0,
            in_burst: number * 100,
            fate: match (burst, number) {
                (2, 5..) => Fate::Lost,
                _ => Fate::Passed(None),
            },
        };
        let all: Vec<Passage> = (0..3)
            .flat_map(|burst| (0..10).map(move |number| passage(burst, number)))
            .collect();
        let found = positions(all.iter(), 2);
        let part = |from, to, packets, lost| Position {
            from,
            to,
            packets,
            lost,
        };
        let expected = [
            part(0, Some(500), 15, 0),
            part(500, Some(1000), 15, 5),
            part(1000, None, 0, 0),
        ];
        assert_eq!(found, expected);
        assert!((found[1].loss_rate() - 1.0 / 3.0).abs() < 1e-9);
        assert!(positions(all[..20].iter(), 2).is_empty());
    }
}
