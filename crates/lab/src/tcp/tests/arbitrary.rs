//! Connections over arbitrary paths, and with arbitrary segments.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tidegate_limiter::{Bytes, Ecn, Rate};
use tidegate_trace::wire::Timestamps;

use super::pipe::{DELAY, Pipe};
use crate::tcp::{Algorithm, Connection, Recovery, Sacks, Segment, TcpConfig};
use crate::{MILLISECOND, SECOND};

fn configs() -> impl Strategy<Value = TcpConfig> {
    let algorithms = prop_oneof![
        Just(Algorithm::Reno),
        Just(Algorithm::Cubic),
        Just(Algorithm::Bbr),
        Just(Algorithm::Bbr3),
        Just(Algorithm::Vegas),
        Just(Algorithm::Dctcp)
    ];
    (
        algorithms,
        any::<[bool; 4]>(),
        prop_oneof![Just(3_000u32), Just(64_000), Just(6 << 20)],
        any::<[bool; 3]>(),
        prop_oneof![
            Just(Recovery::Conservative),
            Just(Recovery::SlowStart),
            Just(Recovery::Quic)
        ],
    )
        .prop_map(
            |(
                algorithm,
                [pacing, sack, timestamps, rack],
                receive_window,
                [reads_slowly, keeps_little, ecn],
                recovery,
            )| TcpConfig {
                algorithm,
                pacing,
                sack,
                timestamps,
                rack,
                ecn,
                receive_window,
                read_rate: reads_slowly.then(|| Rate::from_bits_per_second(10_000_000)),
                send_buffer: keeps_little.then_some(20_000),
                recovery,
                ..TcpConfig::default()
            },
        )
}

/// Ranges, many of them near the bytes in flight.
fn segments() -> impl Strategy<Value = Segment> {
    let number = || prop_oneof![0u64..60_000, Just(u64::MAX), any::<u64>()];
    (
        (
            number(),
            number(),
            prop_oneof![Just(0u32), 1u32..3000, any::<u32>()],
        ),
        (
            any::<([bool; 5], u8)>(),
            prop_oneof![0u32..100_000, any::<u32>()],
        ),
        proptest::collection::vec((number(), number()), 0..5),
        proptest::option::of((any::<u32>(), any::<u32>())),
    )
        .prop_map(
            |((seq, ack, payload), (flags, window), ranges, timestamps)| {
                let ([syn, fin, psh, ece, cwr], class) = flags;
                let mut sacks = Sacks::default();
                ranges
                    .into_iter()
                    .for_each(|(start, end)| sacks.push(start..end));
                Segment {
                    seq,
                    ack,
                    payload,
                    syn,
                    fin,
                    psh,
                    window,
                    sacks,
                    timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
                    ecn: Ecn::of(class),
                    ece,
                    cwr,
                    ae: class & 4 > 0,
                    again: false,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// All bytes arrive, once, in order and within the window, also if packets are lost, late or
    /// doubled. The pipe checks the window, and the sender's counts after each step.
    #[test]
    fn everything_arrives(
        config in configs(),
        seed: u64,
        loss in 0.0..0.3f64,
        late in 0.0..0.3f64,
        double in 0.0..0.1f64,
        bytes in 0u64..300_000,
    ) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        Pipe::transfer(&config, bytes, |_, _, _, _| {
            if random.random_bool(loss) {
                return vec![];
            }
            let late = random.random_bool(late);
            let wait = if late { random.random_range(0..60 * MILLISECOND) } else { 0 };
            let copies = 1 + usize::from(random.random_bool(double));
            vec![DELAY + wait; copies]
        });
    }

    /// The same input gives the same result: nothing else decides.
    #[test]
    fn runs_are_repeatable(config in configs(), seed: u64) {
        let run = || {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let pipe = Pipe::transfer(&config, 100_000, |_, _, _, _| {
                if random.random_bool(0.1) { vec![] } else { vec![DELAY] }
            });
            let log: Vec<_> = pipe.log.iter().map(|sent| (sent.at, sent.data, sent.segment)).collect();
            log
        };
        prop_assert_eq!(run(), run());
    }

    /// Segments that no normal peer sends do not panic, and do not make it send without end.
    #[test]
    fn arbitrary_segments_do_no_harm(
        config in configs(),
        server: bool,
        segments in proptest::collection::vec((segments(), 0..2 * SECOND), 1..60),
    ) {
        let mut now = 0;
        let mut end = if server {
            Connection::server(&config, now)
        } else {
            Connection::client(&config, now)
        };
        end.write(now, Bytes::new(1 << 20));
        let syn = Segment { syn: true, ack: 1, window: 60_000, ..Segment::default() };
        let first = [(syn, MILLISECOND), (Segment { seq: 1, syn: false, ..syn }, MILLISECOND)];
        let drain = |end: &mut Connection, now| {
            let sent = (0..100_000).take_while(|_| end.poll_transmit(now).is_some()).count();
            assert!(sent < 10_000, "endless");
            end.check();
        };
        drain(&mut end, now);
        for (segment, wait) in first.into_iter().chain(segments) {
            let until = now + wait;
            while let Some(at) = end.next_timeout().filter(|&at| at <= until) {
                prop_assert!(at >= now || at <= until);
                now = now.max(at);
                end.on_timeout(now);
                drain(&mut end, now);
                prop_assert!(end.next_timeout().is_none_or(|next| next > now), "a timer stands still");
            }
            now = until;
            end.on_segment(now, &segment);
            drain(&mut end, now);
        }
    }
}
