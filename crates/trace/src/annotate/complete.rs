//! A transfer with the packets that were lost before they came to the capture, and with the
//! round-trip times that the sender had where the capture was taken at the receiver.

use std::collections::HashMap;

use super::holes::Missing;
use super::sent::{Marks, Sent};

/// The packets from number `first` on, with the missing ones among them, which are in the order of
/// their places.
pub(crate) fn complete(sent: &[Sent], first: u64, missing: &[Missing]) -> Vec<Sent> {
    // How many are put in before a packet.
    let shift = |number: u64| missing.partition_point(|lost| lost.place.before <= number) as u64;
    let renumbered = |number: u64| number + shift(number);
    let distance = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
    let mut all: Vec<Sent> = Vec::with_capacity(sent.len() + missing.len());
    let mut left = missing.iter().peekable();
    for (number, packet) in (first..).zip(sent) {
        while let Some(lost) = left.next_if(|lost| lost.place.before <= number) {
            let behind = *all.last().unwrap_or(packet);
            let again = lost.again.checked_sub(first);
            let again = again.and_then(|again| sent.get(again as usize));
            all.push(Sent {
                at: lost.place.at,
                acked_at: again.map_or(0, |again| again.acked_at),
                seq: lost.seq,
                delivered: behind.delivered,
                len: lost.len,
                in_flight: behind.in_flight,
                marks: Marks::not_captured(lost.repetition > 0),
                ..Sent::default()
            });
        }
        let mut packet = *packet;
        if packet.repeats != 0 {
            let earlier = number.saturating_sub(u64::from(packet.repeats));
            packet.repeats = distance(renumbered(earlier), renumbered(number));
        }
        if packet.repeated != 0 {
            let later = number + u64::from(packet.repeated);
            packet.repeated = distance(renumbered(number), renumbered(later));
        }
        all.push(packet);
    }
    link(&mut all, first, missing, renumbered);
    all
}

/// Links each missing packet with what repeats it: another missing one, or what was captured.
fn link(all: &mut [Sent], first: u64, missing: &[Missing], renumbered: impl Fn(u64) -> u64) {
    let numbers: HashMap<(u64, u32), u64> = (0..)
        .zip(missing)
        .map(|(i, lost)| ((lost.again, lost.repetition), lost.place.before + i))
        .collect();
    for (i, lost) in (0..).zip(missing) {
        let from = lost.place.before + i;
        let next = numbers.get(&(lost.again, lost.repetition + 1)).copied();
        let to = next.unwrap_or_else(|| renumbered(lost.again));
        let between = u32::try_from(to.saturating_sub(from))
            .unwrap_or(u32::MAX)
            .max(1);
        let index = |number: u64| number.saturating_sub(first) as usize;
        if let Some(lost) = all.get_mut(index(from)) {
            lost.repeated = between;
        }
        if let Some(again) = all.get_mut(index(to)) {
            again.repeats = between;
        }
    }
}

/// What a capture at the receiver shows, as the sender had it: a packet's round trip ends with it, and
/// began with the acknowledgement whose timestamp it echoes.
pub(crate) fn with_echoes(sent: &mut [Sent]) {
    for packet in sent {
        packet.marks.clear(Marks::RTT);
        if packet.acked_at == 0 || packet.is_retransmission() || packet.repeated != 0 {
            continue;
        }
        if let Some(rtt) = packet.echo.get() {
            packet.acked_at = packet.at.saturating_add(rtt);
            packet.marks.set(Marks::RTT);
        }
    }
}
