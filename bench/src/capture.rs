//! One large capture, made of small ones.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tidegate_trace::read::{Capture, Frame, LinkType, Nanos};

use super::short;
use super::traffic::{Losing, million as million_packets, parts};

/// The client in all of the shared captures.
const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// Between the end of a capture and the beginning of the next.
const PAUSE: Nanos = 1_000_000_000;
/// The capture to measure on.
pub struct Big {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Frames in it.
    pub packets: u64,
}

impl Big {
    /// An existing capture. Reads it once, which also brings it into the page cache.
    pub fn existing(path: &Path) -> Result<Self> {
        let open = || File::open(path).with_context(|| path.display().to_string());
        let mut capture = Capture::new(open()?)?;
        let mut packets = 0;
        while capture.frame()?.is_some() {
            packets += 1;
        }
        Ok(Self {
            path: path.to_owned(),
            bytes: open()?.metadata()?.len(),
            packets,
        })
    }

    /// The capture in target/bench. Makes it if it does not exist.
    ///
    /// With a snapshot length it has as many packets as a full capture of that size, cut off.
    pub fn made(size: u64, snaplen: Option<usize>, losing: Losing) -> Result<Self> {
        let folder = target().join("bench");
        let cut = snaplen.map_or(String::new(), |snaplen| format!("-snap{snaplen}"));
        let path = folder.join(format!("{size}{}{cut}.pcap", losing.suffix()));
        if !path.exists() {
            std::fs::create_dir_all(&folder)?;
            // Under another name until it is complete.
            let part = path.with_extension("part");
            make(&part, size, snaplen.unwrap_or(65_535), losing)?;
            std::fs::rename(&part, &path)?;
        }
        Self::existing(&path)
    }
}

/// A capture of one transfer with a million data packets, in target/bench.
pub fn million() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("million.pcap");
    let mut file = File::create(&path).with_context(|| path.display().to_string())?;
    std::io::copy(&mut million_packets()?.open()?, &mut file)?;
    Ok(path)
}

/// A capture of a million transfers or some more, in target/bench.
pub fn many() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("many.pcap");
    // Each connection has a request and a response, and each of these is a transfer.
    short::write(&path, 500_000)?;
    Ok(path)
}

/// Cargo's target folder: the one that this binary was built in.
fn target() -> PathBuf {
    let exe = std::env::current_exe().ok();
    exe.and_then(|exe| Some(exe.parent()?.parent()?.to_owned()))
        .unwrap_or_else(|| PathBuf::from("target"))
}

/// The program `tidegate` that was built beside this one.
pub fn tidegate() -> PathBuf {
    target().join("release").join("tidegate")
}

fn make(path: &Path, size: u64, snaplen: usize, losing: Losing) -> Result<()> {
    let parts = parts(losing)?;
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut out = Out::new(file, snaplen)?;
    // If more captures are needed, they are used again.
    for (number, part) in parts.iter().cycle().enumerate() {
        if out.whole_bytes >= size {
            break;
        }
        out.append(Capture::new(part.open()?)?, number, size)
            .with_context(|| format!("{part:?}"))?;
        eprintln!(
            "{}: {} MB of {} captures",
            path.display(),
            out.whole_bytes / 1_000_000,
            number + 1
        );
    }
    out.file.flush()?;
    Ok(())
}

/// Another client for each capture, so that their flows are others: the only one in the shared captures
/// from 10.1.0.1 on, those of simulations from 10.129.0.1 on.
fn moved(address: [u8; 4], number: usize) -> [u8; 4] {
    let [.., high, low] = (number as u32 / 250 * 256 + number as u32 % 250 + 1).to_be_bytes();
    match address {
        CLIENT => [10, 1, high, low],
        [10, 128, 0, host] => [10, 129 + high, low, host],
        other => other,
    }
}

struct Out {
    file: BufWriter<File>,
    snaplen: usize,
    /// How long the file would be with whole frames.
    whole_bytes: u64,
    /// When the last frame was captured, in the file's time.
    now: Nanos,
    frame: Vec<u8>,
}

impl Out {
    /// A pcap file with microseconds, which every tool reads, little-endian.
    fn new(file: File, snaplen: usize) -> Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let words: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, snaplen as u32, 1];
        for word in words {
            file.write_all(&word.to_le_bytes())?;
        }
        Ok(Self {
            file,
            snaplen,
            whole_bytes: 24,
            now: 1_000_000_000_000_000_000,
            frame: Vec::new(),
        })
    }

    /// Takes frames up to this size of the whole.
    fn append(&mut self, mut capture: Capture, number: usize, size: u64) -> Result<()> {
        let begin = self.now + PAUSE;
        let mut first = None;
        while self.whole_bytes < size
            && let Some(frame) = capture.frame()?
        {
            if frame.link != LinkType::ETHERNET {
                bail!("link layer {}, not Ethernet", frame.link);
            }
            let first = *first.get_or_insert(frame.at);
            let at = begin + frame.at.saturating_sub(first);
            self.now = self.now.max(at);
            self.write(at, &frame, number)?;
        }
        Ok(())
    }

    /// The checksums are not corrected: the tools do not check them, since captures of a sending
    /// host have wrong ones.
    fn write(&mut self, at: Nanos, frame: &Frame<'_>, number: usize) -> Result<()> {
        self.frame.clear();
        self.frame
            .extend_from_slice(&frame.data[..frame.data.len().min(self.snaplen)]);
        if self.frame.get(12..14) == Some(&[8, 0]) {
            for i in [26, 30] {
                let address = self
                    .frame
                    .get_mut(i..i + 4)
                    .and_then(|at| at.first_chunk_mut());
                if let Some(address) = address {
                    *address = moved(*address, number);
                }
            }
        }
        let head = [
            (at / 1_000_000_000) as u32,
            (at % 1_000_000_000 / 1000) as u32,
            self.frame.len() as u32,
            frame.wire_len,
        ];
        for word in head {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.file.write_all(&self.frame)?;
        self.whole_bytes += 16 + frame.data.len() as u64;
        Ok(())
    }
}

/// Reads the file once, so that the first measured tool does not wait for the disk.
pub fn warm(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}
