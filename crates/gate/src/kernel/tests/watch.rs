//! Tests that flows are watched: round trips, repetitions, counts.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::flow::Flow;
use crate::line::Line;

#[cfg(feature = "dpdk")]
mod dpdk;

const MS: u64 = 1_000_000;
const HOME: &str = "192.0.2.1";
const AWAY: &str = "198.51.100.1";
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment of TCP, with its timestamp and the one that it echoes, if it has them.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    stamps: Option<(u32, u32)>,
    payload: u16,
}

fn ack(acknowledged: u32) -> Segment {
    Segment {
        acknowledged,
        flags: ACK,
        ..Segment::default()
    }
}

fn data(sequence: u32, payload: u16) -> Segment {
    Segment {
        sequence,
        payload,
        flags: ACK,
        ..Segment::default()
    }
}

impl Segment {
    fn stamped(self, stamp: u32, echo: u32) -> Self {
        Self {
            stamps: Some((stamp, echo)),
            ..self
        }
    }

    /// The options in the order in which Linux has them.
    fn options(&self) -> Vec<u8> {
        let mut options = match self.flags & SYN {
            0 => vec![1, 1],
            _ => vec![2, 4, 5, 0xb4, 4, 2],
        };
        let Some((stamp, echo)) = self.stamps else {
            return if self.flags & SYN == 0 {
                vec![]
            } else {
                [options, vec![1, 1]].concat()
            };
        };
        options.extend([8, 10]);
        options.extend(stamp.to_be_bytes());
        options.extend(echo.to_be_bytes());
        if self.flags & SYN != 0 {
            options.extend([1, 3, 3, 7]);
        }
        options
    }

