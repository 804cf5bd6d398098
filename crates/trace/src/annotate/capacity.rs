//! The bottleneck's capacity, from the spacing of acknowledgements.
//!
//! A burst leaves the bottleneck spread out to its rate, and the acknowledgements carry that
//! spacing back [Flach16 §4.2, citing packet-pair methods]. Single pairs are noise; trains of
//! packets are not.

use super::sent::Sent;
use crate::read::Nanos;

/// Full packets in a train.
const TRAIN: u64 = 8;
const PERCENTILE: usize = 75;

/// The bottleneck's capacity, or the burst throughput where nothing but the sender limited it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Payload bits per second: the 75th percentile of the trains' rates. Cross traffic only ever
    /// spreads a train further, and acknowledgements that were held up and came together only ever
    /// make it look denser; of the percentiles, this one was within 5 % on every shaper
    /// that TCP kept busy (studies/annotator-accuracy).
    pub bps: f64,
    /// How many trains there were.
    pub trains: usize,
}

/// An acknowledgement, and the last packet that it acknowledged.
#[derive(Clone, Copy)]
struct Point {
    acked_at: Nanos,
    sent_at: Nanos,
    bytes: u64,
}

impl Capacity {
    pub(super) fn of(sent: &[Sent], mss: u32, rates: &mut Vec<f64>) -> Option<Self> {
        rates.clear();
        let train = TRAIN * u64::from(mss);
        let mut start: Option<Point> = None;
        let mut last: Option<Point> = None;
        let mut bytes = 0;
        for packet in sent {
            // A loss, a retransmission or a hole ends the train: its spacing is not the network's.
            let clean = packet.rtt().is_some() && !packet.lost() && !packet.is_retransmission();
            let Some(before) = last.filter(|last| clean && packet.acked_at >= last.acked_at) else {
                bytes = u64::from(packet.len);
                last = clean.then_some(Point {
                    acked_at: packet.acked_at,
                    sent_at: packet.at,
                    bytes,
                });
                start = None;
                continue;
            };
            if packet.acked_at > before.acked_at {
                // `before` was the last packet of its acknowledgement.
                match start {
                    None => start = Some(before),
                    Some(first) if before.bytes - first.bytes >= train => {
                        let acked = before.acked_at - first.acked_at;
                        let spread = before.sent_at.saturating_sub(first.sent_at);
                        // Spread out further than it was sent, or sent as it was acknowledged.
                        if acked > 0 && acked >= spread / 10 * 9 {
                            rates.push((before.bytes - first.bytes) as f64 * 8e9 / acked as f64);
                        }
                        start = Some(before);
                    }
                    Some(_) => {}
                }
            }
            bytes += u64::from(packet.len);
            last = Some(Point {
                acked_at: packet.acked_at,
                sent_at: packet.at,
                bytes,
            });
        }
        let trains = rates.len();
        if trains == 0 {
            return None;
        }
        let rank = (trains * PERCENTILE).div_ceil(100) - 1;
        let (_, &mut bps, _) = rates.select_nth_unstable_by(rank, f64::total_cmp);
        Some(Self { bps, trains })
    }
}
