use std::time::Duration;

use proptest::prelude::*;

use super::make::{self, Layout};
use super::{Container, Media, MediaError, Prefix};

const LAYOUTS: [Layout; 4] = [
    Layout::Mp4,
    Layout::Mp4HeadersLast,
    Layout::Mp4Fragmented,
    Layout::WebM,
];

fn probe(bytes: &[u8]) -> Result<Media, MediaError> {
    Media::probe(&Prefix {
        bytes,
        length: bytes.len() as u64,
    })
}

#[test]
fn every_layout_says_its_duration() {
    let folder = tempfile::tempdir().unwrap();
    for layout in LAYOUTS {
        let duration = Duration::from_millis(63_500);
        let in_memory = make::bytes(layout, duration, 5_000_000).unwrap();
        assert_eq!(in_memory.len(), 5_000_000);
        let path = folder.path().join(format!("{layout:?}"));
        make::video(&path, layout, duration, 5_000_000).unwrap();
        assert!(std::fs::read(&path).unwrap() == in_memory, "{layout:?}");
        let media = Media::probe(&std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(media.duration, duration, "{layout:?}");
        let webm = layout == Layout::WebM;
        let container = if webm {
            Container::WebM
        } else {
            Container::Mp4
        };
        assert_eq!(media.container, container);
        // 5 MB in 63.5 s.
        assert_eq!(media.rate().bits_per_second(), 629_921);
    }
}

#[test]
fn durations_beyond_32_bits() {
    let long = Duration::from_secs(60 * 86_400);
    let bytes = make::bytes(Layout::Mp4, long, 10_000).unwrap();
    // A file of 10 kB does not play for 60 days; one of 100 GB may.
    assert!(matches!(probe(&bytes), Err(MediaError::Implausible(d)) if d == long));
    let media = Media::probe(&Prefix {
        bytes: &bytes,
        length: 100_000_000_000,
    });
    // The media data box ends where the file was made to end.
    assert_eq!(media.unwrap().duration, long);
}

#[test]
fn a_player_knows_it_from_the_beginning() {
    for layout in [Layout::Mp4, Layout::Mp4Fragmented, Layout::WebM] {
        let bytes = make::bytes(layout, Duration::from_secs(10), 1_000_000).unwrap();
        let media = Media::probe(&Prefix {
            bytes: &bytes[..1500],
            length: 1_000_000,
        });
        assert_eq!(media.unwrap().rate().bits_per_second(), 800_000);
    }
    let last = make::bytes(Layout::Mp4HeadersLast, Duration::from_secs(10), 1_000_000).unwrap();
    let media = Media::probe(&Prefix {
        bytes: &last[..1500],
        length: 1_000_000,
    });
    assert!(matches!(media, Err(MediaError::NoDuration)));
}

#[test]
fn the_index_stands_in_for_the_header() {
    // The extends header of a fragmented file, made a free box of the same length.
    let mut bytes = make::bytes(Layout::Mp4Fragmented, Duration::from_secs(7), 100_000).unwrap();
    let mehd = bytes.windows(4).position(|four| four == b"mehd").unwrap();
    bytes[mehd..mehd + 4].copy_from_slice(b"free");
    assert!(matches!(probe(&bytes), Err(MediaError::NoDuration)));
    // Two references of 2 and 3 seconds, before the first fragment.
    let moof = bytes.windows(4).position(|four| four == b"moof").unwrap() - 4;
    let rest = (bytes.len() - moof) as u32;
    let with = |index: Vec<u8>| [&bytes[..moof], &index, &bytes[moof..]].concat();
    let whole = with(sidx(&[(1000, 2), (rest - 1000, 3)]));
    assert_eq!(probe(&whole).unwrap().duration, Duration::from_secs(5));
    // If the file was cut, the index covers the part that is there.
    let cut = with(sidx(&[(rest, 5), (rest, 5)]));
    assert_eq!(probe(&cut).unwrap().duration, Duration::from_secs(5));
    // Without lengths it gives no rate.
    let nothing = with(sidx(&[(0, 5)]));
    assert!(matches!(probe(&nothing), Err(MediaError::NoDuration)));
}

/// As ffmpeg writes it with `-movflags frag_keyframe`: the movie header has the duration of the samples beside it, which are those of the
/// first fragment.
#[test]
fn the_movie_header_of_fragments_is_not_the_duration() {
    let mut bytes = make::bytes(Layout::Mp4Fragmented, Duration::from_secs(60), 100_000).unwrap();
    let of = |bytes: &[u8], kind: &[u8]| bytes.windows(4).position(|four| four == kind).unwrap();
    let mvhd = of(&bytes, b"mvhd") + 4;
    // Its time counts milliseconds.
    bytes[mvhd + 16..mvhd + 20].copy_from_slice(&2_000_u32.to_be_bytes());
    assert_eq!(probe(&bytes).unwrap().duration, Duration::from_secs(60));
    let mehd = of(&bytes, b"mehd");
    bytes[mehd..mehd + 4].copy_from_slice(b"free");
    assert!(matches!(probe(&bytes), Err(MediaError::NoDuration)));
    let moof = of(&bytes, b"moof") - 4;
    let index = sidx(&[((bytes.len() - moof) as u32, 50)]);
    let bytes = [&bytes[..moof], &index, &bytes[moof..]].concat();
    assert_eq!(probe(&bytes).unwrap().duration, Duration::from_secs(50));
}

/// An index of segments, with bytes and seconds of each.
fn sidx(references: &[(u32, u32)]) -> Vec<u8> {
    let mut sidx = (32 + 12 * references.len() as u32).to_be_bytes().to_vec();
    sidx.extend(b"sidx");
    sidx.extend([0; 4]);
    sidx.extend(1_u32.to_be_bytes());
    sidx.extend(90_000_u32.to_be_bytes());
    sidx.extend([0; 8]);
    sidx.extend([0, 0]);
    sidx.extend((references.len() as u16).to_be_bytes());
    for (bytes, seconds) in references {
        sidx.extend(bytes.to_be_bytes());
        sidx.extend((seconds * 90_000).to_be_bytes());
        sidx.extend([0; 4]);
    }
    sidx
}

/// A minute of 2 Mbit/s: sixty fragments of a second, each after its index.
#[test]
fn an_index_of_the_first_fragment_tells_the_rate() {
    let mut bytes = make::bytes(Layout::Mp4Fragmented, Duration::from_secs(60), 2000).unwrap();
    let mehd = bytes.windows(4).position(|four| four == b"mehd").unwrap();
    bytes[mehd..mehd + 4].copy_from_slice(b"free");
    let moof = bytes.windows(4).position(|four| four == b"moof").unwrap() - 4;
    bytes.truncate(moof);
    for _ in 0..60 {
        bytes.extend(sidx(&[(250_000, 1)]));
        bytes.extend(8_u32.to_be_bytes());
        bytes.extend(b"moof");
        bytes.extend(249_992_u32.to_be_bytes());
        bytes.extend(b"mdat");
        bytes.resize(bytes.len() + 249_984, 0);
    }
    let rate = probe(&bytes).unwrap().rate().bits_per_second();
    assert!((2_000_000..2_002_000).contains(&rate), "{rate}");
}

/// Indexes of zeros cost a read each, and only the first one.
#[test]
fn many_empty_indexes() {
    struct Counted<'a>(Prefix<'a>, std::cell::Cell<u32>);
    impl super::Source for Counted<'_> {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1.set(self.1.get() + 1);
            self.0.read_at(offset, buffer)
        }
        fn length(&self) -> std::io::Result<u64> {
            self.0.length()
        }
    }
    let mut sidx = vec![0_u8; 32 + 1000 * 12];
    let length = (sidx.len() as u32).to_be_bytes();
    sidx[..4].copy_from_slice(&length);
    sidx[4..8].copy_from_slice(b"sidx");
    sidx[30..32].copy_from_slice(&1000_u16.to_be_bytes());
    let mut bytes = b"\0\0\0\x08ftyp".to_vec();
    for _ in 0..20 {
        bytes.extend(&sidx);
    }
    let length = bytes.len() as u64;
    let prefix = Prefix {
        bytes: &bytes,
        length,
    };
    let source = Counted(prefix, Default::default());
    assert!(matches!(Media::probe(&source), Err(MediaError::NoDuration)));
    assert!(source.1.get() < 40, "{} reads", source.1.get());
}