    fn tcp(&self, down: bool) -> Vec<u8> {
        let options = self.options();
        let ports: [u16; 2] = if down { [443, 50_000] } else { [50_000, 443] };
        let mut tcp: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledged.to_be_bytes());
        tcp.extend([
            (5 + options.len() as u8 / 4) << 4,
            self.flags,
            2,
            0,
            0,
            0,
            0,
            0,
        ]);
        tcp.extend(options);
        tcp.resize(tcp.len() + usize::from(self.payload), 0);
        tcp
    }

    /// The frame, of either family.
    fn frame(&self, down: bool, six: bool) -> Vec<u8> {
        let tcp = self.tcp(down);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if six {
            let ends = ["2001:db8::1", "2001:db8:ffff::1"].map(|text| text.parse::<Ipv6Addr>());
            let [home, away] = ends.map(|end| end.unwrap().octets());
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((tcp.len() as u16).to_be_bytes());
            frame.extend([6, 64]);
            frame.extend(if down { [away, home] } else { [home, away] }.concat());
        } else {
            let [home, away] = [HOME, AWAY].map(|text| text.parse::<Ipv4Addr>().unwrap().octets());
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + tcp.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
            frame.extend(if down { [away, home] } else { [home, away] }.concat());
        }
        frame.extend(tcp);
        // Ethernet pads short frames.
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

/// A gate that watches, with one subscriber, and a time.
struct Watched {
    gate: Gate,
    began: u64,
    six: bool,
}

impl Watched {
    fn new(test: &str, plan: &Draft) -> Option<Self> {
        let mut gate = gate(test)?;
        let kernel = gate.kernel();
        let flows = 1_024;
        kernel
            .set_settings(&Settings {
                flows,
                ..settings()
            })
            .unwrap();
        kernel.put_plan(0, &plan.plan()).unwrap();
        for (limiter, direction) in Direction::BOTH.into_iter().enumerate() {
            let seats = [HOME, "2001:db8::/64"].map(|prefix| {
                let seat = Seat {
                    limiter: limiter as u32,
                    plan: 0,
                    version: 1,
                    ..Seat::default()
                };
                (Match::Prefix(prefix.parse().unwrap()), seat)
            });
            kernel.seat(direction, &seats).unwrap();
        }
        Some(Self {
            gate,
            // At the beginning of a time that is counted together.
            began: sys::now() >> layout::LATELY << layout::LATELY,
            six: false,
        })
    }

    fn free(test: &str) -> Option<Self> {
        Self::new(test, &draft(Means::Unlimited, &PolicyTree::queue()))
    }

    /// Offers a segment after this number of milliseconds. Returns whether it passed.
    fn offer(&mut self, ms: u64, down: bool, segment: Segment) -> bool {
        let program = if down { "tc_down" } else { "xdp_up" };
        let frame = segment.frame(down, self.six);
        let verdict = self.gate.offer(program, self.began + ms * MS, &frame);
        verdict != if down { 2 } else { 1 }
    }

    fn down(&mut self, ms: u64, segment: Segment) -> bool {
        self.offer(ms, true, segment)
    }

    fn up(&mut self, ms: u64, segment: Segment) -> bool {
        self.offer(ms, false, segment)
    }

    fn line(&mut self) -> Line {
        self.gate.kernel().line(0).unwrap().unwrap_or_default()
    }

    fn flows(&mut self) -> Vec<Flow> {
        self.gate.kernel().flows(0).unwrap().unwrap()
    }
}

/// Whether a time is as measured: groups are up to 12 % wide.
fn near(measured: u64, ms: u64) -> bool {
    (measured as f64 / (ms * MS) as f64 - 1.0).abs() < 0.125
}

#[test]
fn a_connection_is_measured_on_both_sides() {
    for six in [false, true] {
        let Some(mut w) = Watched::free("a_connection_is_measured_on_both_sides") else {
            return;
        };
        w.six = six;
        let syn = |flags| Segment {
            flags,
            ..Segment::default()
        };
        // 15 ms to the server and back, 40 ms to the subscriber.
        w.up(0, syn(SYN).stamped(1_000, 0));
        let answer = Segment {
            acknowledged: 1,
            ..syn(SYN | ACK)
        };
        w.down(15, answer.stamped(7_000, 1_000));
        w.up(55, ack(1).stamped(1_055, 7_000));
        let line = w.line();
        assert!(near(line.core.p50, 15), "{line:?}");
        assert!(near(line.access.p50, 40), "{line:?}");
        assert_eq!((line.core.measured, line.access.measured), (1, 1));
        assert_eq!((line.core.lately, line.access.lately), (1, 1));
        // An acknowledgement without data is not waited for: the next data may come much later.
        w.down(5_000, data(1, 100).stamped(12_000, 1_055));
        assert_eq!(w.line().core.measured, 1);
        let [flow] = w.flows()[..] else {
            panic!("{:?}", w.flows());
        };
        let home = if six { "2001:db8::1" } else { HOME };
        assert_eq!(flow.local.to_string(), home);
        assert_eq!((flow.ports, flow.protocol), ((50_000, 443), 6));
        assert_eq!(
            (flow.ways.down.passed_packets, flow.ways.up.passed_packets),
            (2, 2)
        );
        assert!(
            near(flow.ways.down.trip, 40) && near(flow.ways.up.trip, 15),
            "{flow:?}"
        );
    }
}

#[test]
fn only_the_first_packet_with_a_timestamp_is_waited_for() {
    let Some(mut w) = Watched::free("only_the_first_packet_with_a_timestamp_is_waited_for") else {
        return;
    };
    w.down(0, data(1, 1_000).stamped(500, 1));
    w.down(0, data(1_001, 1_000).stamped(500, 1));
    w.down(8, data(2_001, 1_000).stamped(508, 1));
    w.up(30, ack(2_001).stamped(1, 500));
    // The second one was not waited for.
    w.up(31, ack(3_001).stamped(1, 508));
    assert_eq!(w.line().access.measured, 1);
    assert!(near(w.line().access.p50, 30));
    // A later timestamp is echoed: it is not known how long the answer took.
    w.down(40, data(3_001, 1_000).stamped(540, 1));
    w.up(90, ack(5_001).stamped(1, 560));
    assert_eq!(w.line().access.measured, 1);
    // An answer to what came before is none.
    w.down(100, data(5_001, 1_000).stamped(600, 1));
    w.up(101, ack(5_001).stamped(1, 560));
    w.up(170, ack(6_001).stamped(1, 600));
    assert_eq!(w.line().access.measured, 2);
    assert!(near(w.line().access.p95, 70), "{:?}", w.line());
}

#[test]
fn repetitions_are_counted_and_not_measured() {
    let test = "repetitions_are_counted_and_not_measured";
    for stamped in [false, true] {
        let Some(mut w) = Watched::free(test) else {
            return;
        };
        let at = |segment: Segment, ms: u32| match stamped {
            true => segment.stamped(ms, 1),
            false => segment,
        };
        w.down(1, at(data(1, 1_000), 1));
        w.down(2, at(data(1_001, 1_000), 2));
        w.down(300, at(data(1, 1_000), 300));
        // The answer could be to either.
        w.up(320, at(ack(2_001), 1).stamped_if(stamped, 300));
        assert_eq!(w.line().access.measured, 0);
        // It is known again which one was answered.
        w.down(400, at(data(2_001, 1_000), 400));
        w.up(420, at(ack(3_001), 1).stamped_if(stamped, 400));
        let line = w.line();
        assert!(near(line.access.p50, 20), "{line:?}");
        assert_eq!((line.segments.down.all, line.segments.down.again), (4, 1));
        // The network reordered these. Only timestamps show it.
        w.down(500, at(data(4_001, 1_000), 500));
        w.down(501, at(data(3_001, 1_000), 499));
        let way = w.flows()[0].ways.down;
        assert_eq!(
            (way.segments.all, way.segments.again),
            (6, if stamped { 1 } else { 2 })
        );
    }
}

impl Segment {
    fn stamped_if(self, stamped: bool, echo: u32) -> Self {
        if stamped { self.stamped(1, echo) } else { self }
    }
}

#[test]
fn what_the_gate_drops_is_not_waited_for() {
    let policer = draft(Means::Policer { burst: 2_000 }, &PolicyTree::queue());
    let Some(mut w) = Watched::new("what_the_gate_drops_is_not_waited_for", &policer) else {
        return;
    };
    assert!(w.down(0, data(1, 1_000)));
    assert!(!w.down(0, data(1_001, 1_000)));
    w.up(20, ack(1_001));
    assert!(w.down(100, data(1_001, 1_000)));
    w.up(110, ack(2_001));
    let line = w.line();
    // The second segment was sent twice, so its answer says nothing.
    assert_eq!(line.access.measured, 1);
    assert!(near(line.access.p50, 20));
    let [flow] = w.flows()[..] else { panic!() };
    let way = flow.ways.down;
    assert_eq!(
        (way.passed_packets, way.excess_packets, way.segments.again),
        (2, 1, 1)
    );
    assert_eq!((way.passed_bytes, way.excess_bytes), (2 * 1_040, 1_040));
}

#[test]
fn counts_are_of_the_present_and_the_time_before() {
    let Some(mut w) = Watched::free("counts_are_of_the_present_and_the_time_before") else {
        return;
    };
    let window = (1 << layout::LATELY) / MS;
    let now = w.began;
    // Three times ago, one ago, and now: one more each time.
    for (ago, count) in [(3, 1), (1, 2), (0, 3)] {
        w.began = now - ago * window * MS;
        for number in 0..count {
            let (sequence, ms) = (
                1 + 1_000 * (10 * (4 - ago as u32) + number),
                100 * u64::from(number),
            );
            w.down(ms, data(sequence, 1_000));
            w.up(ms + 20, ack(sequence + 1_000));
        }
    }
    let line = w.line();
    assert_eq!((line.access.measured, line.access.lately), (6, 5));
    assert_eq!((line.segments.down.all, line.lately.down.all), (6, 5));
    // Another limiter of this number begins again.
    w.gate.kernel().forget(0).unwrap();
    assert_eq!(w.line(), Line::default());
}

#[test]
fn flows_without_tcp_are_counted_and_strangers_are_not() {
    let Some(mut w) = Watched::free("flows_without_tcp_are_counted_and_strangers_are_not") else {
        return;
    };
    for _ in 0..3 {
        w.gate
            .offer("xdp_down", w.began + 1, &frame([192, 0, 2, 1], 9, 100));
        w.gate
            .offer("xdp_down", w.began + 1, &frame([192, 0, 2, 9], 9, 100));
    }
    let [flow] = w.flows()[..] else { panic!() };
    assert_eq!((flow.protocol, flow.ports), (17, (443, 9)));
    assert_eq!(flow.ways.down.passed_bytes, 300);
    assert_eq!(w.line(), Line::default());
}

#[test]
fn watching_begins_and_ends_with_the_settings() {
    let Some(mut w) = Watched::free("watching_begins_and_ends_with_the_settings") else {
        return;
    };
    w.down(0, data(1, 1_000));
    assert_eq!(w.flows().len(), 1);
    // Another process takes over.
    w.gate.kernel = Some(Kernel::open(&w.gate.pins).unwrap());
    assert_eq!(w.flows().len(), 1);
    let set = |w: &mut Watched, flows| {
        let settings = Settings {
            flows,
            ..settings()
        };
        w.gate.kernel().set_settings(&settings).unwrap();
    };
    set(&mut w, 1_024);
    assert_eq!(w.flows().len(), 1);
    set(&mut w, 2_048);
    assert_eq!(w.flows().len(), 0);
    set(&mut w, 0);
    w.down(1, data(1_001, 1_000));
    assert_eq!(w.gate.kernel().flows(0).unwrap(), None);
    assert!(w.gate.kernel().lines().unwrap().is_none());
    assert!(!load::flows(&w.gate.pins).exists());
    set(&mut w, 1_024);
    w.down(2, data(2_001, 1_000));
    assert_eq!(w.flows().len(), 1);
}

#[test]
fn more_flows_than_there_is_room_for_replace_others() {
    let Some(mut w) = Watched::free("more_flows_than_there_is_room_for_replace_others") else {
        return;
    };
    for port in 0..5_000 {
        w.gate
            .offer("xdp_down", w.began + 1, &frame([192, 0, 2, 1], port, 100));
    }
    let found = w.flows().len();
    assert!((1..=1_024).contains(&found), "{found}");
}
