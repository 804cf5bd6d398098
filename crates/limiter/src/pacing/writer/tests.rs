use super::super::throttled_rate;
use super::*;

const MS: u64 = 1_000_000;

/// A writer at 125 % of an encoding rate in bit/s, with this many bytes at full speed.
fn at_125_percent(way: Way, encoding: u64, startup: u64) -> Writer {
    let rate = throttled_rate(Rate::from_bits_per_second(encoding), 1250);
    Writer::new(way, rate, Bytes::new(startup))
}

/// Writes all that may be written, at once, until `end`; returns when and how much.
fn drive(writer: &mut Writer, state: Option<Hold>, end: u64) -> Vec<(u64, u64)> {
    let mut now = 0;
    let mut writes = vec![];
    while now < end {
        match writer.ready(now, state) {
            Ready::Write(bytes) => {
                let bytes = bytes.min(1 << 20);
                writes.push((now, bytes));
                writer.wrote(Bytes::new(bytes), now);
                if writes.len() > 100_000 {
                    break;
                }
            }
            Ready::Wait(wait) => now += wait,
        }
    }
    writes
}

#[test]
fn blocks_come_as_the_tokens_do() {
    // 1 Mbit/s · 125 % = 156,250 bytes/s: a block of 65,536 every 419.4304 ms.
    let mut writer = at_125_percent(Way::APPLICATION_64K, 1_000_000, 0);
    let writes = drive(&mut writer, None, 2_000 * MS);
    let expected: Vec<_> = (1..=4).map(|i| (i * 419_430_400, 65_536)).collect();
    assert_eq!(writes, expected);
    let mut writer = at_125_percent(Way::APPLICATION_16K, 1_000_000, 0);
    assert_eq!(drive(&mut writer, None, 2_000 * MS).len(), 19);
}

/// What a writer in this way writes first, into packets with this payload, and this framing.
fn first(way: Way, state: Option<Hold>, payload: u64, framing: u64) -> u64 {
    let mut writer = at_125_percent(way, 1_000_000, 0);
    writer.fill(Packets { payload, framing });
    drive(&mut writer, state, 1_000 * MS)[0].1
}

#[test]
fn what_is_written_at_once_fills_its_packets() {
    // 64 kB are 45 packets [Trickle §2]; the rest would be one more of 376 bytes.
    assert_eq!(first(Way::APPLICATION_64K, None, 1448, 0), 45 * 1448);
    assert_eq!(first(Way::APPLICATION_16K, None, 1448, 0), 11 * 1448);
    // Four records of TLS.
    let in_tls = first(Way::APPLICATION_64K, None, 1448, 29);
    assert_eq!(in_tls, 45 * 1448 - 4 * 29);
    // A block stays as it is if it is not much larger than a packet, and where nothing is known of packets.
    assert_eq!(first(Way::APPLICATION_64K, None, 65_483, 0), 65_483);
    assert_eq!(first(Way::APPLICATION_64K, None, 47_616, 0), 65_536);
    assert_eq!(first(Way::APPLICATION_16K, None, 8_948, 0), 16_384);
    assert_eq!(first(Way::APPLICATION_16K, None, 65_483, 0), 16_384);
    assert_eq!(first(Way::APPLICATION_64K, None, 0, 0), 65_536);
    assert_eq!(first(Way::APPLICATION_64K, None, u64::MAX, 0), 65_536);
    // Trickle: ten packets at most, or where the kernel spaces them half a second of 156,250 bytes/s.
    let spaced = Some(Hold::Spaced);
    assert_eq!(first(Way::TRICKLE, Some(Hold::Floor), 1300, 29), 12_971);
    assert_eq!(first(Way::TRICKLE, spaced, 1448, 0), 53 * 1448);
    assert_eq!(first(Way::TRICKLE, spaced, 65_483, 0), 78_125);
}

