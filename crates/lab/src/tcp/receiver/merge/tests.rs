use super::*;

const WITHIN: Nanos = 50_000;

fn segment(seq: u64) -> Segment {
    Segment {
        seq,
        payload: 1000,
        ..Segment::default()
    }
}

/// What TCP sees: beginnings and ends.
fn seen(segments: [Option<Seen>; 2]) -> Vec<(u64, u64)> {
    let ranges = segments.iter().flatten();
    ranges
        .map(|(segment, count)| {
            let length = segment.end() - segment.seq;
            assert_eq!(u64::from(*count), length.div_ceil(1000).max(1));
            (segment.seq, segment.end())
        })
        .collect()
}

#[test]
fn segments_in_order_are_one_until_none_follows() {
    let mut merge = Merge::new(WITHIN);
    for (at, seq) in [(0, 0), (40_000, 1000), (90_000, 2000)] {
        assert_eq!(seen(merge.take(at, &segment(seq))), []);
    }
    assert_eq!(merge.due(), Some(140_000));
    assert_eq!(merge.on_timeout(139_999), None);
    assert_eq!(seen([merge.on_timeout(140_000), None]), [(0, 3000)]);
    assert_eq!((merge.due(), merge.on_timeout(150_000)), (None, None));
}

#[test]
fn what_does_not_follow_ends_it() {
    let mut merge = Merge::new(WITHIN);
    merge.take(0, &segment(0));
    // Behind a hole; too late; with another mark.
    assert_eq!(seen(merge.take(1, &segment(2000))), [(0, 1000)]);
    assert_eq!(seen(merge.take(60_000, &segment(3000))), [(2000, 3000)]);
    let marked = Segment {
        ecn: tidegate_limiter::Ecn::Ce,
        ..segment(4000)
    };
    assert_eq!(seen(merge.take(60_001, &marked)), [(3000, 4000)]);
    // Data that is pushed ends a burst, and an acknowledgement is not held.
    let pushed = Segment {
        psh: true,
        ecn: tidegate_limiter::Ecn::Ce,
        ..segment(5000)
    };
    assert_eq!(seen(merge.take(60_002, &pushed)), [(4000, 6000)]);
    let answer = Segment {
        payload: 0,
        ..segment(6000)
    };
    assert_eq!(seen(merge.take(60_003, &answer)), [(6000, 6000)]);
}

#[test]
fn no_more_than_a_packet_of_64_kib_is_merged() {
    let mut merge = Merge::new(WITHIN);
    let seen: Vec<_> = (0..100)
        .flat_map(|number| seen(merge.take(number, &segment(1000 * number))))
        .collect();
    assert_eq!(seen, [(0, 65_000)]);
}
