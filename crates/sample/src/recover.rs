//! What a sampler that was killed left: its last file, without an end. Its whole packets become a complete file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

use crate::files::LEVEL;
use crate::folder::Folder;
use crate::options::Event;

/// The type of blocks with a packet [draft-ietf-opsawg-pcapng §4.3].
const PACKET: u32 = 6;
/// A block is at least this long, and what a sampler writes is at most this long.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=1 << 18;

/// Completes the files that an earlier process left, as far as they were written. Files without packets are removed. Where
/// there is no space the file stays, and the next start tries again.
pub(crate) fn recover(folder: &Folder) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for left in folder.left()? {
        match complete(folder, &left) {
            Ok(recovered) => {
                fs::remove_file(&left)?;
                let event = recovered.map(|(path, packets)| Event::Recovered { path, packets });
                events.extend(event);
            }
            Err(reason) => events.push(Event::NotRecovered { path: left, reason }),
        }
    }
    Ok(events)
}

/// Where the complete file is, and how many packets it has. Nothing, if there are none.
fn complete(folder: &Folder, left: &Path) -> io::Result<Option<(PathBuf, u64)>> {
    let Some(part) = folder.again(left)? else {
        return Ok(None);
    };
    let mut whole = Decoder::new(File::open(left)?)?;
    let mut out = Encoder::new(part, LEVEL)?;
    let (mut block, mut packets) = (Vec::new(), 0);
    while next(&mut whole, &mut block)? {
        packets += u64::from(word(&block, 0) == PACKET);
        out.write_all(&block)?;
    }
    let part = out.finish()?;
    if packets == 0 {
        return Ok(None);
    }
    let (path, _) = part.complete()?;
    Ok(Some((path, packets)))
}

/// The next whole block. None, where the file breaks off or is damaged.
fn next(source: &mut impl Read, block: &mut Vec<u8>) -> io::Result<bool> {
    block.clear();
    block.resize(8, 0);
    if !fill(source, block)? {
        return Ok(false);
    }
    let length = word(block, 4) as usize;
    if !LENGTHS.contains(&length) || !length.is_multiple_of(4) {
        return Ok(false);
    }
    block.resize(length, 0);
    Ok(fill(source, &mut block[8..])? && word(block, length - 4) as usize == length)
}

/// Whether the source had enough bytes.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(bytes) {
        Ok(()) => Ok(true),
        // The compressed stream has no end, or no sense.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::Other) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn word(block: &[u8], at: usize) -> u32 {
    let bytes = block
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use tidegate_trace::read::{Capture, LinkType};
    use tidegate_trace::write::pcapng::{Interface, Marks, PcapngWriter, Section};

    use super::*;

    const TIME: &str = "20261123T190500.123456Z";

    /// A compressed capture, and how many packets it has.
    fn capture() -> (Vec<u8>, usize) {
        let section = Section {
            comment: "tidegate sample: fraction=0.5",
            ..Section::default()
        };
        let interface = Interface {
            name: "eth0",
            link: LinkType::ETHERNET,
            filter: "",
        };
        let out = Encoder::new(Vec::new(), LEVEL).unwrap();
        let mut out = PcapngWriter::new(out, &section, &interface).unwrap();
        let packets = 40_000;
        let mut state = 1u64;
        for at in 0..packets {
            // What does not compress, so that there are several blocks.
            let frame: Vec<u8> = (0..54)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            out.frame(at, &frame, 1514, Marks::default()).unwrap();
        }
        (out.into_inner().finish().unwrap(), packets as usize)
    }

    #[test]
    fn what_is_whole_of_a_file_without_an_end_is_kept() {
        let (bytes, packets) = capture();
        for part in [0, 1, 50, 99, 100] {
            let root = tempfile::tempdir().unwrap();
            let left = root.path().join(format!(".web1-eth0-{TIME}.part"));
            fs::write(&left, &bytes[..bytes.len() * part / 100]).unwrap();
            let folder = Folder::open(root.path(), "web1", "eth0").unwrap();
            let events = recover(&folder).unwrap();
            assert!(!left.exists());
            let files = folder.complete().unwrap();
            if part <= 1 {
                assert!(events.is_empty() && files.is_empty(), "{part}: {events:?}");
                continue;
            }
            let [
                Event::Recovered {
                    path,
                    packets: kept,
                },
            ] = &events[..]
            else {
                panic!("{part}: {events:?}")
            };
            assert_eq!(&files[..], std::slice::from_ref(path));
            assert!(path.ends_with(format!("web1-eth0-{TIME}.pcapng.zst")));
            let mut found = 0;
            let mut capture = Capture::new(File::open(path).unwrap()).unwrap();
            while capture.frame().unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, *kept);
            assert_eq!(found as usize == packets, part == 100);
            // At most two blocks of the compression are missing.
            assert!(
                found as usize >= packets * part / 100 - 3_000,
                "{part}: {found}"
            );
            // Nothing else remains.
            let names = fs::read_dir(root.path()).unwrap().count();
            assert_eq!(names, 2, "the file and the lock");
        }
    }

    #[test]
    fn bytes_that_are_no_capture_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let left = root.path().join(format!(".web1-eth0-{TIME}.part"));
        fs::write(&left, "half").unwrap();
        let folder = Folder::open(root.path(), "web1", "eth0").unwrap();
        assert!(recover(&folder).unwrap().is_empty());
        assert!(!left.exists());
    }
}
