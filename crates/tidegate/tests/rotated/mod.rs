//! A capture in pieces, as `tcpdump -G` writes it.

use std::fs::File;
use std::path::Path;

use tidegate_trace::read::{Capture, LinkType, Nanos};
use tidegate_trace::write::{PcapWriter, Resolution};

/// Writes a capture's packets to three files in a folder, and returns their paths. The order of their names is
/// not that of their packets.
pub fn rotated(capture: &str, folder: &Path) -> Vec<String> {
    let frames = frames(capture);
    let pieces = frames.chunks(frames.len() / 3 + 1).enumerate();
    pieces
        .map(|(i, piece)| write(&folder.join(format!("{}.pcap", 9 - i)), piece))
        .collect()
}

/// A packet of a capture.
pub struct Kept {
    at: Nanos,
    link: LinkType,
    data: Vec<u8>,
    pub wire_len: u32,
}

/// All packets of a capture.
pub fn frames(capture: &str) -> Vec<Kept> {
    let file = File::open(capture).expect("a capture");
    let mut whole = Capture::new(file).expect("pcap");
    let mut frames = Vec::new();
    while let Some(frame) = whole.frame().expect("a frame") {
        frames.push(Kept {
            at: frame.at,
            link: frame.link,
            data: frame.data.to_vec(),
            wire_len: frame.wire_len,
        });
    }
    frames
}

/// Writes a capture of these packets, and returns its path.
pub fn write(path: &Path, frames: &[Kept]) -> String {
    let file = File::create(path).expect("a file");
    let mut out = PcapWriter::new(file, frames[0].link, Resolution::Nanos).expect("a header");
    for frame in frames {
        out.frame(frame.at, &frame.data, frame.wire_len)
            .expect("a frame");
    }
    out.finish().expect("written");
    path.to_str().expect("text").to_owned()
}
