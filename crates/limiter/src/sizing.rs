//! How large to make a bucket or a queue, each advice with its source.
//!
//! Rates are of the aggregate, round-trip times the largest that is to be served well; sizes come out
//! in bytes, rounded up, and never above `u64::MAX`.

use crate::{Nanos, Rate};

#[cfg(test)]
mod tests;

/// What flows meet on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The longest round-trip time that is to be served well.
    pub rtt: Nanos,
    /// Bytes of a full packet.
    pub mss: u32,
}

/// The bandwidth-delay product, for each queue of a shaper and for a policer that is to drop early
/// [BCPQP §6.1]. A policer of this size stays below its rate with Reno and CUBIC.
pub fn bdp(rate: Rate, rtt: Nanos) -> u64 {
    narrow(wide_bdp(rate, rtt))
}

/// What keeps a backlogged Reno flow at the rate behind a policer or phantom queue:
/// BDP² / 18 full packets [BCPQP §3.5, appendix A].
///
/// For 10 Mbit/s, 100 ms and packets of 1500 bytes this is 579 kB, where [BCPQP §3.5, figure 2]
/// asks for "at least 1000 KB". The formula has the window grow by a packet each round trip. If it
/// takes two, as behind delayed acknowledgements that count only once (RFC 5681 §3.1), the area in
/// figure 8 doubles, to 1157 kB: the figure lies between the two.
pub fn reno(rate: Rate, path: Path) -> u64 {
    let bdp = wide_bdp(rate, path.rtt);
    narrow(
        bdp.saturating_mul(bdp)
            .div_ceil(18 * u128::from(path.mss.max(1))),
    )
}

/// What keeps a backlogged CUBIC flow at the rate behind a policer or phantom queue:
/// (G / RTT) · BDP^(4/3) full packets, with RTT in seconds and G = 0.0357.
///
/// G follows from C = 0.4 and β = 0.7 (RFC 9438 §4.1) as Reno's 1/18 does from its halving: the
/// mean window over an epoch, W(1 − 0.3/4), has to be the BDP, so W is BDP / 0.925; what is sent
/// beyond the BDP while C·u³ < 0.075·W is ¾ · 0.075·W · (0.075·W / C)^(1/3) / RTT.
pub fn cubic(rate: Rate, path: Path) -> u64 {
    // BDP/RTT is the rate, which leaves G · rate · BDP^(1/3), and the root in millionths.
    let bits = u128::from(rate.bits_per_second());
    let packets = wide_bdp(rate, path.rtt).saturating_mul(1_000_000) / u128::from(path.mss.max(1));
    let root = cube_root(packets.saturating_mul(1_000_000_000_000));
    let scaled = bits.saturating_mul(root).saturating_mul(357);
    narrow(scaled.div_ceil(8 * 1_000_000 * 10_000))
}

/// The smallest bucket or phantom queue with which Reno and CUBIC both come to the rate: a large
/// policer ("Policer+") and FairPolicer in [BCPQP §6.1]. CUBIC asks for more at small rates and
/// round-trip times, Reno at large ones.
pub fn correct_rate(rate: Rate, path: Path) -> u64 {
    reno(rate, path).max(cubic(rate, path))
}

/// A queue of BC-PQP: at least ten times what the average needs. Its burst control bounds bursts,
/// not its size, so more does no harm [BCPQP §4, §6.1].
pub fn phantom_queue(rate: Rate, path: Path) -> u64 {
    correct_rate(rate, path).saturating_mul(10)
}

/// A bucket for a policer whose users watch video, where short stalls matter more than the last
/// percents of the rate: 32 kB, which did best of 8 kB to 8 MB at 500 kbit/s [Flach16 §5.1.1,
/// table 5], or the bandwidth-delay product where that is larger. The paper measured no other
/// rate; that the advice grows with the product is ours.
pub fn policer_burst(rate: Rate, rtt: Nanos) -> u64 {
    bdp(rate, rtt).max(32_000)
}

/// In bytes, rounded up.
fn wide_bdp(rate: Rate, rtt: Nanos) -> u128 {
    (u128::from(rate.bits_per_second()) * u128::from(rtt)).div_ceil(8_000_000_000)
}

fn narrow(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The largest whole number whose cube is not above the value, bit by bit from the top.
fn cube_root(value: u128) -> u128 {
    (0..43).rev().fold(0u128, |root, bit| {
        let next = root | 1 << bit;
        match next.checked_pow(3) {
            Some(cube) if cube <= value => next,
            _ => root,
        }
    })
}