#[test]
fn what_is_no_video_says_so() {
    for bytes in [&b""[..], b"ftyp", b"\0\0\0\x08abcd....", &[0x1a, 0x45]] {
        assert!(matches!(probe(bytes), Err(MediaError::Unknown)));
    }
    // A box that ends before it begins, and one behind the end.
    for length in [7_u32, 4_000_000_000] {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(b"ftypisom");
        assert!(matches!(probe(&bytes), Err(MediaError::Damaged(0))));
    }
}

#[test]
fn durations_of_zero_and_of_no_number() {
    let mut bytes = make::bytes(Layout::Mp4, Duration::from_secs(7), 100_000).unwrap();
    let mvhd = bytes.windows(4).position(|four| four == b"mvhd").unwrap() + 4;
    bytes[mvhd + 12..mvhd + 16].fill(0);
    assert!(matches!(probe(&bytes), Err(MediaError::Damaged(_))));
    let mut bytes = make::bytes(Layout::WebM, Duration::from_secs(7), 100_000).unwrap();
    let place = bytes
        .windows(2)
        .position(|two| two == [0x44, 0x89])
        .unwrap()
        + 10;
    for wrong in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        bytes[place..place + 8].copy_from_slice(&wrong.to_be_bytes());
        assert!(matches!(probe(&bytes), Err(MediaError::Damaged(_))));
    }
}

proptest! {
    /// Any headers lead to an answer or an error in finite time.
    #[test]
    fn damaged_headers(layout in 0..4_usize, changes in prop::collection::vec((0..900_usize, any::<u8>()), 1..8), cut in 0..2000_usize) {
        let mut bytes = make::bytes(LAYOUTS[layout], Duration::from_secs(9), 2000).unwrap();
        for (place, value) in changes {
            bytes[place] = value;
            let end = 1999 - place;
            bytes[end] = value;
        }
        let _ = probe(&bytes);
        let _ = probe(&bytes[..cut]);
    }
}
