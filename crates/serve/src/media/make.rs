//! Videos without pictures, for tests and studies: real headers, followed by zeros up to the wanted
//! length.
//!
//! The data after the headers is a hole in the file, so that an hour of video takes a few kilobytes of
//! disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// MP4 with its headers first, as for the web.
    Mp4,
    /// MP4 with its headers after the data, and 64-bit lengths, as cameras write it.
    Mp4HeadersLast,
    /// MP4 in fragments, the duration in the extends header.
    Mp4Fragmented,
    /// WebM.
    WebM,
}

/// Writes a video of this duration and length (bytes; at least 2000, or the headers would not fit) to a file, which is replaced.
pub fn video(path: &Path, layout: Layout, duration: Duration, length: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let (head, tail) = parts(layout, duration, length)?;
    file.write_all(&head)?;
    file.set_len(length - tail.len() as u64)?;
    if !tail.is_empty() {
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        file.write_all(&tail)?;
    }
    Ok(())
}

/// The same video in memory.
pub fn bytes(layout: Layout, duration: Duration, length: usize) -> io::Result<Vec<u8>> {
    let (mut head, tail) = parts(layout, duration, length as u64)?;
    head.resize(length - tail.len(), 0);
    head.extend(tail);
    Ok(head)
}

/// The bytes before the zeros, and the bytes after them.
fn parts(layout: Layout, duration: Duration, length: u64) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    if length < 2000 {
        return Err(wrong("a video has 2000 bytes at least"));
    }
    let millis = u64::try_from(duration.as_millis()).map_err(|_| wrong("too long a duration"))?;
    if millis == 0 {
        return Err(wrong("a video plays for a millisecond at least"));
    }
    let ftyp = boxed(b"ftyp", &[b"isom\0\0\x02\0isomiso6mp41"]);
    Ok(match layout {
        Layout::Mp4 => {
            let mut head = ftyp;
            head.extend(moov(millis, false));
            head.extend(mdat(length - head.len() as u64));
            (head, Vec::new())
        }
        Layout::Mp4HeadersLast => {
            let mut head = ftyp;
            let tail = moov(millis, false);
            head.extend(mdat(length - (head.len() + tail.len()) as u64));
            (head, tail)
        }
        Layout::Mp4Fragmented => {
            let mut head = ftyp;
            head.extend(moov(millis, true));
            let sequence = 1_u32.to_be_bytes();
            let mfhd = boxed(b"mfhd", &[&[0; 4], &sequence]);
            head.extend(boxed(b"moof", &[&mfhd]));
            head.extend(mdat(length - head.len() as u64));
            (head, Vec::new())
        }
        Layout::WebM => (webm(millis, length), Vec::new()),
    })
}

/// A box of MP4 with these parts.
fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let content: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = (content as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(kind);
    for part in parts {
        bytes.extend(*part);
    }
    bytes
}

