use std::io::{self, Cursor, Read};

use proptest::prelude::*;

use super::*;
use crate::write::{PcapWriter, Resolution};

mod compressed;
mod pcapng;

/// What a capture gave: frames as (time, bytes, wire length), and how it ended.
struct Found {
    frames: Vec<(Nanos, Vec<u8>, u32)>,
    error: Option<ReadError>,
    passed_over: PassedOver,
}

fn read(input: impl Read + Send + 'static) -> Found {
    let mut found = Found {
        frames: Vec::new(),
        error: None,
        passed_over: PassedOver::default(),
    };
    let mut capture = match Capture::new(input) {
        Ok(capture) => capture,
        Err(error) => {
            found.error = Some(error);
            return found;
        }
    };
    loop {
        match capture.frame() {
            Ok(Some(frame)) => found
                .frames
                .push((frame.at, frame.data.to_vec(), frame.wire_len)),
            Ok(None) => break,
            Err(error) => {
                found.error = Some(error);
                break;
            }
        }
    }
    found.passed_over = capture.passed_over();
    found
}

fn read_bytes(bytes: &[u8]) -> Found {
    read(Cursor::new(bytes.to_vec()))
}

/// A pcap file in either byte order.
struct Pcap {
    big: bool,
    bytes: Vec<u8>,
}

impl Pcap {
    fn new(big: bool, magic: u32, link: u32) -> Self {
        let mut pcap = Self {
            big,
            bytes: Vec::new(),
        };
        pcap.words(&[magic]);
        // Version 2.4; as two fields of 16 bits, so their places depend on the byte order.
        pcap.words(&[if big { 2 << 16 | 4 } else { 4 << 16 | 2 }]);
        pcap.words(&[0, 0, 65_535, link]);
        pcap
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.bytes.extend(if self.big {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            });
        }
    }

    fn record(&mut self, seconds: u32, part: u32, data: &[u8], wire_len: u32) {
        self.words(&[seconds, part, data.len() as u32, wire_len]);
        self.bytes.extend(data);
    }
}

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// A capture of `n` frames of different lengths and times.
fn sample(n: u32) -> Vec<u8> {
    let mut pcap = Pcap::new(false, MICROS, 1);
    for i in 0..n {
        pcap.record(100 + i, i, &vec![i as u8; (i % 700) as usize], 1514);
    }
    pcap.bytes
}

#[test]
fn pcap_in_both_units_and_byte_orders() {
    for big in [false, true] {
        for (magic, nanos) in [(MICROS, 123_456_000), (NANOS, 123_456)] {
            let mut pcap = Pcap::new(big, magic, 1);
            pcap.record(1_700_000_000, 123_456, &[1, 2, 3], 60);
            pcap.record(1_700_000_001, 0, &[], 0);
            let found = read_bytes(&pcap.bytes);
            assert_eq!(found.error, None);
            let at = 1_700_000_000_000_000_000;
            assert_eq!(
                found.frames,
                [
                    (at + nanos, vec![1, 2, 3], 60),
                    (at + 1_000_000_000, vec![], 0)
                ],
                "big endian {big}, magic {magic:x}"
            );
        }
    }
}

#[test]
fn pcap_of_kuznetzov_has_longer_record_headers() {
    for big in [false, true] {
        let mut pcap = Pcap::new(big, KUZNETZOV, 1);
        for i in 0..2 {
            pcap.words(&[5, 6 + i, 2, 64]);
            pcap.bytes.extend([0xee; 8]);
            pcap.bytes.extend([7, 8]);
        }
        let found = read_bytes(&pcap.bytes);
        assert_eq!(found.error, None);
        assert_eq!(
            found.frames,
            [
                (5_000_006_000, vec![7, 8], 64),
                (5_000_007_000, vec![7, 8], 64)
            ]
        );
    }
}

#[test]
fn wire_length_is_never_less_than_what_was_kept() {
    let mut pcap = Pcap::new(false, MICROS, 1);
    pcap.record(0, 0, &[0; 10], 4);
    assert_eq!(read_bytes(&pcap.bytes).frames[0].2, 10);
}

