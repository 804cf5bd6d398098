//! Requests and their responses, and what is counted for each.

use crate::flow::Settings;
use crate::testing::*;

#[test]
fn every_request_begins_a_segment() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.full(11 * MS, 1);
    talk.ack(20 * MS, nth(2));
    talk.request(100 * MS, 100, 50);
    // A request in two packets is one.
    talk.request(101 * MS, 150, 50);
    talk.full(110 * MS, 2);
    talk.ack(120 * MS, nth(3));
    let found = talk.end();
    let responses = found.responses();
    assert_eq!(
        responses
            .iter()
            .map(|kept| kept.segment)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(
        responses
            .iter()
            .map(|kept| kept.sent.len())
            .collect::<Vec<_>>(),
        [2, 1]
    );
    assert_eq!(
        responses
            .iter()
            .map(|kept| kept.first_number)
            .collect::<Vec<_>>(),
        [0, 2]
    );
    assert!(
        responses
            .iter()
            .all(|kept| kept.offsets()[0] == 0 && !kept.continues)
    );
    let requests = found.requests();
    assert_eq!(requests[0].lengths(), [100]);
    assert_eq!(requests[1].lengths(), [50, 50]);
    assert!(requests.iter().all(|kept| kept.offsets()[0] == 0));
    // A segment begins with its request, and its sender with its first packet in it.
    assert_eq!(responses[0].begun_at, START + 3 * MS);
    assert_eq!(responses[1].begun_at, START + 100 * MS);
    assert_eq!(responses[1].started_at, START + 110 * MS);
    assert_eq!(found.flows.len(), 1);
}

#[test]
fn a_late_acknowledgement_belongs_to_the_segment_of_its_data() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.full(11 * MS, 1);
    // The request does not acknowledge them, as a pipelining client's does not.
    let mut request = talk.asking(100, 50);
    request.ack -= nth(2);
    talk.put(12 * MS, request);
    talk.full(20 * MS, 2);
    talk.ack(30 * MS, nth(3));
    let found = talk.end();
    assert_eq!(found.responses()[0].rtts(), [Some(20), Some(19)]);
    assert_eq!(found.responses()[1].rtts(), [Some(10)]);
}

#[test]
fn without_acknowledgements_segments_do_not_wait_forever() {
    let mut talk = Talk::new();
    for n in 0..100 {
        let at = 10 * u64::from(n) * MS;
        let request = talk.asking(10 * n, 10);
        talk.put(
            at,
            crate::write::TcpFrame {
                ack: talk.isn[1],
                ..request
            },
        );
        talk.full(at + MS, n);
    }
    let done = talk.found.responses().len();
    assert!((20..100).contains(&done), "{done}");
    assert_eq!(talk.end().responses().len(), 100);
}

/// A request that is sent again after the response has begun.
fn repeated_request(join_repeated_requests: bool) -> Vec<usize> {
    let mut talk = Talk::with(Settings {
        join_repeated_requests,
        ..Settings::default()
    });
    talk.handshake(0);
    talk.request(3 * MS, 0, 100);
    talk.full(10 * MS, 0);
    talk.request(11 * MS, 0, 100);
    talk.full(12 * MS, 1);
    talk.ack(30 * MS, nth(2));
    let found = talk.end();
    found
        .responses()
        .iter()
        .map(|kept| kept.sent.len())
        .collect()
}

#[test]
fn a_repeated_request_begins_a_segment_or_not_as_told() {
    assert_eq!(repeated_request(false), [1, 1]);
    assert_eq!(repeated_request(true), [2]);
}

#[test]
fn the_wait_is_until_playback_never_runs_dry() {
    let mut talk = Talk::with(Settings {
        // 1000 bytes a second: a packet is a second of video.
        playback_bits_per_second: 8000,
        ..Settings::default()
    });
    talk.handshake(0);
    talk.request(1000 * MS, 0, 100);
    // Packet by packet at 0.5, 1, 5 and 5.5 seconds after the request.
    for (n, at) in [(0, 1500), (1, 2000), (2, 6000), (3, 6500)] {
        talk.full((at - 10) * MS, n);
        talk.ack(at * MS, nth(n + 1));
    }
    let found = talk.end();
    // The third is needed two seconds after the start of playback, and comes after five.
    assert_eq!(found.response().tally.wait, Some(3000 * MS));
}

#[test]
fn idle_is_the_time_with_nothing_in_flight_before_more_comes() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.ack(20 * MS, nth(1));
    talk.full(500 * MS, 1);
    talk.full(501 * MS, 2);
    talk.ack(510 * MS, nth(2));
    talk.full(600 * MS, 3);
    talk.ack(610 * MS, nth(4));
    let found = talk.end();
    // What follows the last packet is no idleness, nor is waiting for an acknowledgement.
    assert_eq!(found.response().tally.idle, 480 * MS);
}

#[test]
fn a_server_that_thinks_is_not_idle() {
    for piggyback in [false, true] {
        let mut talk = Talk::begun();
        talk.full(10 * MS, 0);
        if !piggyback {
            talk.ack(20 * MS, nth(1));
        }
        // This acknowledges the first response, if nothing did before.
        talk.request(1000 * MS, 100, 100);
        talk.full(1500 * MS, 1);
        talk.ack(1510 * MS, nth(2));
        let found = talk.end();
        assert!(
            found.responses().iter().all(|kept| kept.tally.idle == 0),
            "{piggyback}"
        );
    }
}

