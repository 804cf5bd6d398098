//! How large the wire packets are that a super-packet stands for.
//!
//! A capture at an end host sees what it hands to its network card, or is handed by it: up to
//! 64 KiB and more in one piece (TSO, GSO, GRO, LRO). The network saw packets of at most the MSS.

use crate::wire::{Flags, Packet};

/// Payloads that full packets have on common paths: MTU 1500 with and without timestamps over
/// IPv4 and IPv6, PPPoE, common tunnels, and jumbo frames. Largest first.
const COMMON: [u32; 22] = [
    8960, 8948, 8940, 8928, 1460, 1452, 1448, 1440, 1428, 1420, 1410, 1408, 1400, 1398, 1388, 1380,
    1370, 1360, 1348, 1340, 1220, 536,
];
/// No payload above it fits a frame of 1500 bytes.
const MAX_ORDINARY: u32 = 1460;
/// Every host takes segments of this size (RFC 9293 §3.7.1); an offer of less would let a hostile
/// capture make thousands of packets of one.
const MIN_SIZE: u32 = 536;
const TIMESTAMPS: u32 = 12;

/// What one direction's packets say of its segment size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentSize {
    /// The MSS option of this side's SYN: what the other side may send.
    offered: Option<u16>,
    /// Whether its SYN had timestamps.
    timestamps: bool,
    /// The largest payload that was surely one packet.
    single: u32,
    /// The estimate from packets, where the options were not seen.
    estimate: u32,
    /// What divides all super-packets that were full.
    divisor: u32,
}

impl SegmentSize {
    pub(crate) fn learn(&mut self, packet: &Packet) {
        if packet.flags.has(Flags::SYN) {
            self.offered = packet.options.mss.filter(|&mss| mss != 0);
            self.timestamps = packet.options.timestamps.is_some();
        }
    }

    /// The largest payload of this direction's wire packets, with `other` the opposite direction.
    #[inline]
    pub(crate) fn of(&mut self, other: &Self, packet: &Packet) -> u32 {
        let offered = match (self.offered, other.offered) {
            // Each side also keeps to what the network at its end carries.
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => theirs.or(mine),
        };
        match offered {
            Some(mss) => {
                let options = if packet.options.timestamps.is_some() {
                    TIMESTAMPS
                } else {
                    0
                };
                u32::from(mss).saturating_sub(options).max(MIN_SIZE)
            }
            None => self.estimate(packet),
        }
    }

    /// No SYN was seen: what divides the payload into full packets, or the largest seen.
    fn estimate(&mut self, packet: &Packet) -> u32 {
        let payload = packet.payload;
        if payload <= MAX_ORDINARY {
            self.single = self.single.max(payload);
            if self.single > self.estimate {
                self.estimate = 0;
            }
            return self.single.max(self.estimate).max(MIN_SIZE);
        }
        // The last of a burst, which is pushed, need not be full.
        if !packet.flags.has(Flags::PSH) {
            let divisor = gcd(self.divisor, payload);
            if divisor >= self.single.max(MIN_SIZE) {
                self.divisor = divisor;
                if divisor <= MAX_ORDINARY {
                    self.estimate = divisor;
                }
            }
        }
        if self.estimate == 0 {
            let stated = if packet.options.timestamps.is_some() {
                1448
            } else {
                MAX_ORDINARY
            };
            self.estimate = COMMON
                .into_iter()
                .find(|&size| size >= self.single && payload.is_multiple_of(size))
                .unwrap_or(if self.single > 1000 {
                    self.single
                } else {
                    stated
                });
        }
        self.estimate
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
