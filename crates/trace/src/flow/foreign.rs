//! Which protocols the frames hold that are not IP.

/// Kinds that are counted one by one.
const KINDS: usize = 4;

/// Counts of frames by Ethernet type, of the first few types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Foreign {
    kinds: [(u16, u64); KINDS],
}

impl Foreign {
    pub(super) fn add(&mut self, kind: u16) {
        let seen = |&&mut (other, count): &&mut (u16, u64)| count == 0 || other == kind;
        if let Some((other, count)) = self.kinds.iter_mut().find(seen) {
            *other = kind;
            *count += 1;
        }
    }

    /// The Ethernet types with their counts, the most frequent first. A type below 1536 is a length
    /// (IEEE 802.3 §3.2.6).
    pub fn kinds(&self) -> Vec<(u16, u64)> {
        let mut kinds = self.kinds.to_vec();
        kinds.retain(|&(_, count)| count > 0);
        kinds.sort_by_key(|&(kind, count)| (std::cmp::Reverse(count), kind));
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
        let kinds = [(0x88e5, 3), (0x806, 1), (0x888e, 1), (0x88cc, 1)];
        assert_eq!(foreign.kinds(), kinds);
    }
}
