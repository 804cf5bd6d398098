//! What the receiver of a transfer announced: how far it had all data, how much more it could take, and what it had beyond a gap.

use tidegate_trace::flow::announced_window;
use tidegate_trace::read::{Frame, Nanos};
use tidegate_trace::wire::{Endpoint, Flags, SackBlock, decode};

/// Acknowledgements that are kept, and as many blocks: as many as packets are. Later ones are not drawn.
const MOST: usize = 1 << 22;

/// Collects the acknowledgements of one direction between two endpoints.
pub struct Acks {
    sender: Endpoint,
    receiver: Endpoint,
    /// What the SYNs of the receiver and of the sender offered, as for [`announced_window`].
    scales: [Option<Option<u8>>; 2],
    acks: Vec<Ack>,
    blocks: Vec<(Nanos, SackBlock)>,
    /// The blocks of the latest acknowledgement: they are repeated until the gap below them is filled.
    latest: Vec<SackBlock>,
}

struct Ack {
    at: Nanos,
    number: u32,
    window: Option<u64>,
}

impl Acks {
    pub fn new(sender: Endpoint, receiver: Endpoint) -> Self {
        Self {
            sender,
            receiver,
            scales: [None; 2],
            acks: Vec::new(),
            blocks: Vec::new(),
            latest: Vec::new(),
        }
    }

    /// Takes the next frame of the capture.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let Ok(packet) = decode(frame) else { return };
        let is_syn = packet.flags.has(Flags::SYN);
        if (packet.src, packet.dst) == (self.sender, self.receiver) && is_syn {
            self.scales[1] = Some(packet.options.window_scale);
        }
        if (packet.src, packet.dst) != (self.receiver, self.sender) {
            return;
        }
        if is_syn {
            self.scales[0] = Some(packet.options.window_scale);
        }
        if !packet.flags.has(Flags::ACK) || packet.flags.has(Flags::RST) {
            return;
        }
        let blocks = packet.options.sacks.blocks();
        let news = blocks.iter().filter(|block| !self.latest.contains(block));
        let room = MOST.saturating_sub(self.blocks.len());
        self.blocks
            .extend(news.take(room).map(|block| (packet.at, *block)));
        self.latest.clear();
        self.latest.extend_from_slice(blocks);
        if self.acks.len() < MOST {
            self.acks.push(Ack {
                at: packet.at,
                number: packet.ack,
                window: announced_window(&packet, self.scales[0], self.scales[1]),
            });
        }
    }

    /// The times of acknowledgements, in the order of the capture.
    pub fn times(&self) -> impl Iterator<Item = Nanos> {
        self.acks.iter().map(|ack| ack.at)
    }

    /// The windows in bytes, where they are known, and the stream positions that data must not exceed.
    pub fn windows(&self, origin: u64) -> impl Iterator<Item = (Nanos, u64, u64)> {
        let mut near = origin;
        self.acks.iter().filter_map(move |ack| {
            near = position(near, ack.number);
            let window = ack.window?;
            Some((ack.at, window, near.saturating_add(window)))
        })
    }

    /// The blocks that an acknowledgement was the first to name, as stream positions.
    pub fn blocks(&self, origin: u64) -> impl Iterator<Item = (Nanos, u64, u64)> {
        let mut near = origin;
        self.blocks.iter().map(move |(at, block)| {
            near = position(near, block.start);
            (*at, near, position(near, block.end))
        })
    }
}

/// The stream position with this sequence number that is nearest to another one.
fn position(near: u64, number: u32) -> u64 {
    let step = number.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(step.into())
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn sequence_numbers_wrap_around() {
        let near = (7 << 32) - 10;
        assert_eq!(position(near, 5), (7 << 32) + 5);
        assert_eq!(position((7 << 32) + 5, u32::MAX), (7 << 32) - 1);
        assert_eq!(position(0, u32::MAX), 0);
    }
}