#[test]
fn link_type_is_without_the_bits_above_it() {
    // The length of a frame check sequence stands there, as some tools write it.
    let pcap = Pcap::new(false, MICROS, 0x2400_0000 | 113);
    let mut capture = Capture::new(Cursor::new(pcap.bytes)).unwrap();
    assert!(capture.frame().unwrap().is_none());
    let mut pcap = Pcap::new(false, MICROS, 0x2400_0000 | 113);
    pcap.record(0, 0, &[0; 10], 10);
    let mut capture = Capture::new(Cursor::new(pcap.bytes)).unwrap();
    let frame = capture.frame().unwrap().unwrap();
    assert_eq!(frame.link, LinkType::LINUX_SLL);
}

#[test]
fn what_the_writer_writes() {
    for (resolution, at) in [
        (Resolution::Micros, 1_700_000_000_123_456_000),
        (Resolution::Nanos, 1_700_000_000_123_456_789),
    ] {
        let mut writer = PcapWriter::new(Vec::new(), LinkType::RAW, resolution).unwrap();
        writer
            .frame(1_700_000_000_123_456_789, &[9; 40], 1500)
            .unwrap();
        let found = read_bytes(&writer.finish().unwrap());
        assert_eq!(found.error, None);
        assert_eq!(found.frames, [(at, vec![9; 40], 1500)]);
    }
    let mut writer = PcapWriter::new(Vec::new(), LinkType::RAW, Resolution::Nanos).unwrap();
    assert!(writer.frame(u64::MAX, &[], 0).is_err());
}

/// Gives one byte at a time, and is interrupted before each.
struct Slow {
    bytes: Cursor<Vec<u8>>,
    interrupted: bool,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = buffer.len().min(1);
        self.bytes.read(&mut buffer[..n])
    }
}

fn slow(bytes: Vec<u8>) -> Slow {
    Slow {
        bytes: Cursor::new(bytes),
        interrupted: false,
    }
}

#[test]
fn input_that_comes_byte_by_byte() {
    let whole = read_bytes(&sample(50));
    let found = read(slow(sample(50)));
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 50);
    assert_eq!(found.frames, whole.frames);
}

#[test]
fn input_larger_than_the_window() {
    let found = read_bytes(&sample(3000));
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 3000);
    assert!(
        found
            .frames
            .iter()
            .enumerate()
            .all(|(i, (_, data, _))| data.len() == i % 700 && data.iter().all(|&b| b == i as u8))
    );
}

#[test]
fn a_record_larger_than_the_window() {
    // Within the largest frame that is believed although the snapshot length says less.
    let mut pcap = Pcap::new(false, MICROS, 1);
    let large: Vec<u8> = (0..600_000u32).map(|i| i as u8).collect();
    pcap.record(0, 0, &large, 600_000);
    pcap.record(1, 0, &[1], 1);
    let found = read_bytes(&pcap.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames[0].1, large);
    assert_eq!(found.frames.len(), 2);
}

fn error(bytes: &[u8]) -> (u64, Reason) {
    let error = read_bytes(bytes).error.unwrap();
    assert!(!error.decompressed);
    (error.offset, error.reason)
}

#[test]
fn empty_input() {
    assert_eq!(error(&[]), (0, Reason::Empty));
}

#[test]
fn input_that_is_no_capture() {
    for text in [
        &b"x"[..],
        b"abc",
        b"GIF89a",
        b"#!/bin/sh\necho this is not a capture",
    ] {
        assert_eq!(error(text), (0, Reason::NotACapture));
    }
}

#[test]
fn an_input_that_fails() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk on fire"))
        }
    }
    assert_eq!(
        read(Broken).error.unwrap().reason,
        Reason::Io("disk on fire".into())
    );
    // What came before the failure is read first.
    let found = read(Cursor::new(sample(10)).chain(Broken));
    assert_eq!(found.frames.len(), 10);
    let error = found.error.unwrap();
    assert_eq!(error.offset, sample(10).len() as u64);
    assert_eq!(error.reason, Reason::Io("disk on fire".into()));
}

#[test]
fn old_pcap_versions_have_the_lengths_the_other_way_round() {
    for (minor, kept, wire_len) in [(2, 60, 3), (3, 60, 3), (3, 3, 60), (4, 3, 60)] {
        let mut pcap = Pcap::new(false, MICROS, 1);
        pcap.bytes[6] = minor;
        pcap.words(&[5, 6, kept, wire_len]);
        pcap.bytes.extend([7, 8, 9]);
        let found = read_bytes(&pcap.bytes);
        assert_eq!(found.error, None, "2.{minor}");
        assert_eq!(found.frames, [(5_000_006_000, vec![7, 8, 9], 60)]);
    }
}

