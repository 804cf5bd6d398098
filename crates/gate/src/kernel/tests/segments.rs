//! Tests that a super-packet (GSO) is charged like its segments on the wire, each with its headers
//! and overhead. At tc, a test can mark a packet as a super-packet.

use std::os::fd::AsRawFd;

use super::*;
use crate::table::Accounting;

/// The kernel's values of a packet; 0: none.
#[derive(Default)]
struct Known {
    wire_len: u32,
    gso_segs: u32,
    gso_size: u32,
}

impl Known {
    /// As words of `struct __sk_buff`.
    fn words(&self) -> [u32; 45] {
        let mut words = [0; 45];
        (words[40], words[41], words[44]) = (self.wire_len, self.gso_segs, self.gso_size);
        words
    }
}

/// The headers that may come before the payload: Ethernet with its tags, IP, and those after IP.
struct Headers {
    link: Vec<u8>,
    ip: Vec<u8>,
    transport: Vec<u8>,
}

impl Headers {
    /// To a subscriber: IPv4, or IPv6 with extension headers that begin with this one.
    fn all() -> Vec<Self> {
        let plain = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]];
        let mut options = vec![0u8; 32];
        options[12] = 0x80;
        let mut tcp = vec![0u8; 20];
        tcp[12] = 0x50;
        let mut all = Vec::new();
        for tag in tags {
            for (protocol, transport) in [(6, &tcp), (6, &options), (17, &vec![0; 8])] {
                for (six, extensions) in [(false, 0), (true, 0), (true, 8)] {
                    let kind = if six { [0x86, 0xdd] } else { [8, 0] };
                    let ip = match six {
                        false => four(protocol),
                        true => six_with(protocol, extensions),
                    };
                    all.push(Self {
                        link: [&plain, tag, &kind].concat(),
                        ip,
                        transport: transport.clone(),
                    });
                }
            }
        }
        all
    }

    /// A frame with this many bytes of payload.
    fn frame(&self, payload: usize) -> Vec<u8> {
        let mut frame = [&self.link[..], &self.ip, &self.transport].concat();
        frame.resize(frame.len() + payload, 0);
        let ip = self.link.len();
        let total = (frame.len() - ip) as u16;
        match frame[ip] >> 4 {
            4 => frame[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes()),
            _ => frame[ip + 4..ip + 6].copy_from_slice(&(total - 40).to_be_bytes()),
        }
        frame
    }
}

fn four(protocol: u8) -> Vec<u8> {
    let addresses = [198, 51, 100, 1, 192, 0, 2, 1];
    [
        &[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0][..],
        &addresses,
    ]
    .concat()
}

fn six_with(protocol: u8, extensions: usize) -> Vec<u8> {
    let next = if extensions > 0 { 60 } else { protocol };
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    for last in [2, 1] {
        ip.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    let mut options = vec![0; extensions];
    if let Some(first) = options.first_mut() {
        *first = protocol;
    }
    ip.extend(options);
    ip
}

/// A gate in which one limiter has all packets, and passes everything.
fn subject(test: &str) -> Option<Gate> {
    let mut gate = gate(test)?;
    let burst = 1 << 30;
    let plan = draft(Means::Policer { burst }, &PolicyTree::queue());
    gate.kernel().put_plan(0, &plan.plan()).unwrap();
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    let all = ["0.0.0.0/0", "::/0"].map(|text| (Match::Prefix(text.parse().unwrap()), seat));
    gate.kernel().seat(Direction::Down, &all).unwrap();
    Some(gate)
}

impl Gate {
    fn account(&mut self, layer: u8, overhead: i16) {
        let accounting = Accounting { layer, overhead };
        let settings = Settings {
            accounting,
            ..settings()
        };
        self.kernel().set_settings(&settings).unwrap();
    }

    /// Packets and bytes that frames at tc are charged as.
    fn charged(&mut self, frames: &[Vec<u8>], known: &Known) -> (u64, u64) {
        self.kernel().forget(0).unwrap();
        let program = self.program("tc_down");
        for frame in frames {
            let run = sys::test_run_as(program.as_raw_fd(), frame, 1, Some(&known.words()));
            assert_eq!(run.unwrap().0, u32::MAX, "it passes");
        }
        let counters = self.kernel().read(0).unwrap().counters;
        (counters.passed_packets, counters.passed_bytes)
    }
}

#[test]
fn a_super_packet_is_charged_as_its_segments() {
    let Some(mut gate) = subject("a_super_packet_is_charged_as_its_segments") else {
        return;
    };
    for (layer, overhead) in [(2, 0), (3, 0), (2, 24), (3, 38), (2, -14), (3, -20)] {
        gate.account(layer, overhead);
        for headers in Headers::all() {
            let size = headers.frame(0).len();
            let charge = match layer {
                2 => size,
                _ => size - headers.link.len(),
            };
            for (payload, segment) in [(2_800, 700), (2_900, 700), (2_801, 1_400), (900, 100)] {
                let whole = payload / segment;
                let mut segments = vec![headers.frame(segment); whole];
                if payload % segment > 0 {
                    // Short frames are padded, which does not matter here.
                    segments.push(headers.frame(payload % segment));
                }
                let count = segments.len() as u64;
                let wire = (charge as i64 + i64::from(overhead)) as u64;
                let expected = (count, wire * count + payload as u64);
                let alone = gate.charged(&segments, &Known::default());
                let what =
                    format!("{segment} of {payload} after {size}, layer {layer} + {overhead}");
                assert_eq!(alone, expected, "segments, {what}");
                // Drivers may leave the number of segments out.
                for segments in [count as u32, 0] {
                    let known = Known {
                        gso_size: segment as u32,
                        gso_segs: segments,
                        ..Default::default()
                    };
                    let charged = gate.charged(&[headers.frame(payload)], &known);
                    assert_eq!(charged, expected, "{segments} segments, {what}");
                }
            }
        }
    }
}

#[test]
fn what_the_kernel_knows_of_headers_in_tunnels_is_charged() {
    let Some(mut gate) = subject("what_the_kernel_knows_of_headers_in_tunnels_is_charged") else {
        return;
    };
    let headers = &Headers::all()[0];
    let frame = headers.frame(2_900);
    // Five segments. Their headers in the tunnel are 50 bytes longer than the visible ones.
    let known = Known {
        gso_size: 700,
        gso_segs: 5,
        wire_len: (frame.len() + 4 * (54 + 50)) as u32,
    };
    for (layer, overhead) in [(2, 0), (3, 24)] {
        gate.account(layer, overhead);
        let link = if layer == 3 { 5 * 14 } else { 0 };
        let expected = u64::from(known.wire_len) - link + 5 * overhead as u64;
        let charged = gate.charged(std::slice::from_ref(&frame), &known);
        assert_eq!(charged, (5, expected), "layer {layer}");
    }
}
