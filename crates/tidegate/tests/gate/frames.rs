//! The gate in front of frames made by hand, as fast as the bridge takes them: tags and malformed packets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Findings, Gate, alone, measured, permitted};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::{Namespace, Port};
use tidegate_trace::write::{Ends, TcpFrame, UdpFrame};

/// Number of kinds of frames. The source address says the kind.
const KINDS: usize = 8;

/// A bridge between two devices of the test.
struct Bridge {
    middle: Namespace,
    wan: Port,
    lan: Port,
}

impl Bridge {
    fn new() -> Result<Self, TestbedError> {
        let middle = Namespace::new()?;
        let (wan, lan) = (middle.port("wan")?, middle.port("lan")?);
        middle.bridge("br0", &["wan", "lan"])?;
        Ok(Self { middle, wan, lan })
    }

    /// Reports the kind and bytes of frames that come out at `lan`, until `stop` is set.
    fn drain(&self, stop: &AtomicBool, counted: impl Fn(usize, usize)) {
        let mut buffer = vec![0; 4096];
        loop {
            match self.lan.receive(&mut buffer).unwrap() {
                Some(bytes) if bytes >= 12 => {
                    let kind = usize::from(buffer[11]);
                    if buffer[6..11] == SOURCE && kind < KINDS {
                        counted(kind, bytes);
                    }
                }
                Some(_) => {}
                None if stop.load(Ordering::Relaxed) => return,
                None => thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Checks that all frames that came out were counted. Otherwise the machine was too busy.
    fn nothing_lost(&self, found: &mut Findings) {
        let lost = self.lan.lost().unwrap();
        if lost > 0 {
            found.late = u64::MAX;
            found
                .wrong
                .push(format!("{lost} frames that came out were not counted"));
        }
    }

    /// Sends the frames of a list in turn until `until`, at this rate or as fast as possible. Returns what
    /// came out from `from` on: frames and bytes of each kind, and the time in seconds.
    fn offer(
        &self,
        frames: &[Vec<u8>],
        rate: Option<f64>,
        from: Duration,
        until: Duration,
    ) -> ([[u64; 2]; KINDS], f64) {
        let stop = AtomicBool::new(false);
        let out = std::sync::Mutex::new([[0; 2]; KINDS]);
        let began = Instant::now();
        let (mut before, mut elapsed, mut sent) = ([[0; 2]; KINDS], 0.0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                self.drain(&stop, |kind, bytes| {
                    let mut out = out.lock().unwrap();
                    out[kind][0] += 1;
                    out[kind][1] += bytes as u64;
                });
            });
            let mut mark = None;
            for frame in frames.iter().cycle() {
                let now = began.elapsed();
                if now >= until {
                    break;
                }
                if mark.is_none() && now >= from {
                    mark = Some(now);
                    before = *out.lock().unwrap();
                }
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(f64::from(sent) / rate);
                    if due > now {
                        thread::sleep(due - now);
                    }
                }
                self.wan.send(frame).unwrap();
                sent += 1;
            }
            elapsed = (began.elapsed() - mark.unwrap()).as_secs_f64();
            // The reader may lag by a queue, at the beginning and at the end.
            stop.store(true, Ordering::Relaxed);
        });
        let mut out = out.into_inner().unwrap();
        for (out, before) in out.iter_mut().zip(before) {
            out[0] -= before[0];
            out[1] -= before[1];
        }
        eprintln!("{sent} frames in {:?}", began.elapsed());
        (out, elapsed)
    }
}

/// Locally administered; the last byte is the kind.
const SOURCE: [u8; 5] = [2, 0, 0, 0, 1];
/// An unknown destination, so that the bridge floods the frame.
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 2, 0];

/// Puts a frame's addresses.
fn from(kind: u8, mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&DESTINATION);
    frame[6..11].copy_from_slice(&SOURCE);
    frame[11] = kind;
    frame
}

