//! A capture in pieces, as `tcpdump -G` writes it.

use std::fs::File;
use std::path::Path;

use tidegate_trace::read::Capture;
use tidegate_trace::write::{PcapWriter, Resolution};

/// Writes a capture's packets to three files in a folder, and returns their paths. The order of their names is
/// not that of their packets.
pub fn rotated(capture: &str, folder: &Path) -> Vec<String> {
    let file = File::open(capture).expect("a capture");
    let mut whole = Capture::new(file).expect("pcap");
    let mut frames = Vec::new();
    while let Some(frame) = whole.frame().expect("a frame") {
        frames.push((frame.at, frame.link, frame.data.to_vec(), frame.wire_len));
    }
    let pieces = frames.chunks(frames.len() / 3 + 1).enumerate();
    pieces
        .map(|(i, piece)| {
            let path = folder.join(format!("{}.pcap", 9 - i));
            let file = File::create(&path).expect("a file");
            let mut out = PcapWriter::new(file, piece[0].1, Resolution::Nanos).expect("a header");
            for (at, _, data, wire_len) in piece {
                out.frame(*at, data, *wire_len).expect("a frame");
            }
            out.finish().expect("written");
            path.to_str().expect("text").to_owned()
        })
        .collect()
}