#[test]
fn a_full_receive_window_limits() {
    let mut talk = Talk::new();
    talk.handshake(0);
    // 32 × 2^7 bytes: four packets and a little.
    talk.window = 32;
    talk.request(3 * MS, 0, 100);
    for n in 0..4 {
        talk.full(10 * MS, n);
    }
    talk.ack(60 * MS, nth(4));
    talk.full(100 * MS, 4);
    talk.ack(150 * MS, nth(5));
    let found = talk.end();
    let kept = found.response();
    assert!(kept.tally.window_known);
    assert_eq!(kept.tally.window_limited, 50 * MS);
    assert_eq!(kept.marked(crate::annotate::Marks::WINDOW_FULL), [3]);
}

#[test]
fn a_receive_window_limits_until_there_is_room() {
    // Acknowledged piece by piece: `windows` is the window field with each.
    let limited = |windows: [u16; 3]| {
        let mut talk = Talk::new();
        talk.handshake(0);
        talk.window = 32;
        talk.request(3 * MS, 0, 100);
        for n in 0..4 {
            talk.full(10 * MS, n);
        }
        for (i, window) in (1..).zip(windows) {
            talk.window = window;
            talk.ack((50 + 10 * u64::from(i)) * MS, nth(i));
        }
        talk.ack(200 * MS, nth(4));
        talk.end().response().tally.window_limited
    };
    // The sender had room for more after the first, and nothing to send.
    assert_eq!(limited([32, 32, 32]), 50 * MS);
    // The receiver takes nothing out of its buffer: the window shrinks as it fills.
    assert_eq!(limited([24, 16, 8]), 190 * MS);
    assert_eq!(limited([24, 24, 24]), 60 * MS);
}

#[test]
fn a_window_scale_beyond_14_is_14() {
    // RFC 7323 §2.3.
    let mut talk = Talk::new();
    for (side, at) in [(0, 0), (1, MS)] {
        let frame = if side == 0 {
            talk.asking(0, 0)
        } else {
            talk.data(0, 0)
        };
        let syn = crate::write::TcpFrame {
            flags: crate::wire::Flags::SYN
                | if side == 0 {
                    0
                } else {
                    crate::wire::Flags::ACK
                },
            seq: talk.isn[side],
            mss: Some(MSS as u16),
            window_scale: Some(255),
            ..frame
        };
        talk.put(at, syn);
    }
    talk.window = 1;
    talk.request(3 * MS, 0, 100);
    for n in 0..20 {
        talk.full(10 * MS, n);
    }
    let found = talk.end();
    // 2^14 bytes are 16 packets.
    let limited = found.response().marked(crate::annotate::Marks::WINDOW_FULL);
    assert_eq!(limited, [15, 16, 17, 18, 19]);
}

#[test]
fn a_wide_receive_window_does_not_limit() {
    let mut talk = Talk::begun();
    for n in 0..20 {
        talk.full(10 * MS, n);
    }
    talk.ack(60 * MS, nth(20));
    let found = talk.end();
    assert_eq!(found.response().tally.window_limited, 0);
    assert!(found.response().tally.window_known);
}

#[test]
fn totals_add_up_what_an_endpoint_sent() {
    let mut talk = Talk::begun();
    let mut offset = 0;
    for segment in 0..3u64 {
        let at = segment * 1000 * MS;
        if segment > 0 {
            talk.request(at, 100 * segment as u32, 100);
        }
        for i in 0..10 {
            talk.send(at + (10 + i) * MS, offset, MSS);
            offset += MSS;
        }
        // One lost in the second and in the third segment.
        if segment > 0 {
            talk.sack(at + 30 * MS, offset - nth(5), &[(offset - nth(4), offset)]);
            talk.send(at + 31 * MS, offset - nth(5), MSS);
        }
        talk.ack(at + 60 * MS, offset);
    }
    let found = talk.end();
    assert_eq!(found.flows.len(), 1);
    let flow = &found.flows[0];
    let (client, server) = (flow.client.as_ref().unwrap(), flow.server.as_ref().unwrap());
    assert_eq!((client.segments, client.metrics.unique_bytes), (3, 300));
    assert_eq!(server.segments, 3);
    let sum = &server.metrics;
    assert_eq!(
        (
            sum.data_packets,
            sum.lost_packets,
            sum.retransmitted_packets
        ),
        (32, 2, 2)
    );
    assert_eq!((sum.unique_bytes, sum.delivered_bytes), (30_000, 30_000));
    assert_eq!(sum.first_sent, START + 10 * MS);
    assert_eq!(sum.duration, 2050 * MS);
    // In the second segment, after five packets.
    assert_eq!(sum.bytes_before_loss, Some(15_000));
    assert_eq!(server.tally.payload_bytes, 32_000);
    let responses = found.responses();
    let packets: u64 = responses.iter().map(|kept| kept.tally.packets).sum();
    assert_eq!(server.tally.packets, packets);
    // Round trips are 41 to 60 ms, or end with the selective acknowledgement.
    let (low, high) = (server.rtt_percentile(1), server.rtt_percentile(100));
    let near =
        |found: Option<u64>, ms: f64| (found.unwrap() as f64 / MS as f64 / ms - 1.0).abs() < 0.033;
    assert!(near(low, 11.0), "{low:?}");
    assert!(near(high, 50.0), "{high:?}");
}

#[test]
fn a_flow_in_which_one_side_is_silent() {
    let mut talk = Talk::new();
    talk.handshake(0);
    talk.full(10 * MS, 0);
    let found = talk.end();
    assert!(found.flows[0].client.is_none());
    assert!(found.flows[0].server.is_some());
}
