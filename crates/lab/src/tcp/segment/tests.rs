use super::*;

/// As captures of Linux show them: 60 bytes of SYN, 52 of acknowledgement, 1500 of a full segment.
#[test]
fn lengths_are_those_on_the_wire() {
    let timestamps = Some(Timestamps { value: 1, echo: 1 });
    let ack = Segment {
        timestamps,
        ..Segment::default()
    };
    let syn = Segment { syn: true, ..ack };
    let full = Segment {
        payload: 1448,
        ..ack
    };
    assert_eq!(
        (syn.ip_bytes(), ack.ip_bytes(), full.ip_bytes()),
        (60, 52, 1500)
    );
    // tcpdump: 64, 72 and 80 bytes of acknowledgement with one, two, three ranges.
    let mut sacks = ack;
    for bytes in [64, 72, 80] {
        sacks.sacks.push(5..6);
        assert_eq!(sacks.ip_bytes(), bytes);
    }
    let bare = Segment::default();
    let syn = Segment { syn: true, ..bare };
    assert_eq!((syn.ip_bytes(), bare.ip_bytes()), (52, 40));
}

#[test]
fn syn_and_fin_count_as_a_byte() {
    let segment = Segment {
        seq: 10,
        payload: 5,
        fin: true,
        ..Segment::default()
    };
    assert_eq!(segment.end(), 16);
    let last = Segment {
        seq: u64::MAX,
        ..segment
    };
    assert_eq!(last.end(), u64::MAX);
}

#[test]
fn a_fifth_range_is_left_out() {
    let mut sacks = Sacks::default();
    (0..5).for_each(|index| sacks.push(index..index + 1));
    assert!(sacks.ranges().eq([0..1, 1..2, 2..3, 3..4]));
}
