use proptest::prelude::*;

use super::Colour::{Green, Red, Yellow};
use super::*;

const MS: Nanos = 1_000_000;
const AF11: u8 = 10;
const AF12: u8 = 12;
const AF13: u8 = 14;

const REMARK: Marking = Marking {
    green: Decision::Pass,
    yellow: Decision::Mark(AF12),
    red: Decision::Drop,
};

/// Bytes per millisecond, so that the traces can be followed by hand.
fn per_ms(bytes: u64) -> Rate {
    Rate::from_bits_per_second(bytes * 8_000)
}

fn packet(bytes: u32, dscp: u8) -> PacketMeta {
    PacketMeta {
        bytes,
        dscp,
        ..Default::default()
    }
}

/// 1 byte per millisecond, CBS 2000, EBS 3000.
fn single(mode: ColourMode) -> SingleRateMarker {
    single_of(2_000, 3_000, mode)
}

fn single_of(committed: u64, excess: u64, mode: ColourMode) -> SingleRateMarker {
    let bursts = SingleRateBursts { committed, excess };
    let config = SingleRateConfig::new(per_ms(1), bursts, REMARK).unwrap();
    SingleRateMarker::new(&config.with_mode(mode), 0)
}

/// PIR 2 bytes per millisecond, PBS 3000; CIR 1 byte per millisecond, CBS 2000.
fn two(mode: ColourMode) -> TwoRateMarker {
    let rates = TwoRates {
        committed: per_ms(1),
        committed_burst: 2_000,
        peak: per_ms(2),
        peak_burst: 3_000,
    };
    let config = TwoRateConfig::new(rates, REMARK).unwrap();
    TwoRateMarker::new(&config.with_mode(mode), 0)
}

/// Time in ms, bytes, code point; then the colour and both buckets after it.
type Step = (u64, u32, u8, Colour, (u64, u64));

#[test]
fn single_rate_colour_blind_by_hand() {
    let mut marker = single(ColourMode::Blind);
    let steps: [Step; 10] = [
        (0, 1_500, 0, Green, (500, 3_000)),
        (0, 1_500, 0, Yellow, (500, 1_500)),
        // A small packet still finds committed tokens; a code point says nothing.
        (0, 500, AF13, Green, (0, 1_500)),
        (0, 1_500, 0, Yellow, (0, 0)),
        (0, 1, 0, Red, (0, 0)),
        // All of 1999 ms goes to the committed bucket.
        (1_999, 2_000, 0, Red, (1_999, 0)),
        (2_000, 2_000, 0, Green, (0, 0)),
        // 2000 of 2500 fill it, the rest is excess.
        (4_500, 600, 0, Green, (1_400, 500)),
        // Room for 600, then 400 more.
        (5_500, 1_900, 0, Green, (100, 900)),
        // Both full: 1900 and 2100 of 10,000, the rest passes into no bucket.
        (15_500, 0, 0, Green, (2_000, 3_000)),
    ];
    for (at, bytes, dscp, colour, tokens) in steps {
        assert_eq!(marker.meter(at * MS, &packet(bytes, dscp)), colour, "{at}");
        assert_eq!(
            (marker.committed_tokens(), marker.excess_tokens()),
            tokens,
            "{at}"
        );
    }
}

#[test]
fn single_rate_colour_aware_by_hand() {
    let mut marker = single(ColourMode::assured_forwarding());
    let steps: [Step; 8] = [
        // A yellow packet never takes committed tokens, a red one none at all.
        (0, 1_000, AF12, Yellow, (2_000, 2_000)),
        (0, 100, AF13, Red, (2_000, 2_000)),
        (0, 1_500, AF11, Green, (500, 2_000)),
        // A green packet that finds too few becomes yellow.
        (0, 1_500, AF11, Yellow, (500, 500)),
        (0, 501, AF12, Red, (500, 500)),
        (0, 501, AF11, Red, (500, 500)),
        (0, 500, 46, Green, (0, 500)),
        // The committed bucket fills first, also for yellow packets.
        (400, 900, AF12, Red, (400, 500)),
    ];
    for (at, bytes, dscp, colour, tokens) in steps {
        assert_eq!(marker.meter(at * MS, &packet(bytes, dscp)), colour, "{at}");
        assert_eq!(
            (marker.committed_tokens(), marker.excess_tokens()),
            tokens,
            "{at}"
        );
    }
}

#[test]
fn what_is_below_a_byte_is_kept_while_either_bucket_has_room() {
    let mut marker = single(ColourMode::assured_forwarding());
    assert_eq!(marker.meter(0, &packet(3_000, AF12)), Yellow);
    assert_eq!(marker.meter(MS / 2, &packet(0, AF12)), Yellow);
    assert_eq!(
        (marker.committed_tokens(), marker.excess_tokens()),
        (2_000, 0)
    );
    assert_eq!(marker.meter(MS, &packet(1, AF12)), Yellow);
    // Both full: half a byte is turned away.
    assert_eq!(marker.meter(4_001 * MS + MS / 2, &packet(1, AF12)), Yellow);
    assert_eq!(marker.meter(4_002 * MS, &packet(0, AF12)), Yellow);
    assert_eq!(
        (marker.committed_tokens(), marker.excess_tokens()),
        (2_000, 2_999)
    );
}

