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

fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = (content.len() as u32 + 8).to_be_bytes();
    [&length, &kind[..], &content].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A file as ffmpeg writes it with `-movflags frag_keyframe+empty_moov`: each fragment has two seconds of a video track (90,000 units a second), in
/// this many bytes, and begins with it; no header says how long it all is. Returns its index too.
fn fragments(lengths: impl Iterator<Item = usize>) -> (Vec<u8>, Vec<u8>) {
    let track = |id: u32, scale: u32| {
        let head = boxed(b"mdhd", &[&words(&[0, 0, 0, scale, 0, 0])]);
        let media = boxed(b"mdia", &[&boxed(b"hdlr", &[&[0; 25]]), &head]);
        boxed(
            b"trak",
            &[&boxed(b"tkhd", &[&words(&[0, 0, 0, id]), &[0; 68]]), &media],
        )
    };
    let header = boxed(b"mvhd", &[&words(&[0, 0, 0, 1000, 0]), &[0; 80]]);
    let extends = boxed(b"mvex", &[&boxed(b"trex", &[&[0; 24]])]);
    let movie = [&header[..], &track(7, 48_000), &track(1, 90_000), &extends].concat();
    let mut file = [boxed(b"ftyp", &[b"isom"]), boxed(b"moov", &[&movie])].concat();
    let (mut count, mut entries) = (0_u32, Vec::new());
    for length in lengths {
        let time = words(&[1 << 24, 0, count * 180_000 + 900]);
        entries.extend([count * 180_000 + 900, file.len() as u32]);
        let part = |id, time: &[u8]| {
            let parts = [boxed(b"tfhd", &[&words(&[0, id])]), boxed(b"tfdt", &[time])];
            boxed(b"traf", &[&parts.concat()])
        };
        let audio = part(7, &words(&[0, count * 96_000]));
        let begin = boxed(b"moof", &[&part(1, &time), &audio]);
        let data = vec![0; length - begin.len() - 8];
        file.extend([begin, boxed(b"mdat", &[&data])].concat());
        count += 1;
    }
    // Three numbers of one byte behind each time and place.
    let entries = entries
        .chunks(2)
        .flat_map(|entry| [&words(entry)[..], &[1; 3]].concat());
    let content = [words(&[0, 1, 0, count]), entries.collect()].concat();
    let index = boxed(b"tfra", &[&content]);
    let size = index.len() as u32 + 24;
    let index = boxed(b"mfra", &[&index, &boxed(b"mfro", &[&words(&[0, size])])]);
    (file, index)
}

#[test]
fn fragments_tell_the_rate_if_no_header_does() {
    // 1 Mbit/s.
    let (file, index) = fragments((0..30).map(|_| 250_000));
    let about = |bytes: &[u8], wanted: f64| {
        let rate = probe(bytes).unwrap().rate().bits_per_second() as f64;
        assert!((rate / wanted - 1.0).abs() < 0.001, "{rate} for {wanted}");
    };
    about(&file, 1e6);
    let indexed = [&file[..], &index].concat();
    about(&indexed, 1e6);
    // A file that is cut in a fragment.
    about(&file[..file.len() - 100_000], 1e6);
    // With an index, all fragments count; without, 256 of them.
    let rising = || (0..1000).map(|at| 20_000 + 20 * at);
    let (file, index) = fragments(rising());
    let mean = |count: usize| rising().take(count).sum::<usize>() as f64 * 4.0 / count as f64;
    about(&[&file[..], &index].concat(), mean(999));
    about(&file, mean(255));
    // A player that does not have the file yet waits for more than a few fragments.
    let some = |have: usize| Prefix {
        bytes: &file[..have],
        length: file.len() as u64,
    };
    assert!(matches!(
        Media::probe(&some(80_000)),
        Err(MediaError::NoDuration)
    ));
    assert!(Media::probe(&some(200_000)).is_ok());
}

#[test]
fn damaged_fragments_tell_nothing() {
    let (file, index) = fragments((0..30).map(|_| 1_000));
    let whole = [&file[..], &index].concat();
    let from = whole.windows(4).position(|four| four == b"moof").unwrap();
    for at in from..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // No panic, and no endless walk.
            let _ = probe(&bytes);
        }
    }
    // Times that do not advance.
    let (one, _) = fragments(std::iter::once(1_000));
    assert!(matches!(probe(&one), Err(MediaError::NoDuration)));
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
