use super::*;

const SECTION: u32 = 0x0A0D_0D0A;

/// A pcapng file, built block by block.
struct Ng {
    big: bool,
    bytes: Vec<u8>,
}

impl Ng {
    fn new(big: bool) -> Self {
        let mut ng = Self {
            big,
            bytes: Vec::new(),
        };
        ng.section(big);
        ng
    }

    fn section(&mut self, big: bool) {
        self.section_with(big, &[]);
    }

    fn section_with(&mut self, big: bool, options: &[(u16, &[u8])]) {
        self.big = big;
        let mut body = self.u32(0x1A2B_3C4D).to_vec();
        body.extend(self.u16(1));
        body.extend(self.u16(0));
        body.extend([0xff; 8]);
        if !options.is_empty() {
            body.extend(self.options(options));
        }
        self.block(SECTION, &body);
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u64(&self, value: u64) -> [u8; 8] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = self.u32(padded as u32 + 12);
        self.bytes.extend(self.u32(kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(length);
    }

    fn options(&self, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in options {
            bytes.extend(self.u16(*code));
            bytes.extend(self.u16(value.len() as u16));
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.extend([0; 4]);
        bytes
    }

    fn interface(&mut self, link: u16, options: &[(u16, &[u8])]) {
        let mut body = self.u16(link).to_vec();
        body.extend([0; 2]);
        body.extend(self.u32(65_535));
        if !options.is_empty() {
            body.extend(self.options(options));
        }
        self.block(1, &body);
    }

    fn enhanced(&mut self, interface: u32, units: u64, data: &[u8]) {
        let mut body = Vec::new();
        for word in [
            interface,
            (units >> 32) as u32,
            units as u32,
            data.len() as u32,
            1514,
        ] {
            body.extend(self.u32(word));
        }
        body.extend(data);
        self.block(6, &body);
    }

    fn drops(&mut self, interface: u32, by_interface: u64, by_system: u64) {
        let mut body = self.u32(interface).to_vec();
        body.extend([0; 8]);
        body.extend(self.options(&[
            (4, &self.u64(1_000_000)),
            (5, &self.u64(by_interface)),
            (7, &self.u64(by_system)),
        ]));
        self.block(5, &body);
    }

    fn times(&self) -> Vec<Nanos> {
        let found = read_bytes(&self.bytes);
        assert_eq!(found.error, None);
        found.frames.iter().map(|frame| frame.0).collect()
    }
}

const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

#[test]
fn both_byte_orders() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        ng.interface(1, &[]);
        ng.enhanced(0, 0x1_2345_6789, &[1, 2, 3, 4, 5]);
        let found = read_bytes(&ng.bytes);
        assert_eq!(found.error, None);
        assert_eq!(
            found.frames,
            [(0x1_2345_6789 * 1000, vec![1, 2, 3, 4, 5], 1514)]
        );
    }
}

#[test]
fn sections_may_differ_in_byte_order_and_interfaces() {
    let mut ng = Ng::new(true);
    ng.interface(1, &[]);
    ng.enhanced(0, 1, &[1]);
    ng.section(false);
    ng.interface(113, &[(RESOLUTION, &[9])]);
    ng.enhanced(0, 2, &[2]);
    ng.section(true);
    ng.interface(1, &[]);
    ng.enhanced(0, 3, &[3]);
    assert_eq!(ng.times(), [1000, 2, 3000]);
}

#[test]
fn a_new_section_forgets_the_interfaces_before() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    ng.section(false);
    ng.enhanced(0, 1, &[1]);
    let found = read_bytes(&ng.bytes);
    assert!(found.frames.is_empty());
    assert_eq!(
        found.passed_over.first.unwrap().reason,
        Reason::NoInterface(0)
    );
}

#[test]
fn every_interface_has_its_own_clock() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        ng.interface(1, &[(RESOLUTION, &[6])]);
        // With an option before it that has to be padded.
        ng.interface(1, &[(2, b"wlan0"), (RESOLUTION, &[9])]);
        ng.interface(1, &[(RESOLUTION, &[0x80 | 10])]);
        ng.interface(1, &[]);
        ng.interface(1, &[(OFFSET, &ng.u64(1_000_000_000))]);
        ng.interface(1, &[(OFFSET, &ng.u64((-5i64) as u64)), (RESOLUTION, &[9])]);
        for (interface, units) in [(0, 7), (1, 7), (2, 512), (3, 9), (4, 9), (5, 6_000_000_000)] {
            ng.enhanced(interface, units, &[0]);
        }
        assert_eq!(
            ng.times(),
            [
                7_000,
                7,
                500_000_000,
                9_000,
                1_000_000_000_000_009_000,
                1_000_000_000
            ],
            "big endian {big}"
        );
    }
}