#[test]
fn a_burst_of_trickle_stays_as_it_was_at_the_beginning() {
    let mut writer = at_125_percent(Way::TRICKLE, 1_000_000, 0);
    for payload in [1_300, 1_448, 500] {
        writer.fill(Packets {
            payload,
            framing: 0,
        });
        let (at, bytes) = drive(&mut writer.clone(), Some(Hold::Floor), 100 * MS)[0];
        assert_eq!((at, bytes), (83_200_000, 13_000));
    }
}

#[test]
fn start_up_is_free_and_takes_no_tokens() {
    let mut writer = at_125_percent(Way::APPLICATION_64K, 1_000_000, 100_000);
    assert_eq!(writer.phase(), Phase::StartUp);
    assert_eq!(writer.ready(0, None), Ready::Write(100_000));
    writer.wrote(Bytes::new(60_000), 0);
    assert_eq!(writer.ready(0, None), Ready::Write(40_000));
    writer.wrote(Bytes::new(40_000), 0);
    assert_eq!(writer.phase(), Phase::Throttling);
    assert_eq!(writer.ready(7 * MS, None), Ready::Wait(419_430_400));
}

#[test]
fn a_stalled_writer_catches_up_to_the_average() {
    let mut writer = at_125_percent(Way::APPLICATION_64K, 1_000_000, 0);
    assert!(matches!(writer.ready(0, None), Ready::Wait(_)));
    // TCP took nothing for 10 s: 1,562,500 bytes are due, 23 blocks without a wait.
    let now = 10_000 * MS;
    let mut blocks = 0;
    while let Ready::Write(bytes) = writer.ready(now, None) {
        writer.wrote(Bytes::new(bytes), now);
        blocks += 1;
    }
    assert_eq!(blocks, 23);
}

#[test]
fn a_last_block_that_is_short_is_not_waited_for_as_a_whole_one() {
    // 156,250 bytes/s: a block in 419.4304 ms, and the 15,625 bytes after it in 100 ms.
    let mut writer = at_125_percent(Way::APPLICATION_64K, 1_000_000, 0).length(Bytes::new(81_161));
    assert_eq!(writer.ready(0, None), Ready::Wait(419_430_400));
    writer.wrote(Bytes::new(65_536), 419_430_400);
    assert_eq!(writer.ready(419_430_400, None), Ready::Wait(100_000_000));
    assert_eq!(writer.ready(519_430_400, None), Ready::Write(15_625));
}

#[test]
fn tokens_between_a_transfer_and_the_next_count_for_a_while() {
    // 156,250 bytes/s: 10,000 bytes in 64 ms, whether the transfers are many or one.
    for way in [Way::APPLICATION_64K, Way::TRICKLE] {
        let hold = Some(Hold::Unheld);
        let new = |paid: Option<u64>| {
            let new = at_125_percent(way, 1_000_000, 0).length(Bytes::new(10_000));
            new.continues(paid)
        };
        let written = |mut writer: Writer, asked: u64| {
            let mut now = asked;
            if let Ready::Wait(wait) = writer.ready(now, hold) {
                now += wait;
            }
            assert_eq!(writer.ready(now, hold), Ready::Write(10_000));
            writer.wrote(Bytes::new(10_000), now);
            (now, writer)
        };
        assert_eq!(new(None).paid(Bytes::new(0)), None);
        let (at, first) = written(new(None), 0);
        assert_eq!(at, 64 * MS);
        let paid = first.paid(Bytes::new(0));
        assert_eq!(paid, Some(64 * MS));
        // What the client did not take is not paid for.
        assert_eq!(first.paid(Bytes::new(10_000)), Some(0));
        // Asked for 50 ms later, and a minute later, when tokens of 250 ms are there.
        let (at, second) = written(new(paid), 114 * MS);
        assert_eq!(at, 128 * MS);
        let (at, third) = written(new(second.paid(Bytes::new(0))), 60_000 * MS);
        assert_eq!(at, 60_000 * MS);
        assert_eq!(third.paid(Bytes::new(0)), Some(59_814 * MS));
        // What was lent has to be paid for.
        assert_eq!(written(new(Some(80 * MS)), 70 * MS).0, 144 * MS);
        // A start-up owes nothing.
        let mut writer = at_125_percent(way, 1_000_000, 500).continues(Some(0));
        writer.wrote(Bytes::new(500), 100 * MS);
        assert!(matches!(writer.ready(100 * MS, hold), Ready::Wait(_)));
    }
}

