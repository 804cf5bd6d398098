use super::*;
use crate::tcp::Segment;

/// Offers packets of this length until one is dropped.
fn room(mut queue: DropTail, bytes: u32) -> (u64, u64) {
    let mut packets = Packets::default();
    for count in 0..10_000 {
        let id = packets.insert(Packet::new(0, true, bytes, Segment::default()));
        queue.offer(0, id, &mut packets);
        if packets.next_dropped().is_some() {
            return (count, queue.bytes());
        }
    }
    (u64::MAX, queue.bytes())
}

#[test]
fn limits_are_exact() {
    assert_eq!(room(DropTail::new(None, Some(83)), 1500), (83, 83 * 1514));
    assert_eq!(room(DropTail::new(Some(83 * 1514), None), 1500).0, 83);
    assert_eq!(room(DropTail::new(Some(83 * 1514 - 1), None), 1500).0, 82);
    assert_eq!(room(DropTail::new(Some(3000), Some(1)), 1500).0, 1);
    assert_eq!(room(DropTail::new(None, None), 1500).0, u64::MAX);
}

#[test]
fn a_small_packet_fits_where_a_large_one_did_not() {
    let (mut queue, mut packets) = (DropTail::new(Some(2000), None), Packets::default());
    let mut offer = |bytes| {
        let id = packets.insert(Packet::new(0, true, bytes, Segment::default()));
        queue.offer(0, id, &mut packets);
        packets.next_dropped().is_none()
    };
    assert!(offer(1500));
    assert!(!offer(1500));
    assert!(offer(400));
}
