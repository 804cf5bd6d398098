use proptest::prelude::*;

use super::*;
use crate::packet::Packet;
use crate::random::Owner;
use crate::tcp::Segment;

fn random() -> Random {
    Random::new(1, Owner::Element(0))
}

fn link(rate: u64, packets: Option<u64>) -> Link {
    let queue = QueueKind::DropTail {
        bytes: None,
        packets,
    };
    let no_flows = Arc::from(Vec::new());
    Link::new(
        Rate::from_bits_per_second(rate),
        &queue,
        &no_flows,
        random(),
    )
}

fn packet(packets: &mut Packets, bytes: u32) -> PacketId {
    packets.insert(Packet::new(0, true, bytes, Segment::default()))
}

#[test]
fn a_full_frame_takes_its_time_on_the_wire() {
    let (mut link, mut packets) = (link(10_000_000, None), Packets::default());
    let id = packet(&mut packets, 1500);
    link.offer(5, id, &mut packets);
    // 1514 bytes at 10 Mbit/s.
    assert_eq!(link.next_timeout(), Some(5 + 1_211_200));
    assert_eq!(link.poll(5 + 1_211_199, &mut packets), None);
    assert_eq!(link.poll(5 + 1_211_200, &mut packets), Some(id));
    assert_eq!(link.next_timeout(), None);
}

proptest! {
    /// For packets of any lengths, a busy link has sent n bytes after n × 8 / rate, rounded up
    /// once.
    #[test]
    fn a_busy_link_keeps_its_rate_exactly(
        rate in 8_000u64..400_000_000_000,
        lengths in prop::collection::vec(20u32..65_535, 1..60),
    ) {
        let (mut link, mut packets) = (link(rate, None), Packets::default());
        for &length in &lengths {
            let id = packet(&mut packets, length);
            link.offer(0, id, &mut packets);
        }
        let mut bits = 0u128;
        for &length in &lengths {
            let at = link.next_timeout().unwrap();
            let id = link.poll(at, &mut packets).unwrap();
            prop_assert_eq!(packets.get(id).bytes, length);
            bits += u128::from(length + 14) * 8;
            prop_assert_eq!(u128::from(at), (bits * 1_000_000_000).div_ceil(u128::from(rate)));
        }
    }
}

#[test]
fn an_idle_time_is_not_made_up_for() {
    // 3 bit/ns: 1514 bytes take 4037 1/3 ns.
    let (mut link, mut packets) = (link(3_000_000_000, None), Packets::default());
    for start in [0, 10_000] {
        let id = packet(&mut packets, 1500);
        link.offer(start, id, &mut packets);
        assert_eq!(link.next_timeout(), Some(start + 4038));
        assert_eq!(link.poll(start + 4038, &mut packets), Some(id));
    }
}

#[test]
fn without_room_to_wait_the_idle_link_still_sends() {
    let (mut link, mut packets) = (link(1_000_000, Some(0)), Packets::default());
    let (first, second) = (packet(&mut packets, 100), packet(&mut packets, 100));
    link.offer(0, first, &mut packets);
    link.offer(0, second, &mut packets);
    assert_eq!(packets.next_dropped(), Some(second));
    assert_eq!(packets.next_dropped(), None);
}