#[test]
fn short_waits_lend_tokens() {
    // 16 kB at 1.25 Mbit/s is 104.9 ms; at 5 Mbit/s 26.2 ms, too short to wait for.
    let mut writer = at_125_percent(Way::APPLICATION_16K, 4_000_000, 0).least_wait(100 * MS);
    let writes = drive(&mut writer, None, 10_000 * MS);
    let together = writes.iter().filter(|(at, _)| *at == writes[8].0).count();
    assert!(together >= 3, "{:?}", &writes[..12]);
    let bytes: u64 = writes.iter().map(|(_, bytes)| bytes).sum();
    assert!(
        (6_250_000..6_250_000 + 5 * 16_384).contains(&bytes),
        "{bytes}"
    );
}

#[test]
fn trickle_writes_all_there_is_unless_at_its_floor() {
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    for state in [Hold::Clamped, Hold::Behind] {
        assert_eq!(writer.ready(0, Some(state)), Ready::Write(u64::MAX));
    }
    // 62,500 bytes/s: 10 segments of 1448 bytes every 231.68 ms.
    let writes = drive(&mut writer, Some(Hold::Floor), 1_000 * MS);
    let expected: Vec<_> = (1..=4).map(|i| (i * 231_680_000, 14_480)).collect();
    assert_eq!(writes, expected);
}

#[test]
fn trickle_goes_on_throttling_once_it_was_at_its_floor() {
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    writer.ready(0, Some(Hold::Floor));
    let writes = drive(&mut writer, Some(Hold::Clamped), 1_000 * MS);
    let expected: Vec<_> = (1..=4).map(|i| (i * 231_680_000, 14_480)).collect();
    assert_eq!(writes, expected);
    // What is missing is caught up as before.
    let state = Some(Hold::Behind);
    assert_eq!(writer.ready(1_000 * MS, state), Ready::Write(u64::MAX));
}

#[test]
fn at_the_floor_a_late_writer_keeps_two_bursts_apart() {
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    let state = Some(Hold::Floor);
    assert!(matches!(writer.ready(0, state), Ready::Wait(_)));
    // A little late: nothing is lost.
    let late = 300 * MS;
    assert_eq!(writer.ready(late, state), Ready::Write(14_480));
    writer.wrote(Bytes::new(14_480), late);
    assert_eq!(writer.ready(late, state), Ready::Wait(163_360_000));
    // Very late: two bursts, not all, and the second after half of its time.
    let late = 60_000 * MS;
    assert_eq!(writer.ready(late, state), Ready::Write(14_480));
    writer.wrote(Bytes::new(14_480), late);
    assert_eq!(writer.ready(late, state), Ready::Wait(115_840_000));
    let late = late + 115_840_000;
    assert_eq!(writer.ready(late, state), Ready::Write(14_480));
    writer.wrote(Bytes::new(14_480), late);
    assert_eq!(writer.ready(late, state), Ready::Wait(115_840_000));
    assert_eq!(
        writer.ready(late + 115_840_000, state),
        Ready::Write(14_480)
    );
}

#[test]
fn what_the_window_let_out_ahead_counts_at_the_floor() {
    // 62,500 bytes/s. The round trip is long from the start-up, and the socket takes 125,000 bytes: 2 s.
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    assert_eq!(writer.ready(0, Some(Hold::Clamped)), Ready::Write(u64::MAX));
    writer.wrote(Bytes::new(125_000), 0);
    assert_eq!(
        writer.ready(0, Some(Hold::Floor)),
        Ready::Wait(2_231_680_000)
    );
    // Ahead by ever so much: 262,144 bytes of it count.
    assert_eq!(writer.ready(0, Some(Hold::Behind)), Ready::Write(u64::MAX));
    writer.wrote(Bytes::new(1 << 40), 0);
    assert_eq!(
        writer.ready(0, Some(Hold::Floor)),
        Ready::Wait(4_425_984_000)
    );
}

