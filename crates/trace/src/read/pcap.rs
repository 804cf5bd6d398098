//! The classic pcap format: a file header of 24 bytes, then records of a header of 16 bytes (24
//! in Alexey Kuznetzov's variant) and the frame. [draft-ietf-opsawg-pcap]

use super::error::{ReadError, Reason};
use super::frame::{Frame, MAX_RECORD};
use super::link::LinkType;
use super::source::Window;

/// Longer frames than any network interface hands out, unless the file's own snapshot length
/// promises them.
const USUAL_MAX_FRAME: usize = 1 << 20;

/// What a pcap file's header says.
pub(super) struct Header {
    swapped: bool,
    /// Nanoseconds per unit of the second timestamp field: 1000 or 1.
    unit: u64,
    record_header: usize,
    link: LinkType,
    max_frame: usize,
    lengths: Lengths,
}

/// The order of a record's two lengths, which changed with the format's version, and in one version
/// from program to program, as libpcap has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// First the bytes kept, then those on the wire: since 2.4.
    KeptFirst,
    /// The other way round: before 2.3.
    WireFirst,
    /// Either: 2.3. No frame has more bytes kept than it had on the wire.
    Either,
}

impl Header {
    pub(super) fn read(window: &mut Window) -> Result<Self, ReadError> {
        let Some(bytes) = window.peek(24)? else {
            let known = window
                .peek(4)?
                .is_some_and(|magic| Magic::of(magic).is_some());
            return Err(if known {
                window.cut_off(24, "the file header")
            } else {
                window.error(Reason::NotACapture)
            });
        };
        let Some(magic) = Magic::of(bytes) else {
            return Err(window.error(Reason::NotACapture));
        };
        let (major, minor) = (magic.u16(bytes, 4), magic.u16(bytes, 6));
        let snaplen = magic.u32(bytes, 16) as usize;
        // The upper half holds the length of a frame check sequence, not part of the type.
        let link = LinkType(magic.u32(bytes, 20) as u16);
        if major != 2 {
            return Err(window.error(Reason::Version(major, minor)));
        }
        if !link.is_supported() {
            return Err(window.error(Reason::Link(link)));
        }
        window.take(24);
        Ok(Self {
            swapped: magic.swapped,
            unit: magic.unit,
            record_header: if magic.modified { 24 } else { 16 },
            link,
            max_frame: snaplen.clamp(USUAL_MAX_FRAME, MAX_RECORD),
            lengths: match minor {
                0..3 => Lengths::WireFirst,
                3 => Lengths::Either,
                _ => Lengths::KeptFirst,
            },
        })
    }

    #[inline]
    pub(super) fn frame<'w>(&self, window: &'w mut Window) -> Result<Option<Frame<'w>>, ReadError> {
        let Some(head) = window.record(self.record_header, "a packet's header")? else {
            return Ok(None);
        };
        // `record` has made sure of them; a fixed size saves checking each field.
        let head: [u8; 16] = head.first_chunk().copied().unwrap_or_default();
        let field = |i: usize| {
            let value = u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
            if self.swapped {
                value.swap_bytes()
            } else {
                value
            }
        };
        let at = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)) * self.unit;
        let (kept, wire_len) = match (self.lengths, field(8), field(12)) {
            (Lengths::WireFirst, wire_len, kept) => (kept, wire_len),
            (Lengths::Either, first, second) if first > second => (second, first),
            (_, kept, wire_len) => (kept, wire_len),
        };
        let length = kept as usize;
        if length > self.max_frame {
            return Err(window.error(Reason::BadLength {
                what: "a packet",
                length: length as u64,
            }));
        }
        let whole = self.record_header + length;
        if window.record(whole, "a packet")?.is_none() {
            return Err(window.cut_off(whole, "a packet"));
        }
        Ok(Some(Frame {
            outbound: None,
            at,
            link: self.link,
            data: &window.take(whole)[self.record_header..],
            wire_len: wire_len.max(kept),
        }))
    }
}

struct Magic {
    swapped: bool,
    unit: u64,
    modified: bool,
}

impl Magic {
    fn of(bytes: &[u8]) -> Option<Self> {
        let word: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        [
            (u32::from_le_bytes(word), false),
            (u32::from_be_bytes(word), true),
        ]
        .into_iter()
        .find_map(|(magic, swapped)| {
            let (unit, modified) = match magic {
                0xa1b2_c3d4 => (1000, false),
                0xa1b2_3c4d => (1, false),
                0xa1b2_cd34 => (1000, true),
                _ => return None,
            };
            Some(Self {
                swapped,
                unit,
                modified,
            })
        })
    }

    fn u16(&self, bytes: &[u8], i: usize) -> u16 {
        let value = u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        if self.swapped {
            value.swap_bytes()
        } else {
            value
        }
    }

    fn u32(&self, bytes: &[u8], i: usize) -> u32 {
        let value = u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        if self.swapped {
            value.swap_bytes()
        } else {
            value
        }
    }
}
