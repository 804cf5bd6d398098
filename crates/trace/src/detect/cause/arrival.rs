//! A data packet as a bottleneck meets it.

use super::missed::missed;
use super::stamps::{Stamps, Waited};
use crate::annotate::{Transfer, Vantage};
use crate::read::Nanos;

/// Round-trip times up to 68 s fit into 32 bits.
const RTT_STEP: Nanos = 16;

/// A data packet that went towards a client, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// When the capture saw it.
    pub at: Nanos,
    /// Its round-trip time in steps of 16 ns; 0 where none is known.
    pub(super) rtt: u32,
    /// The number of the transfer that it belongs to, among those that are judged together.
    pub transfer: u32,
    /// Bytes on the wire: payload, headers and framing.
    pub weight: f32,
    /// Whether the network lost it.
    pub lost: bool,
}

impl Arrival {
    /// Adds the packets of a transfer, in the order in which they were sent, with those that the capture missed: they met
    /// the bottleneck too, and passed it. Where the capture was taken between what lost
    /// packets and the receiver, round-trip times are those from there to the sender and back: the others do not
    /// pass the bottleneck. If the sender's clock tells when packets came to the bottleneck, times are those, and it returns
    /// what packets waited.
    pub fn add(
        arrivals: &mut Vec<Self>,
        transfer: &Transfer<'_>,
        number: u32,
        behind_losses: bool,
    ) -> Option<Waited> {
        let before = arrivals.len();
        let overhead = overhead(transfer);
        let echoed = behind_losses && transfer.path.vantage() != Vantage::Receiver;
        arrivals.extend(transfer.sent.iter().map(|sent| {
            let rtt = match echoed {
                true => sent.echo.get().filter(|_| !sent.is_retransmission()),
                false => sent.rtt(),
            };
            Self {
                at: sent.at,
                rtt: rtt.map_or(0, Self::rtt_steps),
                transfer: number,
                weight: sent.len as f32 + overhead,
                lost: sent.lost(),
            }
        }));
        let stamps = behind_losses.then(|| Stamps::of(transfer)).flatten();
        let met = stamps.iter().flat_map(|stamps| &stamps.met);
        for (arrival, met) in arrivals[before..].iter_mut().zip(met) {
            arrival.at = met.at;
            arrival.rtt = match met.rtt {
                0 => 0,
                rtt => Self::rtt_steps(rtt),
            };
        }
        let missed = missed(transfer);
        if stamps.is_some() || !missed.is_empty() {
            arrivals.extend(missed.into_iter().map(|(at, len)| Self {
                transfer: number,
                ..Self::observed(at, len as f32 + overhead, false)
            }));
            arrivals[before..].sort_by_key(|arrival| arrival.at);
        }
        stamps.map(|stamps| stamps.waited)
    }

    /// A packet whose fate was observed. `weight` in bytes on the wire.
    pub(crate) fn observed(at: Nanos, weight: f32, lost: bool) -> Self {
        Self {
            at,
            rtt: 0,
            transfer: 0,
            weight,
            lost,
        }
    }

    pub(super) fn rtt_steps(rtt: Nanos) -> u32 {
        u32::try_from(rtt / RTT_STEP).unwrap_or(u32::MAX).max(1)
    }

    /// The round-trip time in seconds of a packet that passed.
    pub(super) fn passed_rtt(&self) -> Option<f64> {
        (self.rtt != 0 && !self.lost).then(|| (u64::from(self.rtt) * RTT_STEP) as f64 / 1e9)
    }
}

/// Bytes of headers and framing around the payload of a packet.
fn overhead(transfer: &Transfer<'_>) -> f32 {
    let tally = transfer.tally;
    let around = tally.link_bytes.saturating_sub(tally.payload_bytes);
    around as f32 / transfer.sent.len().max(1) as f32
}
