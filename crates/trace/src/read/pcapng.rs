//! The pcapng format: blocks of a type, a length, a body and the length again, in sections that
//! may each have another byte order and their own interfaces. [draft-ietf-opsawg-pcapng]

use super::error::{ReadError, Reason};
use super::frame::{Frame, MAX_RECORD, Nanos, PassedOver};
use super::link::LinkType;
use super::sampled::Sampled;
use super::source::Window;

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1A2B_3C4D;

/// No packet is later (it is in the year 2262): a time and twice a time fit their type.
const LATEST: Nanos = i64::MAX as Nanos;

/// Section headers up to this length are searched for what a sampler says: far more than any has.
const MAX_HEADER: usize = 1 << 16;

/// The most interfaces that a section may describe, far more than any capture has.
const MAX_INTERFACES: usize = 1 << 16;

pub(super) fn is_start(magic: &[u8]) -> bool {
    magic == SECTION.to_le_bytes()
}

/// What earlier blocks of a section say about later ones.
#[derive(Default)]
pub(super) struct Sections {
    big_endian: bool,
    begun: bool,
    interfaces: Vec<Interface>,
    /// The share of all flows that the section holds, as its header says.
    pub(super) sampled: Option<Sampled>,
    pub(super) passed_over: PassedOver,
}

struct Interface {
    link: LinkType,
    clock: Clock,
    /// Dropped packets in the last statistics: they are cumulative.
    dropped: u64,
}

/// How an interface writes time: `if_tsresol` and `if_tsoffset`.
#[derive(Clone, Copy)]
struct Clock {
    /// Units per second.
    per_second: u64,
    /// Seconds to add.
    offset: i64,
}

impl Default for Clock {
    /// Microseconds since the epoch.
    fn default() -> Self {
        Self {
            per_second: 1_000_000,
            offset: 0,
        }
    }
}

impl Clock {
    fn nanos(self, high: u32, low: u32) -> Nanos {
        let units = u64::from(high) << 32 | u64::from(low);
        let nanos = match self.per_second {
            1_000_000_000 => i128::from(units),
            1_000_000 => i128::from(units) * 1000,
            other => i128::from(units) * 1_000_000_000 / i128::from(other),
        };
        let nanos = nanos + i128::from(self.offset) * 1_000_000_000;
        nanos.clamp(0, i128::from(LATEST)) as Nanos
    }
}

/// Where the packet lies in its block, and what the block says of it.
struct PacketSpan {
    interface: usize,
    at: Nanos,
    start: usize,
    kept: usize,
    wire_len: u32,
    outbound: Option<bool>,
}

