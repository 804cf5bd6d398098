//! Which protocols the frames hold that are not IP, or not TCP.

/// Kinds that are counted one by one.
const KINDS: usize = 4;

/// Counts of frames by Ethernet type or IP protocol, of the first few.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Foreign {
    kinds: [ForeignKind; KINDS],
}

/// Frames of an Ethernet type or IP protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignKind {
    /// The number of the IP protocol, or the Ethernet type. Below 1536 that is a length (IEEE 802.3 §3.2.6).
    pub number: u16,
    /// Frames that have it.
    pub frames: u64,
}

impl Foreign {
    pub(super) fn add(&mut self, kind: u16) {
        let seen = |one: &&mut ForeignKind| one.frames == 0 || one.number == kind;
        if let Some(one) = self.kinds.iter_mut().find(seen) {
            one.number = kind;
            one.frames += 1;
        }
    }

    /// The types or protocols with their counts, the most frequent first.
    pub fn kinds(&self) -> Vec<ForeignKind> {
        let mut kinds = self.kinds.to_vec();
        kinds.retain(|kind| kind.frames > 0);
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.frames), kind.number));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_kinds_are_counted() {
        let mut foreign = Foreign::default();
        for kind in [0x806, 0x88e5, 0x88e5, 0x88cc, 0x888e, 0x8899, 0x88e5] {
            foreign.add(kind);
        }
        let kind = |(number, frames)| ForeignKind { number, frames };
        let kinds = [(0x88e5, 3), (0x806, 1), (0x888e, 1), (0x88cc, 1)].map(kind);
        assert_eq!(foreign.kinds(), kinds);
    }
}
