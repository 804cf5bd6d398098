//! A recovery that takes seconds: without selective acknowledgements a sender learns of one loss a round trip,
//! when the retransmission of the one before is acknowledged (RFC 6582 §3.2).

use crate::annotate::Sent;
use crate::read::Nanos;

#[cfg(test)]
mod tests;

/// Retransmissions in a row, each sent when the one before was acknowledged. A window that grows
/// has room for more than one after fewer.
const IN_A_ROW: usize = 5;
/// A retransmission follows the acknowledgement within this share of the round trip.
const AT_ONCE: u64 = 8;

/// The time in which one loss was repaired a round trip. Nothing may be lost meanwhile: then it is
/// the network that slows the sender down. `away`: the least round-trip time between the capture and the sender.
pub fn slow_repairs(sent: &[Sent], away: Nanos) -> Nanos {
    let (mut sum, mut row, mut rounds) = (0, 0, 0);
    let counted = |row: Nanos, rounds: usize| if rounds >= IN_A_ROW { row } else { 0 };
    let mut before: Option<&Sent> = None;
    for packet in sent {
        let repairs = packet.is_retransmission() && !packet.lost();
        if !repairs && !packet.lost() {
            continue;
        }
        let step = before
            .filter(|before| repairs && before.seq < packet.seq)
            .and_then(|before| round(before, packet, away));
        match step {
            Some(step) => {
                row += step;
                rounds += 1;
            }
            None => {
                sum += counted(row, rounds);
                (row, rounds) = (0, 0);
            }
        }
        before = repairs.then_some(packet);
    }
    sum + counted(row, rounds)
}

/// The time between two retransmissions, if the acknowledgement of the first led to the second.
fn round(first: &Sent, second: &Sent, away: Nanos) -> Option<Nanos> {
    let rtt = first.acked_at.checked_sub(first.at)?.saturating_add(away);
    let after = second.at.checked_sub(first.acked_at)?;
    (first.acked_at != 0 && after.abs_diff(away) <= rtt / AT_ONCE).then_some(second.at - first.at)
}