#[test]
fn what_was_behind_and_is_caught_up_is_not_ahead() {
    // Nothing goes out for 20 s, two bursts of which are kept; the kernel says so, and all of it,
    // 1,250,000 bytes, is written at once: on time, neither ahead nor behind.
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    assert!(matches!(writer.ready(0, Some(Hold::Floor)), Ready::Wait(_)));
    let now = 20_000 * MS;
    writer.ready(now - MS, Some(Hold::Floor));
    assert_eq!(
        writer.ready(now, Some(Hold::Behind)),
        Ready::Write(u64::MAX)
    );
    writer.wrote(Bytes::new(1_250_000), now);
    assert_eq!(
        writer.ready(now, Some(Hold::Floor)),
        Ready::Wait(231_680_000)
    );
}

#[test]
fn a_transfer_that_gets_company_goes_on_at_its_rate() {
    // Alone and clamped, a second ahead of 62,500 bytes/s; then beside others, by time; and alone.
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    let (alone, beside) = (Some(Hold::Clamped), Some(Hold::Unheld));
    assert_eq!(writer.ready(0, alone), Ready::Write(u64::MAX));
    writer.wrote(Bytes::new(62_500), 0);
    let (mut now, mut written) = (0, 62_500);
    while now < 60_000 * MS {
        match writer.ready(now, beside) {
            Ready::Write(bytes) => {
                writer.wrote(Bytes::new(bytes), now);
                written += bytes;
            }
            Ready::Wait(wait) => now += wait,
        }
    }
    let due = 62_500 * now / 1_000_000_000;
    assert!(
        (due - 14_480..=due).contains(&written),
        "{written} of {due}"
    );
    assert_eq!(writer.ready(now, alone), Ready::Write(u64::MAX));
    writer.wrote(Bytes::new(62_500), now);
    assert!(matches!(writer.ready(now, beside), Ready::Wait(wait) if wait > 900 * MS));
}

#[test]
fn what_nothing_holds_keeps_the_average() {
    let mut writer = at_125_percent(Way::TRICKLE, 400_000, 0);
    let state = Some(Hold::Unheld);
    assert!(matches!(writer.ready(0, state), Ready::Wait(_)));
    let mut bursts = 0;
    while let Ready::Write(bytes) = writer.ready(10_000 * MS, state) {
        assert_eq!(bytes, 14_480);
        writer.wrote(Bytes::new(bytes), 10_000 * MS);
        bursts += 1;
    }
    assert_eq!(bursts, 43); // 625,000 bytes
}

/// 250,000 bytes/s, spaced by the kernel: 125,000 bytes are half a second.
#[test]
fn where_the_kernel_spaces_packets_blocks_are_large_and_lent() {
    for state in [Some(Hold::Spaced), Some(Hold::Fallback)] {
        let mut writer = at_125_percent(Way::TRICKLE, 1_600_000, 0);
        let writes = drive(&mut writer, state, 1_900 * MS);
        // The first when the phase begins.
        let expected: Vec<_> = (0..4).map(|i| (i * 500 * MS, 125_000)).collect();
        assert_eq!(writes, expected);
    }
}

