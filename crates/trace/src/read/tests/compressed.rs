use std::io::Write;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[cfg(any(feature = "xz", feature = "xz-rust"))]
fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[cfg(any(feature = "zstd", feature = "zstd-rust"))]
fn zstd(bytes: &[u8]) -> Vec<u8> {
    // With a checksum, as the command line tool writes it.
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Compress = fn(&[u8]) -> Vec<u8>;
const ALL: &[(&str, Compress)] = &[
    ("gzip", gzip),
    #[cfg(any(feature = "xz", feature = "xz-rust"))]
    ("xz", xz),
    #[cfg(any(feature = "zstd", feature = "zstd-rust"))]
    ("zstd", zstd),
];

/// Of bytes that do not compress, so that a cut or damaged place has much before it.
fn noise(n: u32) -> Vec<u8> {
    let mut pcap = Pcap::new(false, MICROS, 1);
    let mut state = 1u32;
    for i in 0..n {
        let data: Vec<u8> = (0..500)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        pcap.record(i, 0, &data, 500);
    }
    pcap.bytes
}

#[test]
fn compressed_captures() {
    let plain = read_bytes(&noise(1000));
    assert_eq!(plain.frames.len(), 1000);
    for (name, compress) in ALL {
        let found = read_bytes(&compress(&noise(1000)));
        assert_eq!(found.error, None, "{name}");
        assert!(found.frames == plain.frames, "{name}");
    }
}

#[test]
fn compressed_input_that_comes_byte_by_byte() {
    for (name, compress) in ALL {
        let found = read(slow(compress(&sample(20))));
        assert_eq!(found.error, None, "{name}");
        assert_eq!(found.frames.len(), 20, "{name}");
    }
}

#[test]
fn several_members_or_streams_are_one_capture() {
    let bytes = noise(300);
    let (first, second) = bytes.split_at(70_001);
    for (name, compress) in ALL {
        let mut both = compress(first);
        both.extend(compress(second));
        let found = read_bytes(&both);
        assert_eq!(found.error, None, "{name}");
        assert_eq!(found.frames.len(), 300, "{name}");
    }
}

#[test]
fn a_compressed_pcapng() {
    let mut ng = vec![
        0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
    ];
    ng.extend([0xff; 8]);
    ng.extend([28, 0, 0, 0]);
    for (name, compress) in ALL {
        assert_eq!(read_bytes(&compress(&ng)).error, None, "{name}");
    }
}

#[test]
fn what_is_compressed_is_no_capture_or_empty() {
    for (name, compress) in ALL {
        let error = read_bytes(&compress(b"just a text")).error.unwrap();
        assert_eq!(error.reason, Reason::NotACapture, "{name}");
        let error = read_bytes(&compress(b"")).error.unwrap();
        assert_eq!(error.reason, Reason::Empty, "{name}");
    }
}

#[test]
fn an_error_behind_compression_counts_decompressed_bytes() {
    let mut bytes = sample(3);
    let end = bytes.len() as u64;
    bytes.extend([0xff; 16]);
    for (name, compress) in ALL {
        let error = read_bytes(&compress(&bytes)).error.unwrap();
        assert!(error.decompressed, "{name}");
        assert_eq!(error.offset, end, "{name}");
        assert!(error.to_string().contains("of the decompressed data"));
    }
}

#[test]
fn a_truncated_compressed_file_gives_what_is_there() {
    for (name, compress) in ALL {
        let whole = compress(&noise(2000));
        let found = read_bytes(&whole[..whole.len() / 2]);
        // Without C, zstd's last window is held back: here that is all.
        let all_held = *name == "zstd" && cfg!(not(feature = "zstd"));
        assert!(
            all_held || (500..1500).contains(&found.frames.len()),
            "{name}: {}",
            found.frames.len()
        );
        let error = found.error.unwrap();
        assert!(matches!(error.reason, Reason::Io(_)), "{name}: {error}");
    }
}

#[test]
fn damage_in_the_middle_gives_what_is_before() {
    let plain = read_bytes(&noise(2000)).frames;
    for (name, compress) in ALL {
        let mut whole = compress(&noise(2000));
        let middle = whole.len() / 2;
        for byte in &mut whole[middle..middle + 64] {
            *byte ^= 0x5a;
        }
        let found = read_bytes(&whole);
        assert!(found.error.is_some(), "{name}");
        assert!(found.frames.len() >= 800, "{name}: {}", found.frames.len());
        assert!(found.frames[..800] == plain[..800], "{name}");
    }
}

#[cfg(any(feature = "xz", feature = "xz-rust"))]
#[test]
fn an_xz_dictionary_of_4_gib_is_refused() {
    let mut bytes = xz(&sample(10));
    // Block header: length, flags, filter LZMA2 and its one property byte, and a checksum.
    assert_eq!(bytes[12..16], [2, 0, 0x21, 1]);
    bytes[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..20]);
    bytes[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    let error = read_bytes(&bytes).error.unwrap();
    assert!(matches!(&error.reason, Reason::Io(_)), "{error}");
    // The largest that xz's own presets ask for is taken.
    bytes[16] = 28;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..20]);
    bytes[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    assert_eq!(read_bytes(&bytes).frames.len(), 10);
}

#[cfg(any(feature = "zstd", feature = "zstd-rust"))]
#[test]
fn a_zstd_window_of_2_gib_is_refused() {
    // Magic, no content size, window of 2^(10 + 21), and a raw block.
    let raw = |exponent: u8| {
        let capture = sample(10);
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3];
        bytes.extend(&(1 | (capture.len() as u32) << 3).to_le_bytes()[..3]);
        bytes.extend(capture);
        bytes
    };
    let error = read_bytes(&raw(21)).error.unwrap();
    assert!(matches!(&error.reason, Reason::Io(_)), "{error}");
    assert_eq!(read_bytes(&raw(17)).frames.len(), 10);
}

/// Each format that was left out is named, with the command that decompresses it.
#[cfg(not(all(
    any(feature = "xz", feature = "xz-rust"),
    any(feature = "zstd", feature = "zstd-rust")
)))]
#[test]
fn formats_that_were_left_out_are_named() {
    let left_out: &[(&[u8], &str)] = &[
        #[cfg(not(any(feature = "xz", feature = "xz-rust")))]
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz -d"),
        #[cfg(not(any(feature = "zstd", feature = "zstd-rust")))]
        (&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], "zstd -d"),
    ];
    for (magic, command) in left_out {
        let error = read_bytes(magic).error.expect("it cannot be read");
        assert!(error.to_string().contains(command), "{error}");
    }
}

proptest! {
    #[test]
    fn any_damage_ends_without_panic(which in 0..ALL.len(), place in 0usize..3000, value: u8) {
        let mut bytes = ALL[which].1(&sample(30));
        let n = bytes.len();
        bytes[place % n] = value;
        terminates_any(bytes);
    }
}

/// As [`terminates`], but the bytes may decompress to many more.
fn terminates_any(bytes: Vec<u8>) {
    let found = read_bytes(&bytes);
    assert!(found.frames.len() < 1 << 20);
}
