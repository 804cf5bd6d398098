//! Where flows begin and end, and that memory is bounded.

use crate::annotate::Marks;
use crate::flow::{Ended, Settings};
use crate::testing::*;
use crate::wire::Flags;
use crate::write::TcpFrame;

#[test]
fn the_sender_of_the_syn_is_the_client() {
    let mut talk = Talk::new();
    // Whatever the ports say.
    talk.ends = [([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 50_000).into()];
    talk.handshake(0);
    talk.full(5 * MS, 0);
    let found = talk.end();
    let info = found.flows[0].info;
    assert_eq!((info.client.port(), info.server.port()), (80, 50_000));
    assert!(info.syn_seen);
    assert_eq!(info.started_at, START);
}

#[test]
fn the_sender_of_a_syn_ack_is_the_server() {
    let mut talk = Talk::new();
    talk.ends = [([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 50_000).into()];
    let answer = TcpFrame {
        flags: Flags::SYN | Flags::ACK,
        ..talk.data(0, 0)
    };
    talk.put(0, answer);
    let info = talk.end().flows[0].info;
    assert_eq!(info.client.port(), 80);
    // The client's own SYN is not in the capture.
    assert!(!info.syn_seen);
}

#[test]
fn a_syn_behind_its_syn_ack_is_of_the_same_flow() {
    // As captures show it whose queues are not in step.
    let mut talk = Talk::new();
    let answer = TcpFrame {
        flags: Flags::SYN | Flags::ACK,
        seq: talk.isn[1],
        mss: Some(1400),
        ..talk.data(0, 0)
    };
    let open = TcpFrame {
        flags: Flags::SYN,
        seq: talk.isn[0],
        mss: Some(1400),
        ..talk.asking(0, 0)
    };
    talk.put(MS, answer);
    talk.put(MS / 2, open);
    talk.request(2 * MS, 0, 100);
    talk.send(3 * MS, 0, 2800);
    let found = talk.end();
    assert_eq!(found.flows.len(), 1);
    assert!(found.flows[0].info.syn_seen);
    assert_eq!(found.response().lengths(), [1400; 2]);
}

#[test]
fn without_a_syn_ports_tell_who_is_the_server() {
    for (ports, server) in [
        ([443, 50_000], 443),
        ([50_000, 443], 443),
        ([50_000, 8080], 8080),
        ([8080, 22], 22),
        // Neither says anything: the first to speak is the client.
        ([50_000, 50_001], 50_001),
        ([50_001, 50_000], 50_000),
    ] {
        let mut talk = Talk::new();
        talk.ends = [
            ([10, 0, 0, 1], ports[0]).into(),
            ([10, 0, 0, 2], ports[1]).into(),
        ];
        talk.request(0, 0, 100);
        let info = talk.end().flows[0].info;
        assert_eq!(info.server.port(), server, "{ports:?}");
        assert!(!info.syn_seen);
    }
}

#[test]
fn both_directions_are_one_flow_and_other_ports_another() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    talk.ends[0].set_port(50_001);
    talk.full(6 * MS, 0);
    let found = talk.end();
    assert_eq!(found.flows.len(), 2);
    assert_eq!([0, 1].map(|i| found.flows[i].info.number), [0, 1]);
}

#[test]
fn a_new_syn_with_another_number_is_a_new_flow() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    talk.isn = [77_000_000, 99_000_000];
    talk.handshake(100 * MS);
    talk.full(105 * MS, 0);
    let found = talk.end();
    assert_eq!(found.flows.len(), 2);
    assert_eq!(found.flows[0].ended, Ended::Reused);
    assert_eq!(found.flows[1].ended, Ended::CaptureEnd);
    assert_eq!(found.responses().len(), 2);
    assert_eq!(found.responses()[1].offsets(), [0]);
}

#[test]
fn a_retransmitted_syn_is_no_new_flow() {
    let mut talk = Talk::new();
    talk.handshake(0);
    talk.handshake(1000 * MS);
    talk.full(1010 * MS, 0);
    assert_eq!(talk.end().flows.len(), 1);
}

#[test]
fn ports_reused_without_a_syn_after_the_close() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    close(&mut talk, 10 * MS);
    talk.isn = [2_000_000_000, 2_000_000_000];
    talk.full(20 * MS, 0);
    let found = talk.end();
    assert_eq!(found.flows.len(), 2);
    assert_eq!(found.flows[0].ended, Ended::Reused);
    // Nothing of the old connection is taken for the new one's.
    assert_eq!(found.responses()[1].tally.unseen_bytes, 0);
}

