use super::*;
use crate::tcp::Segment;

const MS: Nanos = 1_000_000;
const AIM: Aim = Aim {
    target: 5 * MS,
    interval: 100 * MS,
    ecn: false,
};

/// A queue that is kept long, and that serves a packet each millisecond. Returns the times at which
/// packets were dropped.
fn drops(until: Nanos, mut codel: CoDel) -> Vec<Nanos> {
    let mut packets = Packets::default();
    let mut times = Vec::new();
    let offer = |codel: &mut CoDel, packets: &mut Packets, now| {
        let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
        codel.offer(now, id, packets);
    };
    for _ in 0..2000 {
        offer(&mut codel, &mut packets, 0);
    }
    for now in (0..until).step_by(MS as usize) {
        offer(&mut codel, &mut packets, now);
        assert!(codel.take(now, &mut packets).is_some());
        while packets.next_dropped().is_some() {
            times.push(now / MS);
        }
    }
    times
}

#[test]
fn drops_follow_the_control_law() {
    // The packet of 5 ms is the first above target; an interval later the first is dropped, the
    // next ones after 100/√1, 100/√2, ... ms: sums of them, rounded up to a service time.
    let mut expected = Vec::new();
    let mut at = 105.0;
    for count in 1..=30 {
        expected.push(f64::ceil(at) as Nanos);
        at += 100.0 / f64::from(count).sqrt();
    }
    let got = drops(2000 * MS, CoDel::new(AIM, 100_000));
    assert!(got.len() > 30, "{got:?}");
    assert_eq!(got[..30], expected);
}

#[test]
fn a_queue_below_target_or_of_one_packet_is_left_alone() {
    let mut codel = CoDel::new(AIM, 1000);
    let mut packets = Packets::default();
    let offer = |codel: &mut CoDel, now, packets: &mut Packets| {
        let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
        codel.offer(now, id, packets);
    };
    // Three packets wait 4 ms each: below target.
    offer(&mut codel, 0, &mut packets);
    offer(&mut codel, 0, &mut packets);
    for now in (4..1000).step_by(4) {
        offer(&mut codel, now * MS, &mut packets);
        assert!(codel.take(now * MS + 1, &mut packets).is_some());
        if now % 8 == 0 {
            assert!(codel.take(now * MS + 2, &mut packets).is_some());
            offer(&mut codel, now * MS + 3, &mut packets);
        }
    }
    // One packet at a time, each waits for 50 ms. With one packet left there is no standing queue.
    while codel.take(1000 * MS, &mut packets).is_some() {}
    while packets.next_dropped().is_some() {}
    offer(&mut codel, 1000 * MS, &mut packets);
    for now in (1050..3000).step_by(50) {
        offer(&mut codel, now * MS, &mut packets);
        assert!(codel.take(now * MS, &mut packets).is_some());
        assert_eq!(packets.next_dropped(), None, "at {now} ms");
    }
}

#[test]
fn a_full_queue_drops_arrivals() {
    let mut codel = CoDel::new(AIM, 10);
    let mut packets = Packets::default();
    for count in 0..12 {
        let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
        codel.offer(0, id, &mut packets);
        assert_eq!(packets.next_dropped().is_some(), count >= 10);
    }
}

/// The RFC's pseudo-code in its original form, over sojourn times alone, as the reference.
#[derive(Default)]
struct Reference {
    queue: std::collections::VecDeque<Nanos>,
    first_above: f64,
    drop_next: f64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    dropped: u32,
}

impl Reference {
    fn dodeque(&mut self, now: f64) -> (Option<Nanos>, bool) {
        let packet = self.queue.pop_front();
        let Some(stamp) = packet else {
            self.first_above = 0.0;
            return (None, false);
        };
        let sojourn = now - stamp as f64;
        if sojourn < 5e6 || self.queue.len() <= 1 {
            self.first_above = 0.0;
        } else if self.first_above == 0.0 {
            self.first_above = now + 1e8;
        } else if now >= self.first_above {
            return (packet, true);
        }
        (packet, false)
    }

    fn deque(&mut self, time: Nanos) {
        let now = time as f64;
        let (mut packet, mut ok) = self.dodeque(now);
        if packet.is_none() {
            self.dropping = false;
            return;
        }
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.dropped += 1;
                self.count += 1;
                (packet, ok) = self.dodeque(now);
                if ok {
                    self.drop_next = (self.drop_next + 1e8 / f64::from(self.count).sqrt()).floor();
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            self.dropped += 1;
            (packet, _) = self.dodeque(now);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16.0 * 1e8 {
                self.count = delta;
            }
            self.drop_next = (now + 1e8 / f64::from(self.count).sqrt()).floor();
            self.lastcount = self.count;
        }
        let _ = packet;
    }
}

proptest::proptest! {
    /// Phases of overload and relief, so that states are left and entered again.
    #[test]
    fn it_does_what_the_pseudo_code_does(
        phases in proptest::collection::vec((1u64..2000, 300u64..3000), 1..12),
    ) {
        let (mut codel, mut packets) = (CoDel::new(AIM, 1 << 40), Packets::default());
        let mut reference = Reference::default();
        let (mut now, mut arrival, mut dropped) = (1, 1, 0);
        for (length, gap) in phases {
            // A packet is served each millisecond; they arrive every `gap` microseconds.
            for _ in 0..length {
                while arrival <= now {
                    let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
                    codel.offer(arrival, id, &mut packets);
                    reference.queue.push_back(arrival);
                    arrival += gap * 1000;
                }
                if let Some(id) = codel.take(now, &mut packets) {
                    packets.free(id);
                }
                reference.deque(now);
                while let Some(id) = packets.next_dropped() {
                    packets.free(id);
                    dropped += 1;
                }
                proptest::prop_assert_eq!(dropped, reference.dropped, "at {}", now);
                proptest::prop_assert_eq!(codel.bytes(), reference.queue.len() as u64 * 1514);
                now += MS;
            }
        }
    }
}