#[test]
fn a_time_before_the_epoch_is_the_epoch() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[(OFFSET, &ng.u64((-5i64) as u64))]);
    ng.enhanced(0, 1, &[0]);
    assert_eq!(ng.times(), [0]);
}

#[test]
fn an_impossible_resolution_is_taken_for_the_usual() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[(RESOLUTION, &[40])]);
    ng.interface(1, &[(RESOLUTION, &[0xff])]);
    ng.enhanced(0, 1, &[0]);
    ng.enhanced(1, 1, &[0]);
    assert_eq!(ng.times(), [1000, 1000]);
}

#[test]
fn obsolete_packet_blocks() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        ng.interface(1, &[]);
        ng.interface(1, &[(RESOLUTION, &[9])]);
        // Interface, drops since the last packet, time, kept and wire length.
        let mut body = ng.u16(1).to_vec();
        body.extend(ng.u16(77));
        for word in [1, 2, 3, 600] {
            body.extend(ng.u32(word));
        }
        body.extend([4, 5, 6]);
        ng.block(2, &body);
        let found = read_bytes(&ng.bytes);
        assert_eq!(found.error, None);
        assert_eq!(found.frames, [((1 << 32) + 2, vec![4, 5, 6], 600)]);
    }
}

#[test]
fn simple_packet_blocks_have_no_time_and_are_counted() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    ng.block(3, &[3, 0, 0, 0, 1, 2, 3]);
    ng.enhanced(0, 1, &[9]);
    ng.block(3, &[3, 0, 0, 0, 1, 2, 3]);
    let found = read_bytes(&ng.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 1);
    assert_eq!(found.passed_over.untimed, 2);
}

#[test]
fn unknown_blocks_are_passed_even_if_huge() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    ng.block(4, b"name resolution");
    ng.block(0x0bad, &vec![0xaa; 17 << 20]);
    ng.enhanced(0, 1, &[9]);
    let found = read_bytes(&ng.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 1);
}

#[test]
fn options_of_packets_are_no_data() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    let mut body = Vec::new();
    for word in [0, 0, 1, 2, 2] {
        body.extend(ng.u32(word));
    }
    body.extend([7, 7, 0, 0]);
    body.extend(ng.options(&[(1, b"a comment")]));
    ng.block(6, &body);
    assert_eq!(read_bytes(&ng.bytes).frames, [(1000, vec![7, 7], 2)]);
}

#[test]
fn drops_of_the_capturing_system_are_cumulative_per_interface() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        ng.interface(1, &[]);
        ng.interface(1, &[]);
        ng.drops(0, 3, 1);
        ng.drops(0, 10, 2);
        ng.drops(1, 0, 5);
        // Of an interface that is not described.
        ng.drops(9, 100, 100);
        let found = read_bytes(&ng.bytes);
        assert_eq!(found.error, None);
        assert_eq!(found.passed_over.dropped_by_capture, 17);
    }
}

#[test]
fn an_interface_with_an_unsupported_link_type_is_passed_over_and_reported() {
    let mut ng = Ng::new(false);
    ng.interface(105, &[]);
    ng.interface(1, &[]);
    let first = ng.bytes.len();
    ng.enhanced(0, 1, &[1]);
    ng.enhanced(1, 2, &[2]);
    ng.enhanced(0, 3, &[3]);
    let found = read_bytes(&ng.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 1);
    assert_eq!(found.passed_over.unsupported, 2);
    let error = found.passed_over.first.unwrap();
    assert_eq!(error.reason, Reason::Link(LinkType(105)));
    assert_eq!(error.offset, first as u64);
}

#[test]
fn a_packet_of_an_interface_that_is_not_described() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    ng.enhanced(0, 1, &[1]);
    let second = ng.bytes.len();
    ng.enhanced(1, 1, &[1]);
    ng.enhanced(0, 2, &[1]);
    let found = read_bytes(&ng.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 2, "the one behind it too");
    assert_eq!(found.passed_over.unsupported, 1);
    let first = found.passed_over.first.unwrap();
    assert_eq!(first.reason, Reason::NoInterface(1));
    assert_eq!(first.offset, second as u64);
}

#[test]
fn a_block_that_lies_about_its_length() {
    for (length, trailer) in [(0, 0), (8, 8), (33, 33), (0xffff_fff0, 0), (36, 40)] {
        let mut ng = Ng::new(false);
        ng.interface(1, &[]);
        ng.enhanced(0, 1, &[1, 2, 3, 4]);
        let second = ng.bytes.len();
        ng.enhanced(0, 1, &[1, 2, 3, 4]);
        let end = ng.bytes.len();
        ng.bytes[second + 4..second + 8].copy_from_slice(&u32::to_le_bytes(length));
        ng.bytes[end - 4..].copy_from_slice(&u32::to_le_bytes(trailer));
        let found = read_bytes(&ng.bytes);
        assert_eq!(found.frames.len(), 1);
        let error = found.error.unwrap();
        assert_eq!(error.offset, second as u64);
        assert_eq!(
            error.reason,
            Reason::BadLength {
                what: "a block",
                length: length.into()
            }
        );
    }
}