/// A datagram to a host of 192.0.2.0/24 with this number of bytes of payload.
fn datagram(kind: u8, host: u8, port: u16, payload: u16) -> Vec<u8> {
    let frame = UdpFrame {
        payload,
        ..UdpFrame::new(Ends {
            src: ([198, 51, 100, 1], port).into(),
            dst: ([192, 0, 2, host], 9).into(),
        })
    };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    from(kind, bytes)
}

/// With these bytes between addresses and type.
fn tagged(mut frame: Vec<u8>, tags: &[u8]) -> Vec<u8> {
    frame.splice(12..12, tags.iter().copied());
    frame
}

/// VLAN, QinQ and PPPoE subscribers each get their rate, counted in whole frames with their tags. Unmatched
/// frames pass, and code points choose classes.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn tagged_frames_are_limited_by_their_tags() {
    let _alone = alone();
    let test = "tagged_frames_are_limited_by_their_tags";
    let configuration = r#"
        unknown = "pass"
        [[interface]]
        name = "wan"
        side = "core"
        [[subscriber]]
        name = "vlan"
        down = "4mbit"
        vlan = 100
        [[subscriber]]
        name = "qinq"
        down = "6mbit"
        qinq = "100.200"
        [[subscriber]]
        name = "pppoe"
        down = "8mbit"
        pppoe = 7
        [[subscriber]]
        name = "address"
        down = "10mbit"
        addresses = "192.0.2.0/24"
        [plan.urgent]
        policy = { priority = ["queue", "queue"] }
        rule = [{ class = 0, dscp = "ef" }]
        [[subscriber]]
        name = "urgent"
        plan = "urgent"
        down = "12mbit"
        addresses = "192.0.2.96"
    "#;
    let vlan = |kind| tagged(datagram(kind, 16, 5000, 1000), &[0x81, 0, 0x20, 100]);
    let qinq = tagged(
        datagram(1, 16, 5000, 1000),
        &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 200],
    );
    let pppoe = {
        let mut frame = datagram(2, 16, 5000, 1000);
        let length = (frame.len() - 14 + 2) as u16;
        let [high, low] = length.to_be_bytes();
        // RFC 2516 §4: version and type 1, code 0, session 7, length, then PPP's protocol.
        frame.splice(12..14, [0x88, 0x64, 0x11, 0, 0, 7, high, low, 0, 0x21]);
        frame
    };
    let mut other = vlan(4);
    // Another tag, and an address of no subscriber.
    other[15] = 101;
    other[18 + 18] = 7;
    let mut urgent = datagram(5, 96, 5000, 1000);
    // Expedited forwarding, RFC 3246. The header's checksum does not matter here.
    urgent[15] = 46 << 2;
    let frames = [
        vlan(0),
        qinq,
        pppoe,
        datagram(3, 16, 5000, 1000),
        other,
        urgent,
        datagram(6, 96, 5000, 1000),
    ];
    measured(|| {
        let bridge = permitted(test, Bridge::new())?;
        let gate = Gate::new(&bridge.middle, configuration);
        gate.run("up FILE");
        // 2400 frames a second are 20 Mbit/s.
        let rate = 2400.0 * frames.len() as f64;
        let (from, until) = (Duration::from_secs(2), Duration::from_secs(6));
        let (out, elapsed) = bridge.offer(&frames, Some(rate), from, until);
        let mut found = Findings::default();
        let names = ["vlan", "qinq", "pppoe", "address"];
        for (kind, (name, rate)) in names.into_iter().zip([4e6, 6e6, 8e6, 10e6]).enumerate() {
            let passed = out[kind][1] as f64 * 8.0 / elapsed;
            found.within(name, passed / rate, 0.97, 1.03);
        }
        let all = out[4][0] as f64 / elapsed / 2400.0;
        found.within("those of no subscriber", all, 0.9, 1.05);
        let [urgent, rest] = [5, 6].map(|kind| out[kind][1] as f64 * 8.0 / elapsed / 12e6);
        found.within("by code point, the first", urgent, 0.96, 1.03);
        found.within("by code point, both", urgent + rest, 0.97, 1.03);
        bridge.nothing_lost(&mut found);
        gate.run("down");
        Some(found)
    });
}