#[test]
fn the_time_of_the_start_up_pays_for_nothing_later() {
    // 250,000 bytes/s. The start-up takes 10 s to arrive, and the socket has no room meanwhile.
    let mut writer = at_125_percent(Way::TRICKLE, 1_600_000, 0);
    assert!(matches!(
        writer.ready(0, Some(Hold::StartUp)),
        Ready::Wait(_)
    ));
    assert_eq!(
        writer.ready(10_000 * MS, Some(Hold::StartUp)),
        Ready::Write(14_480)
    );
    writer.wrote(Bytes::new(14_480), 10_000 * MS);
    // Its queue makes the round trip long, and so the clamp large: half a second goes into the socket, which waits.
    assert_eq!(
        writer.ready(10_000 * MS, Some(Hold::Clamped)),
        Ready::Write(u64::MAX)
    );
    writer.wrote(Bytes::new(125_000), 10_000 * MS);
    let wait = match writer.ready(10_000 * MS, Some(Hold::Spaced)) {
        Ready::Wait(wait) => wait,
        Ready::Write(bytes) => panic!("{bytes}"),
    };
    assert!((300 * MS..=500 * MS).contains(&wait), "{wait}");
}

#[test]
fn the_end_of_a_spaced_transfer_is_not_early() {
    // Requests for parts of 100,000 bytes, one after the other, get 250,000 bytes/s.
    let mut now = 0;
    for part in 1..=20_u64 {
        let mut writer = at_125_percent(Way::TRICKLE, 1_600_000, 0).length(Bytes::new(100_000));
        let mut left = 100_000;
        while left > 0 {
            match writer.ready(now, Some(Hold::Spaced)) {
                Ready::Write(bytes) => {
                    writer.wrote(Bytes::new(bytes), now);
                    left -= bytes;
                }
                Ready::Wait(wait) => now += wait,
            }
        }
        assert_eq!(now, part * 400 * MS);
    }
}

#[test]
fn no_way_never_waits_and_sets_nothing() {
    let mut none = at_125_percent(Way::None, 1_000_000, 10);
    none.wrote(Bytes::new(1 << 30), 0);
    assert_eq!(none.ready(0, None), Ready::Write(u64::MAX));
    assert_eq!(
        (none.phase(), none.settings()),
        (Phase::StartUp, Settings::default())
    );
    let mut paced = at_125_percent(Way::MaxPacingRate, 1_000_000, 0);
    assert_eq!(paced.ready(0, None), Ready::Write(u64::MAX));
    assert_eq!(
        paced.settings().max_pacing_rate,
        Some(Rate::from_bits_per_second(1_250_000))
    );
    assert_eq!(
        at_125_percent(Way::TRICKLE, 1_000_000, 0).settings().clamp,
        Some(Rate::from_bits_per_second(1_250_000))
    );
}

#[test]
fn absurd_numbers_do_not_panic() {
    let fast = Way::Application { block: u64::MAX };
    let mut writer = Writer::new(fast, Rate::from_bits_per_second(u64::MAX), Bytes::new(0));
    assert!(matches!(writer.ready(0, None), Ready::Wait(_)));
    writer.wrote(Bytes::new(u64::MAX), u64::MAX);
    writer.ready(u64::MAX, None);
    writer.ready(0, None);
    let slow = Way::Application { block: 0 };
    let mut slow = Writer::new(slow, Rate::from_bits_per_second(0), Bytes::new(0));
    assert_eq!(slow.ready(0, None), Ready::Wait(1_000_000_000));
}

