//! Whatever comes: nothing panics, and no packet is lost or counted twice.

use proptest::prelude::*;

use crate::annotate::Marks;
use crate::flow::Settings;
use crate::testing::*;
use crate::wire::{Sacks, Timestamps};
use crate::write::{Ends, TcpFrame};

/// A packet of a small world: few flows, few sequence numbers, any order of time.
#[derive(Debug, Clone)]
struct Any {
    step: i64,
    port: u8,
    from_server: bool,
    seq: u16,
    ack: u16,
    flags: u8,
    payload: u32,
    window: u16,
    sacks: Vec<(u16, u16)>,
    timestamps: Option<(u8, u8)>,
}

fn any_packet() -> impl Strategy<Value = Any> {
    let flags = prop_oneof![
        8 => Just(0x10u8),
        1 => Just(0x02u8),
        1 => Just(0x12u8),
        1 => Just(0x11u8),
        1 => any::<u8>(),
    ];
    (
        prop_oneof![10 => 0i64..5_000_000, 1 => -2_000_000i64..0, 1 => 0i64..400_000_000_000],
        (0u8..3, any::<bool>()),
        (0u16..40, 0u16..40),
        flags,
        prop_oneof![1 => Just(0u32), 3 => 2u32..=536],
        prop_oneof![Just(u16::MAX), 0u16..5],
        prop::collection::vec((0u16..40, 0u16..40), 0..4),
        prop::option::of((0u8..6, 0u8..6)),
    )
        .prop_map(
            |(step, (port, from_server), (seq, ack), flags, payload, window, sacks, timestamps)| {
                Any {
                    step,
                    port,
                    from_server,
                    seq,
                    ack,
                    flags,
                    payload,
                    window,
                    sacks,
                    timestamps,
                }
            },
        )
}

/// Plays the packets; sequence numbers are multiples of `unit` after `isn`.
fn play(packets: &[Any], settings: Settings, isn: u32, unit: u32, payload: u32) -> Found {
    let mut talk = Talk::with(settings);
    let mut at = 0i64;
    let number = |n: u16| isn.wrapping_add(u32::from(n) * unit);
    for (i, any) in packets.iter().enumerate() {
        at = (at + any.step).max(0);
        talk.ends[0].set_port(40_000 + u16::from(any.port));
        let (src, dst) = if any.from_server { (1, 0) } else { (0, 1) };
        let sacks = any.sacks.iter().map(|&(a, b)| number(a)..number(b));
        let frame = TcpFrame {
            seq: number(any.seq),
            ack: number(any.ack),
            flags: any.flags,
            window: any.window,
            payload: any.payload * payload,
            // No packet is a copy of another.
            ip_id: i as u16 + 1,
            sacks: Sacks::new(sacks),
            timestamps: any.timestamps.map(|(value, echo)| Timestamps {
                value: value.into(),
                echo: echo.into(),
            }),
            ..TcpFrame::new(Ends {
                src: talk.ends[src],
                dst: talk.ends[dst],
            })
        };
        talk.put(at as u64, frame);
    }
    talk.end()
}