impl Sections {
    pub(super) fn frame<'w>(
        &mut self,
        window: &'w mut Window,
    ) -> Result<Option<Frame<'w>>, ReadError> {
        loop {
            let Some(head) = window.record(8, "a block's header")? else {
                return Ok(None);
            };
            if is_start(&head[..4]) {
                self.begin_section(window)?;
                continue;
            }
            if !self.begun {
                return Err(window.error(Reason::BadSection));
            }
            let kind = self.u32(head, 0);
            let length = self.u32(head, 4) as usize;
            if length < 12 || !length.is_multiple_of(4) {
                return Err(bad_length(window, length));
            }
            if !matches!(
                kind,
                INTERFACE | OLD_PACKET | SIMPLE_PACKET | STATISTICS | ENHANCED_PACKET
            ) {
                // Name resolutions, secrets, comments, journals: passed without holding them.
                if !window.skip(length as u64)? {
                    return Err(window.cut_off(length, "a block"));
                }
                continue;
            }
            if length > MAX_RECORD {
                return Err(bad_length(window, length));
            }
            let Some(block) = window.record(length, "a block")? else {
                return Err(window.cut_off(length, "a block"));
            };
            if self.u32(block, length - 4) as usize != length {
                return Err(bad_length(window, length));
            }
            let body = &block[8..length - 4];
            let place = match kind {
                INTERFACE => {
                    self.describe_interface(body);
                    None
                }
                STATISTICS => {
                    self.count_drops(body);
                    None
                }
                _ => match self.locate(kind, body) {
                    Ok(place) => place,
                    Err(reason) => {
                        self.pass_over(window, reason);
                        None
                    }
                },
            };
            let Some(place) = place else {
                window.take(length);
                continue;
            };
            let link = self.interfaces[place.interface].link;
            if !link.is_supported() {
                self.pass_over(window, Reason::Link(link));
                window.take(length);
                continue;
            }
            let body = &window.take(length)[8..];
            return Ok(Some(Frame {
                outbound: place.outbound,
                at: place.at,
                link,
                data: &body[place.start..place.start + place.kept],
                wire_len: place.wire_len.max(place.kept as u32),
            }));
        }
    }

    /// Leaves a packet out, and remembers the first with its place.
    fn pass_over(&mut self, window: &Window, reason: Reason) {
        self.passed_over.unsupported += 1;
        self.passed_over
            .first
            .get_or_insert_with(|| window.error(reason));
    }

    fn begin_section(&mut self, window: &mut Window) -> Result<(), ReadError> {
        let Some(head) = window.record(28, "a section header")? else {
            return Err(window.cut_off(28, "a section header"));
        };
        self.big_endian = match BYTE_ORDER {
            order if head[8..12] == order.to_le_bytes() => false,
            order if head[8..12] == order.to_be_bytes() => true,
            _ => return Err(window.error(Reason::BadSection)),
        };
        let length = self.u32(head, 4) as usize;
        if length < 28 || !length.is_multiple_of(4) {
            return Err(bad_length(window, length));
        }
        self.begun = true;
        self.interfaces.clear();
        let before = self.sampled.take();
        if length <= MAX_HEADER {
            let Some(header) = window.record(length, "a section header")? else {
                return Err(window.cut_off(length, "a section header"));
            };
            let mut comments = self
                .options(&header[24..length - 4])
                .filter(|(code, _)| *code == 1);
            let said = comments.find_map(|(_, value)| Sampled::new(value));
            drop(comments);
            if let Some(other) = said
                .as_ref()
                .zip(before.as_ref())
                .and_then(|(said, before)| said.behind(before))
            {
                return Err(window.error(other));
            }
            self.sampled = said;
        }
        if !window.skip(length as u64)? {
            return Err(window.cut_off(length, "a section header"));
        }
        Ok(())
    }

    fn describe_interface(&mut self, body: &[u8]) {
        if self.interfaces.len() == MAX_INTERFACES {
            self.passed_over.malformed += 1;
            return;
        }
        if body.len() < 8 {
            self.passed_over.malformed += 1;
            // It still counts as an interface, or later ones would get wrong numbers.
            self.interfaces.push(Interface {
                link: LinkType::UNKNOWN,
                clock: Clock::default(),
                dropped: 0,
            });
            return;
        }
        let mut clock = Clock::default();
        for (code, value) in self.options(&body[8..]) {
            match (code, value) {
                // if_tsresol: a power of ten, or of two where the highest bit is set.
                (9, [resolution, ..]) => {
                    let exponent = u32::from(resolution & 0x7f);
                    let per_second = if resolution & 0x80 == 0 {
                        10u64.checked_pow(exponent)
                    } else {
                        1u64.checked_shl(exponent)
                    };
                    clock.per_second = per_second.unwrap_or(1_000_000);
                }
                // if_tsoffset: seconds.
                (14, value) if value.len() == 8 => {
                    let mut bytes: [u8; 8] = value.try_into().unwrap_or_default();
                    if !self.big_endian {
                        bytes.reverse();
                    }
                    clock.offset = i64::from_be_bytes(bytes);
                }
                _ => {}
            }
        }
        self.interfaces.push(Interface {
            link: LinkType(self.u16(body, 0)),
            clock,
            dropped: 0,
        });
    }

    fn count_drops(&mut self, body: &[u8]) {
        if body.len() < 12 {
            self.passed_over.malformed += 1;
            return;
        }
        let interface = self.u32(body, 0) as usize;
        // isb_ifdrop and isb_osdrop: the interface's and the operating system's drops.
        let dropped = self
            .options(&body[12..])
            .filter(|(code, value)| matches!(code, 5 | 7) && value.len() == 8)
            .map(|(_, value)| {
                let halves = (self.u32(value, 0), self.u32(value, 4));
                let (high, low) = if self.big_endian {
                    halves
                } else {
                    (halves.1, halves.0)
                };
                u64::from(high) << 32 | u64::from(low)
            })
            .fold(0u64, u64::saturating_add);
        if let Some(interface) = self.interfaces.get_mut(interface) {
            let more = dropped.saturating_sub(interface.dropped);
            interface.dropped += more;
            self.passed_over.dropped_by_capture =
                self.passed_over.dropped_by_capture.saturating_add(more);
        }
    }

    /// Where a packet block's frame is; `None`, counted, if the block contradicts itself.
    fn locate(&mut self, kind: u32, body: &[u8]) -> Result<Option<PacketSpan>, Reason> {
        let header = if kind == SIMPLE_PACKET { 4 } else { 20 };
        if body.len() < header {
            self.passed_over.malformed += 1;
            return Ok(None);
        }
        let interface = match kind {
            ENHANCED_PACKET => self.u32(body, 0) as usize,
            OLD_PACKET => usize::from(self.u16(body, 0)),
            _ => 0,
        };
        let Some(described) = self.interfaces.get(interface) else {
            return Err(Reason::NoInterface(interface as u32));
        };
        if kind == SIMPLE_PACKET {
            // It carries no time, and the analysis needs one.
            self.passed_over.untimed += 1;
            return Ok(None);
        }
        let at = described.clock.nanos(self.u32(body, 4), self.u32(body, 8));
        let (kept, wire_len) = (self.u32(body, 12) as usize, self.u32(body, 16));
        if kept > body.len() - header {
            self.passed_over.malformed += 1;
            return Ok(None);
        }
        let options = body.get(header + kept.next_multiple_of(4)..);
        let outbound = match kind {
            ENHANCED_PACKET => options.and_then(|options| self.outbound(options)),
            _ => None,
        };
        Ok(Some(PacketSpan {
            interface,
            at,
            start: header,
            kept,
            wire_len,
            outbound,
        }))
    }

    /// What a packet's flags say of its direction, in their lowest bits [draft-ietf-opsawg-pcapng §4.3.1].
    fn outbound(&self, options: &[u8]) -> Option<bool> {
        let (_, value) = self.options(options).find(|(code, _)| *code == 2)?;
        if value.len() != 4 {
            return None;
        }
        match self.u32(value, 0) & 3 {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        }
    }

    /// The options of a block, as far as they are sound.
    fn options<'b>(&self, mut rest: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> {
        let big_endian = self.big_endian;
        std::iter::from_fn(move || {
            let head: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            let [code, length] = [[head[0], head[1]], [head[2], head[3]]].map(|pair| {
                if big_endian {
                    u16::from_be_bytes(pair)
                } else {
                    u16::from_le_bytes(pair)
                }
            });
            if code == 0 {
                return None;
            }
            let value = rest.get(4..4 + usize::from(length))?;
            let padded = usize::from(length).next_multiple_of(4);
            rest = rest.get(4 + padded..).unwrap_or_default();
            Some((code, value))
        })
    }

    fn u16(&self, bytes: &[u8], i: usize) -> u16 {
        let pair = [bytes[i], bytes[i + 1]];
        if self.big_endian {
            u16::from_be_bytes(pair)
        } else {
            u16::from_le_bytes(pair)
        }
    }

    fn u32(&self, bytes: &[u8], i: usize) -> u32 {
        let word = [bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]];
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }
}

fn bad_length(window: &Window, length: usize) -> ReadError {
    window.error(Reason::BadLength {
        what: "a block",
        length: length as u64,
    })
}
