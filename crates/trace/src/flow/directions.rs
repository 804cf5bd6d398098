//! Which way packets pass the capturing host, where the capture says so.

/// What the packets of a flow say, by the side that sent them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Directions {
    outbound: [Option<bool>; 2],
    /// A side's packets passed in both directions: nothing follows from them.
    both: bool,
}

impl Directions {
    /// Takes a packet of a side. Whether that changed what is known.
    #[inline]
    pub fn learn(&mut self, side: usize, outbound: Option<bool>) -> bool {
        outbound.is_some() && outbound != self.outbound[side] && self.change(side, outbound)
    }

    #[cold]
    fn change(&mut self, side: usize, outbound: Option<bool>) -> bool {
        let is_new = !self.both;
        self.both |= self.outbound[side].is_some();
        self.outbound[side] = outbound;
        is_new
    }

    /// Whether the data of a side leave the capturing host, and what answers them arrives there. On the loopback interface all
    /// packets arrive.
    pub fn leaves(&self, side: usize) -> Option<bool> {
        let [this, other] = [self.outbound[side]?, self.outbound[1 - side]?];
        (this != other && !self.both).then_some(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_of_both_sides_that_pass_in_opposite_directions_tell() {
        let mut known = Directions::default();
        assert!(!known.learn(0, None) && known.leaves(0).is_none());
        assert!(known.learn(0, Some(false)) && known.leaves(0).is_none());
        assert!(known.learn(1, Some(true)) && !known.learn(1, Some(true)));
        assert_eq!(
            (known.leaves(0), known.leaves(1)),
            (Some(false), Some(true))
        );
        // A packet that comes back changes that for good.
        assert!(known.learn(1, Some(false)) && known.leaves(1).is_none());
        assert!(!known.learn(1, Some(true)) && known.leaves(1).is_none());

        let mut loopback = Directions::default();
        loopback.learn(0, Some(false));
        loopback.learn(1, Some(false));
        assert_eq!(loopback.leaves(0), None);
    }
}