proptest::proptest! {
    /// Whatever the writer's delays: never more than the rate asks for and a block, and with all
    /// tokens kept, never less than that, less a block.
    #[test]
    fn writes_keep_to_the_rate(
        encoding in 10_000u64..20_000_000,
        block in 1_000u64..200_000,
        startup in 0u64..1_000_000,
        delays in proptest::collection::vec((0u64..500_000_000, 0u64..70_000), 1..100),
        framing in 0u64..100,
    ) {
        let mut writer = at_125_percent(Way::Application { block }, encoding, startup);
        let rate = u128::from(encoding) * 125 / 800;
        let (mut now, mut begin, mut written) = (0, None, 0u128);
        for (delay, payload) in delays {
            now += delay;
            writer.fill(Packets { payload, framing });
            // As much as may be written now.
            for _ in 0..10_000 {
                if begin.is_none() && writer.phase() == Phase::Throttling {
                    begin = Some(now);
                }
                match writer.ready(now, None) {
                    Ready::Wait(wait) => {
                        proptest::prop_assert!(wait > 0);
                        break;
                    }
                    Ready::Write(bytes) => {
                        proptest::prop_assert!(bytes > 0 && (begin.is_none() || bytes <= block));
                        writer.wrote(Bytes::new(bytes), now);
                        written += u128::from(bytes);
                    }
                }
            }
            let Some(begin) = begin else { continue };
            let due = rate * u128::from(now - begin) / 1_000_000_000;
            let throttled = written - u128::from(startup);
            proptest::prop_assert!(throttled <= due);
            proptest::prop_assert!(throttled + u128::from(block) >= due);
        }
    }

    /// Whatever the state becomes and when: at most what the rate asks for is written at the floor
    /// and where nothing holds it, what the window let out before counted in, as long as that is not much.
    #[test]
    fn being_ahead_is_held_against_later_writes(
        encoding in 100_000u64..20_000_000,
        steps in proptest::collection::vec((0u64..200_000_000, 0usize..4, 0u64..131_072), 1..200),
    ) {
        let mut writer = at_125_percent(Way::TRICKLE, encoding, 0);
        let rate = u128::from(encoding * 125 / 800);
        writer.ready(0, Some(Hold::Floor));
        let (mut now, mut written) = (0, 0u128);
        for (delay, state, socket) in steps {
            now += delay;
            let states = [Hold::Floor, Hold::Unheld, Hold::Clamped, Hold::Behind];
            loop {
                let due = rate * u128::from(now) / 1_000_000_000;
                match writer.ready(now, Some(states[state])) {
                    Ready::Wait(_) => break,
                    Ready::Write(u64::MAX) => {
                        // No more than counts.
                        let most = (due + 262_144).saturating_sub(written);
                        let bytes = socket.min(u64::try_from(most).unwrap());
                        writer.wrote(Bytes::new(bytes), now);
                        written += u128::from(bytes);
                        break;
                    }
                    Ready::Write(bytes) => {
                        writer.wrote(Bytes::new(bytes), now);
                        written += u128::from(bytes);
                        proptest::prop_assert!(written <= due, "{} of {}", written, due);
                    }
                }
            }
        }
    }

    /// At the floor no two bursts are closer than half of their time, at any delay.
    #[test]
    fn bursts_at_the_floor_are_apart(
        encoding in 10_000u64..20_000_000,
        delays in proptest::collection::vec(0u64..500_000_000, 1..100),
    ) {
        let mut writer = at_125_percent(Way::TRICKLE, encoding, 0);
        let half = 14_480 * 500_000_000 / (encoding * 125 / 800);
        let (mut now, mut last) = (0, None);
        for delay in delays {
            now += delay;
            while let Ready::Write(bytes) = writer.ready(now, Some(Hold::Floor)) {
                proptest::prop_assert_eq!(bytes, 14_480);
                if let Some(last) = last {
                    proptest::prop_assert!(now - last >= half);
                }
                last = Some(now);
                writer.wrote(Bytes::new(bytes), now);
            }
        }
    }
}

#[test]
fn the_last_burst_waits_for_its_own_tokens_only() {
    // 2 s of a sound of 64 kbit/s, at 125 %: 10,000 bytes/s.
    let way = Way::Trickle { block: 14_480 };
    let mut writer = at_125_percent(way, 64_000, 0).length(Bytes::new(16_000));
    let first = writer.ready(0, Some(Hold::Unheld));
    assert_eq!(first, Ready::Wait(1_448 * MS));
    for (at, bytes) in [(1_448 * MS, 14_480), (1_600 * MS, 1_520)] {
        assert_eq!(writer.ready(at - MS, Some(Hold::Unheld)), Ready::Wait(MS));
        assert_eq!(writer.ready(at, Some(Hold::Unheld)), Ready::Write(bytes));
        writer.wrote(Bytes::new(bytes), at);
    }
}