#[test]
fn a_far_jump_of_an_open_connection_is_a_hole_in_the_capture() {
    // The next packet, or an acknowledgement, tells that it is no stray one.
    let next = |talk: &mut Talk| talk.send(21 * MS, (1 << 29) + MSS, MSS);
    let acked = |talk: &mut Talk| talk.ack(21 * MS, (1 << 29) + MSS);
    for (confirm, packets) in [(&next as &dyn Fn(&mut Talk), 3), (&acked, 2)] {
        let mut talk = Talk::begun();
        talk.full(5 * MS, 0);
        talk.send(20 * MS, 1 << 29, MSS);
        confirm(&mut talk);
        let found = talk.end();
        assert_eq!(found.flows.len(), 1);
        let response = found.response();
        assert_eq!(response.tally.unseen_bytes, (1 << 29) - 1000);
        assert_eq!(response.sent.len(), packets);
        assert_eq!(response.sent[1].at, START + 20 * MS);
        assert_eq!(response.tally.strays, 0);
    }
}

#[test]
fn a_stray_packet_does_not_move_its_stream() {
    for distance in [1 << 23, 1_500_000_000u32] {
        let mut talk = Talk::begun();
        talk.full(5 * MS, 0);
        talk.send(6 * MS, distance, MSS);
        // Nor an acknowledgement of what was never sent.
        talk.ack(7 * MS, distance / 2);
        for n in 1..5 {
            talk.full((7 + u64::from(n)) * MS, n);
            talk.ack((8 + u64::from(n)) * MS, nth(n + 1));
        }
        let found = talk.end();
        let response = found.response();
        assert_eq!(response.offsets(), [0, 1000, 2000, 3000, 4000]);
        assert_eq!(response.marked(Marks::RETRANSMISSION), []);
        assert_eq!(response.metrics.delivered_bytes, 5000);
        let tally = response.tally;
        assert_eq!((tally.strays, tally.unseen_bytes), (1, 0));
    }
}

#[test]
fn stragglers_after_the_close_are_of_the_old_flow() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    close(&mut talk, 10 * MS);
    talk.full(20 * MS, 0);
    let found = talk.end();
    assert_eq!(found.flows.len(), 1);
    assert_eq!(found.flows[0].ended, Ended::Closed);
}

/// Both sides finish and acknowledge, after one full packet of the server.
fn close(talk: &mut Talk, at: u64) {
    let fin = |frame| TcpFrame {
        flags: Flags::FIN | Flags::ACK,
        ..frame
    };
    let last = fin(talk.data(nth(1), 0));
    let answer = fin(talk.asking(100, 0));
    talk.put(at, last);
    talk.put(
        at + MS,
        TcpFrame {
            ack: last.seq + 1,
            ..answer
        },
    );
    talk.put(
        at + 2 * MS,
        TcpFrame {
            seq: last.seq + 1,
            ack: answer.seq + 1,
            flags: Flags::ACK,
            ..last
        },
    );
}

#[test]
fn a_closed_flow_lingers_and_then_ends() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    close(&mut talk, 10 * MS);
    // Packets of another flow let time pass: a sweep comes after a number of packets.
    talk.ends[0].set_port(1);
    for n in 0..2500 {
        talk.full((20 + 10 * u64::from(n)) * MS, n);
    }
    assert_eq!(talk.found.flows.len(), 1);
    assert_eq!(talk.found.flows[0].ended, Ended::Closed);
}

#[test]
fn a_flow_that_has_just_closed_waits_for_stragglers() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    // Just before the sweep.
    talk.ends[0].set_port(1);
    for n in 0..1015 {
        talk.full((20 + 10 * u64::from(n)) * MS, n);
    }
    let (other, first) = (talk.ends[0], client());
    talk.ends[0] = first;
    close(&mut talk, 10_500 * MS);
    talk.ends[0] = other;
    for n in 1015..1100 {
        talk.full((600 + 10 * u64::from(n)) * MS, n);
    }
    assert!(talk.found.flows.is_empty());
}

#[test]
fn a_reset_closes() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    let reset = TcpFrame {
        flags: Flags::RST,
        ..talk.asking(100, 0)
    };
    talk.put(6 * MS, reset);
    assert_eq!(talk.end().flows[0].ended, Ended::Closed);
}

#[test]
fn a_flow_that_was_idle_for_too_long_ends() {
    let second = 1000 * MS;
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    talk.full(299 * second, 1);
    talk.full(600 * second, 2);
    let found = talk.end();
    assert_eq!(found.flows.len(), 2);
    assert_eq!(found.flows[0].ended, Ended::Idle);
    assert_eq!(found.responses()[0].sent.len(), 2);
    assert_eq!(found.responses()[1].sent.len(), 1);
}

#[test]
fn a_sweep_finds_idle_flows_too() {
    let mut talk = Talk::begun();
    talk.full(5 * MS, 0);
    talk.ends[0].set_port(1);
    for n in 0..2500 {
        talk.full((20 + 1000 * u64::from(n)) * MS, n);
    }
    assert_eq!(talk.found.flows.len(), 1);
    assert_eq!(talk.found.flows[0].ended, Ended::Idle);
}

