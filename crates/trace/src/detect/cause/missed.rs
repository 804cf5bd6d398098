//! Packets that the capture missed.

use crate::annotate::{Sent, Transfer};
use crate::read::Nanos;

/// When packets that the capture missed were sent, and their payload in bytes: what is missing between the bytes that it
/// holds, in full packets, spread evenly over the time between the packets that come before and behind in the stream. None where it
/// missed more than it holds.
pub(super) fn missed(transfer: &Transfer<'_>) -> Vec<(Nanos, u32)> {
    let mut found = Vec::new();
    let mut budget = transfer.tally.missed();
    if budget == 0 {
        return found;
    }
    // What is sent again may be an earlier transfer's.
    let own = |sent: &&Sent| sent.seq > transfer.origin;
    let mut sent: Vec<&Sent> = transfer.sent.iter().filter(own).collect();
    sent.sort_by_key(|sent| (sent.seq, sent.at));
    let full = u64::from(transfer.mss.max(1));
    let (mut end, mut before) = sent.first().map_or((0, 0), |sent| (sent.seq, sent.at));
    for next in sent {
        let gap = next.seq.saturating_sub(end).min(budget);
        budget -= gap;
        let packets = gap.div_ceil(full);
        let step = next.at.saturating_sub(before) / (packets + 1);
        for i in 1..=packets {
            let len = full.min(gap - (i - 1) * full);
            found.push((next.at - (packets + 1 - i) * step, len as u32));
        }
        let last = next.seq + u64::from(next.len);
        if last > end {
            (end, before) = (last, next.at);
        }
    }
    found
}