#[test]
fn a_packet_longer_than_its_block_is_malformed() {
    let mut ng = Ng::new(false);
    ng.interface(1, &[]);
    let second = ng.bytes.len();
    ng.enhanced(0, 1, &[1, 2, 3, 4]);
    ng.bytes[second + 20] = 5;
    ng.enhanced(0, 2, &[1, 2, 3, 4]);
    // Nor can a packet block be shorter than its fields.
    ng.block(6, &[0; 16]);
    let found = read_bytes(&ng.bytes);
    assert_eq!(found.error, None);
    assert_eq!(found.frames.len(), 1);
    assert_eq!(found.passed_over.malformed, 2);
}

#[test]
fn cut_off_in_a_section_or_block() {
    let mut ng = Ng::new(false);
    assert!(matches!(
        read_bytes(&ng.bytes[..20]).error.unwrap().reason,
        Reason::CutOff { available: 20, .. }
    ));
    ng.interface(1, &[]);
    ng.enhanced(0, 1, &[1, 2, 3, 4]);
    let last = ng.bytes.len();
    ng.enhanced(0, 1, &[1, 2, 3, 4]);
    for end in [last + 4, last + 8, last + 35] {
        let found = read_bytes(&ng.bytes[..end]);
        assert_eq!(found.frames.len(), 1);
        let error = found.error.unwrap();
        assert_eq!(error.offset, last as u64);
        assert!(
            matches!(error.reason, Reason::CutOff { available, .. } if available == end - last)
        );
    }
    // In a block that is passed over, and in a second section's header.
    let mut ng = Ng::new(false);
    ng.block(4, &[0; 100]);
    ng.bytes.truncate(ng.bytes.len() - 1);
    assert!(matches!(
        read_bytes(&ng.bytes).error.unwrap().reason,
        Reason::CutOff { .. }
    ));
}

#[test]
fn a_section_without_a_byte_order() {
    let mut ng = Ng::new(false);
    ng.bytes[8] = 0;
    assert_eq!(
        read_bytes(&ng.bytes).error.unwrap().reason,
        Reason::BadSection
    );
}

proptest! {
    #[test]
    fn any_blocks_end_without_panic(
        big: bool,
        blocks in prop::collection::vec(
            (0u32..8, prop::collection::vec(0u8..40, 0..60), prop::option::of(0u32..80)),
            0..10,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut ng = Ng::new(big);
        ng.interface(1, &[]);
        for (kind, body, lie) in blocks {
            let start = ng.bytes.len();
            ng.block(kind, &body);
            if let Some(length) = lie {
                let length = ng.u32(length);
                ng.bytes[start + 4..start + 8].copy_from_slice(&length);
            }
        }
        ng.bytes.extend(tail);
        terminates(ng.bytes);
    }
}

/// The shares that a capture says, frame by frame.
fn shares(bytes: Vec<u8>) -> Vec<Option<f64>> {
    let mut capture = Capture::new(Cursor::new(bytes)).expect("a capture");
    let mut shares = Vec::new();
    while capture.frame().expect("whole").is_some() {
        shares.push(capture.sampled().map(|said| said.share));
    }
    shares
}

#[test]
fn each_section_says_its_share() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        let sampler =
            |share: &str| format!("tidegate sample: fraction={share} by=flow").into_bytes();
        let (one, other) = (sampler("0.01"), sampler("0.005"));
        let long = vec![b'x'; 60_000];
        let headers: [&[(u16, &[u8])]; 5] = [
            &[],
            &[(4, b"tidegate"), (1, &one)],
            &[(1, b"from the lab"), (1, &other)],
            &[(1, &long), (1, &one), (3, b"Linux")],
            &[(1, &one[..20])],
        ];
        for options in headers {
            ng.section_with(!big, options);
            ng.interface(1, &[]);
            ng.enhanced(0, 1, &[1]);
        }
        assert_eq!(
            shares(ng.bytes),
            [None, Some(0.01), Some(0.005), Some(0.01), None]
        );
    }
    // A header too long to be a sampler's is passed over.
    let mut ng = Ng::new(false);
    let long = vec![b'x'; 60_000];
    let said: &[u8] = b"tidegate sample: fraction=0.5";
    ng.section_with(false, &[(1, &long), (1, &long), (1, said)]);
    ng.interface(1, &[]);
    ng.enhanced(0, 1, &[1]);
    assert_eq!(shares(ng.bytes), [None]);
}