/// With one clock for each interface, or one wrong time, no flow is idle by another's clock.
#[test]
fn another_clock_ends_no_flow() {
    let hour = 3_600_000 * MS;
    let mut talk = Talk::begun();
    let first = client();
    for n in 0..3000 {
        let at = (20 + 10 * u64::from(n)) * MS;
        talk.full(at, n);
        talk.ends[0].set_port(1);
        talk.full(at + hour, n);
        talk.ends[0] = first;
    }
    assert!(talk.found.flows.is_empty());
}

#[test]
fn the_number_of_flows_is_bounded() {
    let mut talk = Talk::with(Settings {
        max_flows: 8,
        ..Settings::default()
    });
    for port in 1..200u16 {
        talk.ends[0].set_port(port);
        talk.isn[1] = u32::from(port) * 1_000_000;
        talk.full(u64::from(port) * MS, 0);
        let going_on = talk.table.counters().flows - talk.found.flows.len() as u64;
        assert!(going_on <= 8);
    }
    let evicted = talk.table.counters().evicted;
    assert_eq!(evicted, talk.found.flows.len() as u64);
    // The quietest go first.
    let numbers: Vec<u64> = talk
        .found
        .flows
        .iter()
        .map(|flow| flow.info.number)
        .collect();
    assert!(numbers.is_sorted());
    assert!(
        talk.found
            .flows
            .iter()
            .all(|flow| flow.ended == Ended::Evicted)
    );
    // What they had sent is not lost.
    let found = talk.end();
    assert_eq!(found.flows.len(), 199);
    assert_eq!(found.transfers.len(), 199);
}

#[test]
fn the_number_of_kept_packets_is_bounded() {
    let mut talk = Talk::with(Settings {
        max_packets: 3000,
        ..Settings::default()
    });
    let mut sent = 0;
    for n in 0..20_000 {
        talk.full(u64::from(n) * MS, n);
        sent += 1;
        let done: usize = talk
            .found
            .transfers
            .iter()
            .map(|kept| kept.sent.len())
            .sum();
        assert!(sent - done <= 3000 + 1100, "{n}");
    }
    assert!(talk.table.counters().evicted > 0);
}

#[test]
fn a_request_that_comes_when_the_segment_is_full_is_no_continuation() {
    let mut talk = Talk::with(Settings {
        max_segment_packets: 10,
        ..Settings::default()
    });
    talk.handshake(0);
    for i in 0..10 {
        talk.request((10 + u64::from(i)) * MS, 100 * i, 100);
    }
    talk.full(30 * MS, 0);
    talk.request(40 * MS, 1000, 100);
    let found = talk.end();
    assert_eq!(found.requests().len(), 2);
    assert!(!found.requests()[1].continues);
}

#[test]
fn a_long_segment_is_cut_and_continued() {
    let mut talk = Talk::with(Settings {
        max_segment_packets: 10,
        ..Settings::default()
    });
    talk.handshake(0);
    talk.request(3 * MS, 0, 100);
    for n in 0..25 {
        talk.full(u64::from(10 + n) * MS, n);
        // The seventh is lost; it is sent again in the second part.
        if n == 12 {
            talk.full(u64::from(10 + n) * MS + 1, 7);
        }
    }
    talk.ack(50 * MS, nth(25));
    let found = talk.end();
    let parts = found.responses();
    let lengths: Vec<usize> = parts.iter().map(|part| part.sent.len()).collect();
    assert_eq!(lengths, [10, 10, 6]);
    assert_eq!(
        parts.iter().map(|part| part.continues).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert_eq!(
        parts
            .iter()
            .map(|part| part.first_number)
            .collect::<Vec<_>>(),
        [0, 10, 20]
    );
    assert_eq!(parts[0].lost(), [7]);
    // The first byte of each part has the relative number 1.
    assert!(parts.iter().all(|part| part.offsets()[0] == 0));
    // What was sent near the cut has its acknowledgement too.
    assert!(
        parts
            .iter()
            .all(|part| part.sent.iter().all(|sent| sent.acked_at != 0))
    );
}

#[test]
fn what_copies_are_found_by_counts_as_kept() {
    let kept = |identified: bool| {
        let mut talk = Talk::begun();
        for n in 0..3000 {
            let data = talk.data(nth(n), MSS);
            let ip_id = if identified { data.ip_id } else { 0 };
            talk.put(10 * MS + u64::from(n) * 1000, TcpFrame { ip_id, ..data });
        }
        talk.table.kept()
    };
    // A table of 32 kB in packets of 100 bytes, instead of one of 128 bytes for the handshake.
    assert_eq!(kept(true), kept(false) + 328 - 2);
}
