//! A transfer with the packets that were lost before they came to the capture, and with the
//! round-trip times that the sender had where the capture was taken at the receiver.

use super::holes::Missing;
use super::sent::{Marks, Sent};

/// The packets from number `first` on, with the missing ones among them, which are in the order of
/// their places.
pub(crate) fn complete(sent: &[Sent], first: u64, missing: &[Missing]) -> Vec<Sent> {
    // How many are put in before a packet.
    let shift = |number: u64| missing.partition_point(|lost| lost.before <= number) as u64;
    let place = |number: u64| number + shift(number);
    let distance = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
    let mut all: Vec<Sent> = Vec::with_capacity(sent.len() + missing.len());
    let mut left = missing.iter().enumerate().peekable();
    for (number, packet) in (first..).zip(sent) {
        while let Some((i, lost)) = left.next_if(|(_, lost)| lost.before <= number) {
            let behind = all.last().unwrap_or(packet);
            let again = lost.again.checked_sub(first);
            let again = again.and_then(|again| sent.get(again as usize));
            all.push(Sent {
                at: lost.at,
                acked_at: again.map_or(0, |again| again.acked_at),
                seq: lost.seq,
                delivered: behind.delivered,
                len: lost.len,
                in_flight: behind.in_flight,
                repeated: distance(lost.before + i as u64, place(lost.again)).max(1),
                marks: Marks::not_captured(),
                ..Sent::default()
            });
        }
        let mut packet = *packet;
        if packet.repeats != 0 {
            let earlier = number.saturating_sub(u64::from(packet.repeats));
            packet.repeats = distance(place(earlier), place(number));
        }
        if packet.repeated != 0 {
            let later = number + u64::from(packet.repeated);
            packet.repeated = distance(place(number), place(later));
        }
        all.push(packet);
    }
    for (i, lost) in missing.iter().enumerate() {
        let (from, to) = (lost.before + i as u64, place(lost.again));
        if let Some(again) = all.get_mut(to.saturating_sub(first) as usize) {
            again.repeats = distance(from, to);
        }
    }
    all
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
