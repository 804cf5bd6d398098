use super::*;

#[test]
fn lists_keep_their_order_while_slots_are_used_again() {
    let mut packets = Packets::default();
    let (mut one, mut two) = (Fifo::default(), Fifo::default());
    let length = |packet: &Packet| u64::from(packet.bytes);
    for round in 0..100u32 {
        for bytes in [round * 2, round * 2 + 1] {
            let id = packets.insert(Packet::new(0, true, bytes, Segment::default()));
            let list = if bytes % 2 == 0 { &mut one } else { &mut two };
            list.push(0, id, u64::from(bytes), &mut packets);
        }
        // The second list loses every packet at once, the first keeps three.
        let id = two.pop(&packets, length).unwrap();
        assert_eq!(packets.get(id).bytes, round * 2 + 1);
        packets.free(id);
        if one.packets() > 3 {
            let id = one.pop(&packets, length).unwrap();
            assert_eq!(packets.get(id).bytes, (round - 3) * 2);
            packets.free(id);
        }
    }
    assert_eq!(
        (one.packets(), two.packets(), packets.iter().count()),
        (3, 0, 3)
    );
    assert_eq!((one.bytes(), two.bytes()), (194 + 196 + 198, 0));
}
