//! Round-trip times as Wireshark shows them, and as the text of the study does: from the first
//! transmission of a segment to the acknowledgement of its end, however often it was sent between.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use anyhow::Result;
use tidegate_trace::read::{Capture, Nanos};
use tidegate_trace::wire;

/// All of a capture's at its sender's side, of packets with payload, sorted.
pub fn wireshark(capture: &Path) -> Result<Vec<Nanos>> {
    let mut capture = Capture::new(File::open(capture)?)?;
    let mut sent: BTreeMap<_, Nanos> = BTreeMap::new();
    let mut times = Vec::new();
    while let Some(frame) = capture.frame()? {
        let Ok(packet) = wire::decode(&frame) else {
            continue;
        };
        if packet.payload > 0 {
            let end = packet.seq.wrapping_add(packet.payload);
            sent.entry((packet.src, packet.dst, end))
                .or_insert(packet.at);
        } else if let Some(at) = sent.remove(&(packet.dst, packet.src, packet.ack)) {
            times.push(packet.at.saturating_sub(at));
        }
    }
    times.sort_unstable();
    Ok(times)
}