/// The head of a media data box of this many bytes, itself included.
fn mdat(length: u64) -> Vec<u8> {
    let mut bytes = 1_u32.to_be_bytes().to_vec();
    bytes.extend(b"mdat");
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The movie box, with a video track without samples; its time counts milliseconds.
fn moov(millis: u64, fragmented: bool) -> Vec<u8> {
    let scale = 1000_u32.to_be_bytes();
    let known = if fragmented { 0 } else { millis };
    let matrix: Vec<u8> = [0x1_0000_u32, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000]
        .iter()
        .flat_map(|value| value.to_be_bytes())
        .collect();
    // Version 1, with 64-bit times, for times that do not fit into 32 bits.
    let wide = u32::try_from(millis).is_err();
    let start: &[u8] = if wide { &[1, 0, 0, 0] } else { &[0; 4] };
    let dates: &[u8] = if wide { &[0; 16] } else { &[0; 8] };
    let time = |millis: u64| {
        if wide {
            millis.to_be_bytes().to_vec()
        } else {
            (millis as u32).to_be_bytes().to_vec()
        }
    };
    let rate_and_volume = [0, 1, 0, 0, 1, 0];
    let next_track = 2_u32.to_be_bytes();
    let mvhd = boxed(
        b"mvhd",
        &[
            start,
            dates,
            &scale,
            &time(known),
            &rate_and_volume,
            &[0; 10],
            &matrix,
            &[0; 24],
            &next_track,
        ],
    );
    let number = 1_u32.to_be_bytes();
    let mut enabled = start.to_vec();
    enabled[3] = 7;
    let size = [0x0280_0000_u32.to_be_bytes(), 0x0168_0000_u32.to_be_bytes()].concat();
    let tkhd = boxed(
        b"tkhd",
        &[
            &enabled,
            dates,
            &number,
            &[0; 4],
            &time(known),
            &[0; 16],
            &matrix,
            &size,
        ],
    );
    let undetermined = [0x55, 0xc4, 0, 0];
    let mdhd = boxed(
        b"mdhd",
        &[start, dates, &scale, &time(known), &undetermined],
    );
    let hdlr = boxed(b"hdlr", &[&[0; 8], b"vide", &[0; 13]]);
    let vmhd = boxed(b"vmhd", &[&[0, 0, 0, 1], &[0; 8]]);
    let url = boxed(b"url ", &[&[0, 0, 0, 1]]);
    let dref = boxed(b"dref", &[&[0; 4], &number, &url]);
    let dinf = boxed(b"dinf", &[&dref]);
    let empty = |kind| boxed(kind, &[&[0; 8]]);
    let stsz = boxed(b"stsz", &[&[0; 12]]);
    let tables = [
        empty(b"stsd"),
        empty(b"stts"),
        empty(b"stsc"),
        stsz,
        empty(b"stco"),
    ]
    .concat();
    let stbl = boxed(b"stbl", &[&tables]);
    let minf = boxed(b"minf", &[&vmhd, &dinf, &stbl]);
    let mdia = boxed(b"mdia", &[&mdhd, &hdlr, &minf]);
    let trak = boxed(b"trak", &[&tkhd, &mdia]);
    let mvex = if fragmented {
        let mehd = boxed(b"mehd", &[&[1, 0, 0, 0], &millis.to_be_bytes()]);
        let trex = boxed(b"trex", &[&[0; 4], &number, &number, &[0; 12]]);
        boxed(b"mvex", &[&mehd, &trex])
    } else {
        Vec::new()
    };
    boxed(b"moov", &[&mvhd, &trak, &mvex])
}

/// An element of Matroska, its size in eight bytes.
fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = sized(id, content.len() as u64);
    bytes.extend(content);
    bytes
}

fn sized(id: &[u8], size: u64) -> Vec<u8> {
    let mut bytes = id.to_vec();
    bytes.extend((size | 1 << 56).to_be_bytes());
    bytes
}

fn webm(millis: u64, length: u64) -> Vec<u8> {
    let doc_type = element(&[0x42, 0x82], b"webm");
    let doc_version = element(&[0x42, 0x87], &[4]);
    let doc_read_version = element(&[0x42, 0x85], &[2]);
    let ebml = element(
        &[0x1a, 0x45, 0xdf, 0xa3],
        &[doc_type, doc_version, doc_read_version].concat(),
    );
    let scale = element(&[0x2a, 0xd7, 0xb1], &1_000_000_u32.to_be_bytes());
    let duration = element(&[0x44, 0x89], &(millis as f64).to_be_bytes());
    let muxer = element(&[0x4d, 0x80], b"tidegate");
    let writer = element(&[0x57, 0x41], b"tidegate");
    let info = element(
        &[0x15, 0x49, 0xa9, 0x66],
        &[scale, duration, muxer, writer].concat(),
    );
    let number = element(&[0xd7], &[1]);
    let unique = element(&[0x73, 0xc5], &[1]);
    let kind = element(&[0x83], &[1]);
    let codec = element(&[0x86], b"V_VP9");
    let size = [element(&[0xb0], &[2, 0x80]), element(&[0xba], &[1, 0x68])].concat();
    let video = element(&[0xe0], &size);
    let track = element(&[0xae], &[number, unique, kind, codec, video].concat());
    let tracks = element(&[0x16, 0x54, 0xae, 0x6b], &track);
    let mut bytes = ebml;
    let segment = bytes.len() as u64 + 12;
    bytes.extend(sized(&[0x18, 0x53, 0x80, 0x67], length - segment));
    bytes.extend(info);
    bytes.extend(tracks);
    // Clusters would follow; a void holds their place.
    let void = bytes.len() as u64 + 9;
    bytes.extend(sized(&[0xec], length - void));
    bytes
}
