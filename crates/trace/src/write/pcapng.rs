//! Captures in the pcapng format, of one section and one interface. [draft-ietf-opsawg-pcapng]

use std::io::{self, Write};

use crate::read::{LinkType, Nanos};

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;

/// What the section header says. Texts that are empty are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Section<'a> {
    /// The operating system.
    pub system: &'a str,
    /// The program that writes.
    pub program: &'a str,
    /// Anything else.
    pub comment: &'a str,
}

/// What the file says of the interface.
#[derive(Debug, Clone, Copy)]
pub struct Interface<'a> {
    /// Its name, such as `eth0`.
    pub name: &'a str,
    /// What frames begin with.
    pub link: LinkType,
    /// Which packets are captured, in words. An empty text is left out.
    pub filter: &'a str,
}

/// What is known of a packet besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Whether it left this machine; `None` where that is unknown.
    pub outbound: Option<bool>,
    /// Its checksum was not computed yet, because the interface does that.
    pub checksum_not_ready: bool,
    /// It is a super-packet: the interface cuts it into packets, or has joined it from packets.
    pub super_packet: bool,
}

impl Marks {
    /// As the option `epb_flags`.
    fn bits(self) -> u32 {
        let direction = match self.outbound {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        direction | u32::from(self.checksum_not_ready) << 9 | u32::from(self.super_packet) << 11
    }
}

/// Counts at the end of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// When the capture began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Packets that passed the filter.
    pub accepted: u64,
    /// Packets that passed the filter and were lost, since there was no space for them.
    pub dropped: u64,
    /// Packets that were written.
    pub written: u64,
}

/// Writes a pcapng file, little endian, with times in nanoseconds.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header and describes the interface.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: W, section: &Section<'_>, interface: &Interface<'_>) -> io::Result<Self> {
        let mut this = Self {
            out,
            block: Vec::new(),
        };
        this.begin(SECTION);
        this.words(&[BYTE_ORDER, 1]);
        // The section's length is unknown.
        this.words(&[u32::MAX, u32::MAX]);
        this.text(1, section.comment);
        this.text(3, section.system);
        this.text(4, section.program);
        this.end()?;
        this.begin(INTERFACE);
        // No snapshot length: it differs by packet.
        this.words(&[u32::from(interface.link.0), 0]);
        this.text(2, interface.name);
        this.option(9, &[9]);
        if !interface.filter.is_empty() {
            // The kind of filter comes first: 0 is a text.
            this.option(11, &[&[0], interface.filter.as_bytes()].concat());
        }
        this.end()?;
        Ok(this)
    }

    /// Writes a frame: the bytes that are kept of it, and its length on the wire.
    ///
    /// # Errors
    /// Those of the output.
    pub fn frame(
        &mut self,
        at: Nanos,
        bytes: &[u8],
        wire_len: u32,
        marks: Marks,
    ) -> io::Result<()> {
        self.begin(PACKET);
        let kept = bytes.len() as u32;
        self.words(&[0, (at >> 32) as u32, at as u32, kept, wire_len]);
        self.block.extend_from_slice(bytes);
        self.pad();
        if marks != Marks::default() {
            self.option(2, &marks.bits().to_le_bytes());
        }
        self.end()
    }

    /// Writes counts of the interface.
    ///
    /// # Errors
    /// Those of the output.
    pub fn statistics(&mut self, counts: &Statistics) -> io::Result<()> {
        let Statistics { start, end, .. } = *counts;
        self.begin(STATISTICS);
        self.words(&[0, (end >> 32) as u32, end as u32]);
        for (code, time) in [(2, start), (3, end)] {
            let halves = [(time >> 32) as u32, time as u32].map(u32::to_le_bytes);
            self.option(code, halves.as_flattened());
        }
        for (code, count) in [
            (6, counts.accepted),
            (7, counts.dropped),
            (8, counts.written),
        ] {
            self.option(code, &count.to_le_bytes());
        }
        self.end()
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Gives the output back. It is not flushed.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.words(&[kind, 0]);
    }

    /// Writes the block, with its length at both ends.
    fn end(&mut self) -> io::Result<()> {
        // After any options. Of a block without options this is the end of none.
        self.words(&[0]);
        let length = (self.block.len() + 4) as u32;
        self.words(&[length]);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.option(code, text.as_bytes());
        }
    }

    /// An option of at most 65,535 bytes; more are cut off.
    fn option(&mut self, code: u16, value: &[u8]) {
        let length = value.len().min(usize::from(u16::MAX));
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(length as u16).to_le_bytes());
        self.block.extend_from_slice(&value[..length]);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Capture;

    #[test]
    fn what_is_written_is_read() {
        let section = Section {
            comment: "three",
            ..Section::default()
        };
        let interface = Interface {
            name: "eth0",
            link: LinkType::ETHERNET,
            filter: "tcp",
        };
        let mut capture = PcapngWriter::new(Vec::new(), &section, &interface).unwrap();
        let at = 1_795_000_000_123_456_789;
        let marks = Marks {
            outbound: Some(true),
            super_packet: true,
            checksum_not_ready: false,
        };
        capture.frame(at, b"abcde", 1514, marks).unwrap();
        capture.frame(at + 1, b"", 0, Marks::default()).unwrap();
        let counts = Statistics {
            start: at,
            end: at + 1,
            accepted: 5,
            dropped: 3,
            written: 2,
        };
        capture.statistics(&counts).unwrap();
        let bytes = capture.into_inner();
        assert!(bytes.len().is_multiple_of(4));
        let mut capture = Capture::new(std::io::Cursor::new(bytes.clone())).unwrap();
        let frame = capture.frame().unwrap().unwrap();
        assert_eq!(
            (frame.at, frame.data, frame.wire_len),
            (at, &b"abcde"[..], 1514)
        );
        assert_eq!(frame.outbound, Some(true));
        let frame = capture.frame().unwrap().unwrap();
        assert_eq!((frame.at, frame.data.len()), (at + 1, 0));
        assert_eq!(frame.outbound, None);
        assert!(capture.frame().unwrap().is_none());
        assert_eq!(capture.passed_over().dropped_by_capture, 3);
        // Outbound, and bit 11.
        let flags = [2u8, 0, 4, 0, 2, 8, 0, 0];
        assert!(bytes.windows(8).any(|window| window == flags));
    }
}