#[test]
fn an_unknown_pcap_version() {
    let mut bytes = sample(1);
    bytes[4] = 3;
    assert_eq!(error(&bytes), (0, Reason::Version(3, 4)));
}

#[test]
fn cut_off_in_the_file_header() {
    let (offset, reason) = error(&sample(0)[..23]);
    assert_eq!(offset, 0);
    assert!(matches!(
        reason,
        Reason::CutOff {
            needed: 24,
            available: 23,
            ..
        }
    ));
}

#[test]
fn cut_off_in_a_packets_header_or_data() {
    let mut pcap = Pcap::new(false, MICROS, 1);
    pcap.record(1, 0, &[1; 100], 100);
    let second = pcap.bytes.len();
    pcap.record(2, 0, &[2; 100], 100);
    for (end, needed) in [
        (second + 1, 16),
        (second + 15, 16),
        (second + 16, 116),
        (second + 115, 116),
    ] {
        let found = read_bytes(&pcap.bytes[..end]);
        assert_eq!(found.frames.len(), 1, "cut at {end}");
        let error = found.error.unwrap();
        assert_eq!(error.offset, second as u64);
        let Reason::CutOff {
            needed: n,
            available,
            ..
        } = error.reason
        else {
            panic!("{error}");
        };
        assert_eq!((n, available), (needed, end - second));
    }
}

#[test]
fn a_record_that_lies_about_its_length() {
    let mut pcap = Pcap::new(false, MICROS, 1);
    pcap.record(1, 0, &[1; 100], 100);
    let second = pcap.bytes.len();
    pcap.words(&[2, 0, 0xffff_ffff, 100]);
    let found = read_bytes(&pcap.bytes);
    assert_eq!(found.frames.len(), 1);
    let error = found.error.unwrap();
    assert_eq!(error.offset, second as u64);
    assert_eq!(
        error.reason,
        Reason::BadLength {
            what: "a packet",
            length: 0xffff_ffff
        }
    );
}

#[test]
fn an_unsupported_link_type_of_a_pcap() {
    let pcap = Pcap::new(false, MICROS, 105);
    assert_eq!(error(&pcap.bytes), (0, Reason::Link(LinkType(105))));
}

#[test]
fn errors_say_what_and_where() {
    assert_eq!(
        read_bytes(&sample(2)[..56]).error.unwrap().to_string(),
        "cut off in the middle of a packet: it needs 17 bytes, and 16 are left (at byte 40)"
    );
}

/// Reads it all and comes to an end: every frame takes bytes of the input.
fn terminates(bytes: Vec<u8>) {
    let limit = bytes.len();
    let mut capture = match Capture::new(Cursor::new(bytes)) {
        Ok(capture) => capture,
        Err(_) => return,
    };
    let mut frames = 0;
    while let Ok(Some(frame)) = capture.frame() {
        assert!(frame.wire_len as usize >= frame.data.len());
        frames += 1;
        assert!(frames <= limit);
    }
    // After the end or an error it stays there, and does not panic.
    assert!(!matches!(capture.frame(), Ok(Some(_))) || frames <= limit);
}

proptest! {
    #[test]
    fn any_bytes_end_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        terminates(bytes);
    }

    /// Small numbers everywhere: lengths and types that nearly fit.
    #[test]
    fn any_words_behind_a_magic_end_without_panic(
        magic in prop::sample::select(vec![
            MICROS, NANOS, KUZNETZOV,
            MICROS.swap_bytes(), NANOS.swap_bytes(), KUZNETZOV.swap_bytes(),
        ]),
        body in prop::collection::vec(0u8..40, 0..400),
    ) {
        let mut pcap = Pcap::new(false, magic, 1);
        if magic != MICROS && magic != NANOS && magic != KUZNETZOV {
            let rest = Pcap::new(true, magic.swap_bytes(), 1).bytes;
            pcap.bytes = rest;
        }
        pcap.bytes.extend(body);
        terminates(pcap.bytes);
    }

    #[test]
    fn any_damage_ends_without_panic(place in 0usize..2000, value: u8, cut in 0usize..2000) {
        let mut bytes = sample(60);
        let n = bytes.len();
        bytes[place % n] = value;
        bytes.truncate(cut.max(n - 2000 + cut) % (n + 1));
        terminates(bytes);
    }
}