/// A subscriber's packets count behind every header that a network forwards. Its other frames are dropped, and
/// a flood of ARP passes at the rate of a sender.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn other_headers_are_no_way_past_the_limit() {
    let _alone = alone();
    let test = "other_headers_are_no_way_past_the_limit";
    let configuration = r#"
        [[interface]]
        name = "wan"
        side = "access"
        [[subscriber]]
        name = "mallory"
        up = "8mbit"
        addresses = "198.51.100.1"
    "#;
    let below = |kind: u8, headers: &[u8]| {
        let mut frame = datagram(kind, 16, 5000, 1000);
        frame.splice(12..14, headers.iter().copied());
        frame
    };
    let plain = |kind: u8, headers: &[u8]| {
        let mut frame = datagram(kind, 16, 5000, 1000);
        frame.truncate(60);
        frame[12..12 + headers.len()].copy_from_slice(headers);
        frame
    };
    let frames = [
        below(0, &[0x88, 0x47, 0, 1, 1, 64]),
        below(1, &[0x91, 0, 0, 7, 8, 0]),
        below(2, &[0x92, 0, 0, 7, 8, 0]),
        // The length of 802.3 (RFC 1042): 8 bytes of SNAP, 28 of headers, 1000 of payload.
        below(3, &[0x04, 0x0c, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        below(4, &[0x88, 0xb5]),
        below(5, &[0x04, 0x04, 0xe0, 0xe0, 3]),
        plain(6, &[8, 6]),
    ];
    measured(|| {
        let bridge = permitted(test, Bridge::new())?;
        let gate = Gate::new(&bridge.middle, configuration);
        gate.run("up FILE");
        let rate = 2400.0 * frames.len() as f64;
        let (from, until) = (Duration::from_secs(3), Duration::from_secs(7));
        let (out, elapsed) = bridge.offer(&frames, Some(rate), from, until);
        let mut found = Findings::default();
        let bits = |kinds: &[[u64; 2]]| {
            kinds.iter().map(|kind| kind[1]).sum::<u64>() as f64 * 8.0 / elapsed
        };
        found.within("behind all headers", bits(&out[..4]) / 8e6, 0.97, 1.03);
        found.ensure(out[4][0] + out[5][0] == 0, || {
            format!("frames without IP passed: {out:?}")
        });
        found.within("ARP", bits(&out[6..7]) / 64e3, 0.9, 1.1);
        bridge.nothing_lost(&mut found);
        gate.run("down");
        Some(found)
    });
}

/// A small generator (xorshift): the mix is the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

/// Frames that are addressed to a subscriber and malformed in every other way.
fn hostile(random: &mut Random) -> Vec<u8> {
    let host = 16 + random.byte() % 4;
    let port = random.below(65536) as u16;
    let payload = random.below(1400) as u16;
    let mut frame = datagram(0, host, port, payload);
    match random.below(9) {
        // Runts: cut anywhere behind the addresses.
        0 => frame.truncate(34 + random.below(26)),
        // Lengths that are not the packet's.
        1 => frame[16..18].copy_from_slice(&(random.below(65536) as u16).to_be_bytes()),
        // Header lengths.
        2 => frame[14] = 0x40 | (random.byte() & 15),
        // Versions.
        3 => frame[14] = random.byte(),
        // The most IP options, with random content.
        4 => {
            frame[14] = 0x4f;
            let junk: Vec<u8> = (0..40).map(|_| random.byte()).collect();
            frame.splice(34..34, junk);
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
        }
        // TCP with a random offset and random options.
        5 => {
            let tcp = TcpFrame {
                payload: u32::from(payload),
                ..TcpFrame::new(Ends {
                    src: ([198, 51, 100, 1], port).into(),
                    dst: ([192, 0, 2, host], 80).into(),
                })
            };
            let mut bytes = Vec::new();
            tcp.encode(&mut bytes);
            frame = from(0, bytes);
            for _ in 0..8 {
                let at = 34 + random.below(frame.len().min(74) - 34);
                frame[at] = random.byte();
            }
        }
        // Fragments of all kinds.
        6 => {
            frame[20] = random.byte() & 0x3f;
            frame[21] = random.byte();
        }
        // Another protocol with random content.
        7 => {
            frame[23] = random.byte();
            for byte in frame.iter_mut().skip(34) {
                *byte = random.byte();
            }
        }
        // IPv6 with many extension headers.
        _ => {
            let length = 200 + random.below(1200);
            let mut bytes = vec![0; 14 + 40 + length];
            bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
            bytes[14] = 0x60;
            bytes[18..20].copy_from_slice(&(length as u16).to_be_bytes());
            // Hop-by-hop, routing, fragment, destination, authentication.
            let headers = [0, 43, 44, 60, 51];
            bytes[20] = headers[random.below(5)];
            bytes[22..38].fill(0x20);
            bytes[38..42].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
            bytes[53] = host;
            for at in (54..bytes.len() - 8).step_by(8) {
                bytes[at] = headers[random.below(5)];
                bytes[at + 1] = random.byte() & 3;
            }
            frame = from(0, bytes);
        }
    }
    // Padding belongs to the link and is not charged. There is none here.
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]])) + 14;
    if frame[12..14] == [8, 0] && frame.len() <= 60 && (34..frame.len()).contains(&total) {
        frame.truncate(total);
    }
    frame
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_hostile_mix_passes_no_more_than_the_limit() {
    let _alone = alone();
    let test = "a_hostile_mix_passes_no_more_than_the_limit";
    let configuration = r#"
        [[interface]]
        name = "wan"
        side = "core"
        [[subscriber]]
        name = "mallory"
        down = "20mbit"
        addresses = ["192.0.2.0/24", "2001:db8::/64"]
        [[subscriber]]
        name = "bob"
        down = "20mbit"
        addresses = "192.0.2.200"
    "#;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut frames: Vec<_> = (0..4096).map(|_| hostile(&mut random)).collect();
    // Among them are frames of random bytes. They may pass, and must do no harm.
    for _ in 0..512 {
        let length = 14 + random.below(1400);
        let junk = (0..length).map(|_| random.byte()).collect();
        let mut junk = from(1, junk);
        // It must not look like a packet to a subscriber.
        junk[12] |= 0x10;
        frames.push(junk);
        let cut = 14 + random.below(20);
        frames.push(from(1, datagram(1, 16, 1, 100)[..cut].to_vec()));
    }
    // One frame in 5120 is a valid one of another subscriber.
    frames.push(datagram(2, 200, 4000, 1000));
    measured(|| {
        let bridge = permitted(test, Bridge::new())?;
        let gate = Gate::new(&bridge.middle, configuration);
        gate.run("up FILE");
        let (from, until) = (Duration::from_secs(2), Duration::from_secs(6));
        let (out, elapsed) = bridge.offer(&frames, None, from, until);
        let mut found = Findings::default();
        let passed = out[0][1] as f64 * 8.0 / elapsed / 20e6;
        // Thousands of flows that flood share one queue. Those that have others send a packet now and then, so its part of
        // the rate changes all the time, and burst control keeps below it.
        found.within("hostile, of the limit", passed, 0.6, 1.03);
        // The valid frames must not suffer.
        let bob = gate.status();
        found.ensure(bob.of("bob", "down", "excess_packets") == 0, || {
            "honest packets were dropped".to_owned()
        });
        found.ensure(bob.of("bob", "down", "passed_packets") > 20, || {
            "honest packets are missing".to_owned()
        });
        found.ensure(out[1][0] > 0, || "what is not IP did not pass".to_owned());
        // The gate still limits valid frames.
        let honest = [datagram(3, 16, 6000, 1000)];
        let (from, until) = (Duration::from_secs(1), Duration::from_secs(3));
        let (out, elapsed) = bridge.offer(&honest, Some(5000.0), from, until);
        let passed = out[3][1] as f64 * 8.0 / elapsed / 20e6;
        found.within("honest after hostile, of the limit", passed, 0.97, 1.03);
        bridge.nothing_lost(&mut found);
        gate.run("down");
        Some(found)
    });
}