#[test]
fn two_rates_colour_blind_by_hand() {
    let mut marker = two(ColourMode::Blind);
    let steps: [Step; 9] = [
        // A green packet takes from both.
        (0, 1_500, 0, Green, (1_500, 500)),
        (0, 1_000, 0, Yellow, (500, 500)),
        // Beyond the peak it is red, and takes nothing.
        (0, 501, 0, Red, (500, 500)),
        (0, 500, AF13, Green, (0, 0)),
        (100, 201, 0, Red, (200, 100)),
        (100, 200, 0, Yellow, (0, 100)),
        // Twice as fast: the peak bucket is full after 1500 ms, the committed one is not.
        (1_600, 0, 0, Green, (3_000, 1_600)),
        (1_600, 1_600, 0, Green, (1_400, 0)),
        (9_999, 0, 0, Green, (3_000, 2_000)),
    ];
    for (at, bytes, dscp, colour, tokens) in steps {
        assert_eq!(marker.meter(at * MS, &packet(bytes, dscp)), colour, "{at}");
        assert_eq!(
            (marker.peak_tokens(), marker.committed_tokens()),
            tokens,
            "{at}"
        );
    }
}

#[test]
fn two_rates_colour_aware_by_hand() {
    let mut marker = two(ColourMode::assured_forwarding());
    let steps: [Step; 6] = [
        (0, 1_000, AF13, Red, (3_000, 2_000)),
        // A yellow packet takes from the peak bucket alone.
        (0, 1_000, AF12, Yellow, (2_000, 2_000)),
        (0, 1_500, AF11, Green, (500, 500)),
        (0, 600, AF12, Red, (500, 500)),
        (0, 600, AF11, Red, (500, 500)),
        (50, 560, AF11, Yellow, (40, 550)),
    ];
    for (at, bytes, dscp, colour, tokens) in steps {
        assert_eq!(marker.meter(at * MS, &packet(bytes, dscp)), colour, "{at}");
        assert_eq!(
            (marker.peak_tokens(), marker.committed_tokens()),
            tokens,
            "{at}"
        );
    }
}

#[test]
fn each_colour_has_its_action() {
    let mut marker = single(ColourMode::Blind);
    assert_eq!(marker.offer(0, &packet(2_000, 0)), Decision::Pass);
    assert_eq!(marker.offer(0, &packet(3_000, 0)), Decision::Mark(AF12));
    assert_eq!(marker.offer(0, &packet(1, 0)), Decision::Drop);
    let mut marker = two(ColourMode::Blind);
    assert_eq!(marker.offer(0, &packet(2_000, 0)), Decision::Pass);
    assert_eq!(marker.offer(0, &packet(1_000, 0)), Decision::Mark(AF12));
    assert_eq!(marker.offer(0, &packet(1, 0)), Decision::Drop);
}

#[test]
fn what_the_rfcs_rule_out_is_refused() {
    let new = |committed, excess| {
        let bursts = SingleRateBursts { committed, excess };
        SingleRateConfig::new(per_ms(1), bursts, REMARK).err()
    };
    assert_eq!(new(0, 0), Some(ConfigError::NoBurst));
    assert_eq!(new(0, 1), None);
    assert_eq!(new(1, 0), None);
    let new = |peak, peak_burst, committed_burst| {
        let rates = TwoRates {
            committed: per_ms(2),
            committed_burst,
            peak: per_ms(peak),
            peak_burst,
        };
        TwoRateConfig::new(rates, REMARK).err()
    };
    let field = |error: Option<ConfigError>| error.map(|error| error.field());
    assert_eq!(
        new(1, 1, 1).map(|error| error.to_string()),
        Some(
            "the peak rate (8.00 kbit/s) has to be at least the committed rate (16.0 kbit/s)"
                .into()
        )
    );
    assert_eq!(new(2, 1, 1), None);
    assert_eq!(field(new(2, 0, 1)), Some(Field::PeakBurst));
    assert_eq!(field(new(2, 1, 0)), Some(Field::CommittedBurst));
}

proptest! {
    /// RFC 2697 §3 counts single tokens, "CIR times per second": so does this.
    #[test]
    fn single_rate_token_by_token(
        packets in prop::collection::vec((0u64..500, 0u32..400, 0usize..3), 1..60),
        cbs in 1u64..600,
        ebs in 0u64..600,
    ) {
        let mode = ColourMode::assured_forwarding();
        let mut marker = single_of(cbs, ebs, mode);
        let (mut now, mut c, mut e) = (0, cbs, ebs);
        for (gap, bytes, before) in packets {
            now += gap;
            for _ in 0..gap {
                if c < cbs {
                    c += 1;
                } else if e < ebs {
                    e += 1;
                }
            }
            let size = u64::from(bytes);
            let colour = match before {
                0 if c >= size => { c -= size; Green }
                0 | 1 if e >= size => { e -= size; Yellow }
                _ => Red,
            };
            let dscp = [AF11, AF12, AF13][before];
            prop_assert_eq!(marker.meter(now * MS, &packet(bytes, dscp)), colour);
            prop_assert_eq!((marker.committed_tokens(), marker.excess_tokens()), (c, e));
        }
    }
}
