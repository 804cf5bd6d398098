use super::*;
use crate::tcp::Segment;
use crate::{MILLISECOND, SECOND};

fn queue() -> DualPi2 {
    let ms = MILLISECOND;
    DualPi2::new(15 * ms, 16 * ms, 800_000, 10_000)
}

fn packet(packets: &mut Packets, ecn: Ecn) -> PacketId {
    let segment = Segment {
        payload: 1448,
        ecn,
        ..Segment::default()
    };
    packets.insert(Packet::new(0, true, 1500, segment))
}

/// Sends a packet each millisecond for ten seconds from a queue that is kept at this many packets of each kind, under
/// its controller, or with p' of 25 % and no marks by the L queue itself. Returns for each kind: sent without a mark,
/// sent with one, dropped.
fn keep(kinds: &[(Ecn, u64)], controlled: bool) -> Vec<[u64; 3]> {
    let (mut queue, mut packets) = (queue(), Packets::default());
    if !controlled {
        queue.min_th = SECOND;
    }
    let mut counts = vec![[0; 3]; kinds.len()];
    let index = |flow: u32| flow as usize;
    for now in (0..10 * SECOND).step_by(MILLISECOND as usize) {
        for (kind, &(ecn, many)) in kinds.iter().enumerate() {
            let here = if ecn == Ecn::Ect1 {
                queue.low.packets.packets()
            } else {
                queue.classic.packets.packets()
            };
            for _ in here..many {
                let id = packet(&mut packets, ecn);
                packets.get_mut(id).flow = kind as u32;
                queue.offer(now, id, &mut packets);
            }
        }
        if !controlled {
            queue.base = 0.25;
        }
        let sent = queue.take(now, &mut packets);
        while let Some(id) = packets.next_dropped() {
            counts[index(packets.get(id).flow)][2] += 1;
            packets.free(id);
        }
        while packets.next_marked().is_some() {}
        if let Some(id) = sent {
            let packet = packets.get(id);
            let marked = packet.segment.ecn == Ecn::Ce;
            counts[index(packet.flow)][usize::from(marked)] += 1;
            packets.free(id);
        }
    }
    counts
}

/// RFC 9332 §2.1: with p' of 25 %, 6.25 % of Classic packets are dropped, and 50 % of L4S packets are marked.
#[test]
fn marks_are_coupled_to_the_root_of_drops() {
    let [passed, marked, dropped] = keep(&[(Ecn::NotEct, 3)], false)[0];
    assert_eq!(marked, 0);
    let share = dropped as f64 / (passed + dropped) as f64;
    assert!((0.062..0.063).contains(&share), "{share}");
    // Those that support RFC 3168 are marked as often as others are dropped.
    let [passed, marked, dropped] = keep(&[(Ecn::Ect0, 3)], false)[0];
    let share = marked as f64 / passed.max(1) as f64;
    assert!(dropped == 0 && (0.065..0.068).contains(&share), "{share}");
    let [passed, marked, dropped] = keep(&[(Ecn::Ect1, 3)], false)[0];
    assert!(
        dropped == 0 && passed.abs_diff(marked) <= 2,
        "{passed} {marked}"
    );
}

/// §2.5.1.1: the ramp of the L queue, from 0 at 0.8 ms to 1 at 1.2 ms.
#[test]
fn the_low_queue_marks_by_its_delay() {
    let queue = queue();
    for (delay, likelihood) in [
        (800_000, 0.0),
        (900_000, 0.25),
        (1_000_000, 0.5),
        (1_300_000, 1.0),
    ] {
        assert_eq!(queue.laqm(delay, 2), likelihood);
        assert_eq!(queue.laqm(delay, 1), 0.0);
    }
}

/// The L queue is served first, but leaves the other a tenth.
#[test]
fn the_classic_queue_keeps_its_share() {
    let counts = keep(&[(Ecn::NotEct, 2), (Ecn::Ect1, 2)], true);
    let sent: Vec<u64> = counts.iter().map(|count| count[0] + count[1]).collect();
    let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
    assert!((0.09..0.11).contains(&share), "{sent:?}");
}

/// A queue that cannot be controlled: p' grows to 1, so everything that is not needed is dropped, of L4S senders too.
#[test]
fn overload_drops_from_both_queues() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let [_, _, dropped] = keep(&[(ecn, 100)], true)[0];
        assert!(dropped > 1000, "{ecn:?}: {dropped}");
    }
}

/// As with a timer: a silent queue forgets its probability.
#[test]
fn silence_ends_the_probability() {
    let (mut queue, packets) = (queue(), Packets::default());
    (queue.base, queue.prevq) = (0.5, 20 * MILLISECOND);
    queue.catch_up(SECOND, &packets);
    // The first update sees the queue fall: 0.16 · 0.015 + 3.2 · 0.02 less. Each other one 0.0024 less.
    let expected = 0.5 - 0.064 - 62.0 * 0.0024;
    assert!((queue.base - expected).abs() < 1e-9, "{}", queue.base);
    queue.catch_up(1_000_000 * SECOND, &packets);
    assert_eq!(queue.base, 0.0);
}
