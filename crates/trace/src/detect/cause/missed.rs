//! Packets that the capture missed.

use crate::annotate::{Sent, Transfer};
use crate::read::Nanos;

/// When packets that the capture missed were sent, and their payload in bytes: what is missing between the bytes that it
/// holds, in full packets, at the time of the packet that follows in the stream. None where it missed more than it holds.
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
    let mut end = sent.first().map_or(0, |sent| sent.seq);
    for next in sent {
        let mut gap = next.seq.saturating_sub(end).min(budget);
        budget -= gap;
        while gap > 0 {
            let len = gap.min(u64::from(transfer.mss.max(1)));
            found.push((next.at, len as u32));
            gap -= len;
        }
        end = end.max(next.seq + u64::from(next.len));
    }
    found
}