fn tight() -> Settings {
    Settings {
        max_flows: 2,
        max_segment_packets: 7,
        ..Settings::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_data_packet_is_reported_of_once(
        packets in prop::collection::vec(any_packet(), 0..120),
        isn in prop_oneof![any::<u32>(), Just(u32::MAX - 5000)],
        unit in prop::sample::select(vec![1u32, 100, 536, 1 << 26]),
        bounded: bool,
        join_repeated_requests: bool,
    ) {
        let settings = if bounded { tight() } else { Settings::default() };
        let settings = Settings { join_repeated_requests, ..settings };
        let found = play(&packets, settings, isn, unit, 1);
        // No payload is of one byte, so none is a probe, and none exceeds a packet.
        let data = packets.iter().filter(|packet| packet.payload > 0).count();
        let bytes: u32 = packets.iter().map(|packet| packet.payload).sum();
        let all = || found.transfers.iter().flat_map(|kept| &kept.sent);
        let captured = || all().filter(|sent| !sent.marks.has(Marks::NOT_CAPTURED));
        if unit < 1 << 20 {
            prop_assert_eq!(captured().count(), data);
            prop_assert_eq!(captured().map(|sent| sent.len).sum::<u32>(), bytes);
        } else {
            // Some are far ahead, and nothing confirms them.
            prop_assert!(captured().count() <= data);
        }
        let lost = all().all(|sent| !sent.marks.has(Marks::NOT_CAPTURED) || sent.lost());
        prop_assert!(lost, "what was never captured was lost");
        for kept in &found.transfers {
            let payload: u64 = kept.sent.iter().map(|sent| u64::from(sent.len)).sum();
            prop_assert_eq!(kept.tally.payload_bytes, payload);
            prop_assert_eq!(kept.tally.duplicates, 0);
            prop_assert_eq!(kept.metrics.data_packets, kept.sent.len() as u64);
            prop_assert!(kept.metrics.retransmitted_packets <= kept.metrics.data_packets);
            prop_assert!(kept.metrics.delivered_bytes <= kept.metrics.unique_bytes);
        }
        // A retransmission may be in a later segment than what it repeats, so this holds for
        // flows.
        for flow in &found.flows {
            for totals in flow.senders() {
                let sum = &totals.metrics;
                prop_assert!(sum.lost_packets + sum.spurious_packets <= sum.retransmitted_packets);
                prop_assert!(sum.retransmitted_packets <= sum.data_packets);
            }
        }
        let flows: u64 = found.flows.len() as u64;
        prop_assert!(found.transfers.iter().all(|kept| kept.info.number < flows));
    }

    /// Links between a packet and its retransmission go both ways, and forwards in time.
    #[test]
    fn retransmissions_are_linked(packets in prop::collection::vec(any_packet(), 0..120)) {
        let found = play(&packets, Settings::default(), 1000, 100, 1);
        for flow in &found.flows {
            for from_server in [false, true] {
                let sent: Vec<_> = found
                    .transfers
                    .iter()
                    .filter(|kept| kept.info.number == flow.info.number)
                    .filter(|kept| kept.from_server == from_server)
                    .flat_map(|kept| kept.sent.iter())
                    .collect();
                // What is put into one segment shifts links from others to it.
                if sent.iter().any(|packet| packet.marks.has(Marks::NOT_CAPTURED)) {
                    continue;
                }
                for (i, packet) in sent.iter().enumerate() {
                    if packet.repeated != 0 {
                        let again = sent[i + packet.repeated as usize];
                        prop_assert_eq!(again.repeats, packet.repeated);
                        prop_assert!(again.is_retransmission());
                        // It repeats at least the byte that it begins with.
                        prop_assert!(packet.seq <= again.seq && again.seq < packet.end());
                    }
                    prop_assert!(packet.repeats as usize <= i);
                    prop_assert!(packet.repeats == 0 || packet.is_retransmission());
                    prop_assert!(packet.rtt().is_none() || packet.acked_at != 0);
                }
            }
        }
    }

    /// Super-packets of any size, and no bound holds back.
    #[test]
    fn super_packets_never_panic(packets in prop::collection::vec(any_packet(), 0..60)) {
        let found = play(&packets, tight(), u32::MAX - 50_000, 5000, 100);
        let bytes: u64 = packets.iter().map(|packet| u64::from(packet.payload) * 100).sum();
        let all = || found.transfers.iter().flat_map(|kept| &kept.sent);
        let reported: u64 = found.transfers.iter().map(|kept| kept.tally.payload_bytes).sum();
        prop_assert_eq!(reported, all().map(|sent| u64::from(sent.len)).sum::<u64>());
        let captured = all().filter(|sent| !sent.marks.has(Marks::NOT_CAPTURED));
        prop_assert_eq!(captured.map(|sent| u64::from(sent.len)).sum::<u64>(), bytes);
    }
}
