//! One large capture, made of the shared ones.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tidegate_trace::read::{Capture, Frame, LinkType, Nanos};

/// The client in all of the shared captures.
const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// Between the end of a capture and the beginning of the next.
const PAUSE: Nanos = 1_000_000_000;
/// Captures are taken in the order of multiples of this number, so that a few of them are
/// a mixture of what there is: neighbours in name are alike.
const STRIDE: usize = 37;

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
    /// A capture that is there; reads it once, which also brings it into the page cache.
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

    /// The one in target/bench, made if it is not there.
    ///
    /// With a snapshot length it has as many packets as a full one of that size, cut off.
    pub fn made(size: u64, snaplen: Option<usize>) -> Result<Self> {
        let folder = target().join("bench");
        let suffix = snaplen.map_or(String::new(), |snaplen| format!("-snap{snaplen}"));
        let path = folder.join(format!("{size}{suffix}.pcap"));
        if !path.exists() {
            std::fs::create_dir_all(&folder)?;
            // Under another name until it is whole.
            let part = path.with_extension("part");
            make(&part, size, snaplen.unwrap_or(65_535))?;
            std::fs::rename(&part, &path)?;
        }
        Self::existing(&path)
    }
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

fn make(path: &Path, size: u64, snaplen: usize) -> Result<()> {
    let Some(traces) = std::env::var_os("TIDEGATE_TRACES") else {
        bail!(
            "TIDEGATE_TRACES is not set: the capture to measure on is made from the shared \
             captures, which it names the folder of. Or name a capture with --file"
        );
    };
    let folder = PathBuf::from(traces).join("usc");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".pcap.xz"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("no captures in {}", folder.display());
    }
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut out = Out::new(file, snaplen)?;
    let n = files.len();
    // Coprime with the number of files, or the walk would miss some; wanted more, they come again.
    let stride = (STRIDE..).find(|&stride| gcd(stride, n) == 1).unwrap_or(1);
    let mut number = 0;
    while out.whole_bytes < size {
        let file = &files[number * stride % n];
        let input = BufReader::new(File::open(file)?);
        out.append(Capture::new(input)?, client(number))
            .with_context(|| file.display().to_string())?;
        number += 1;
        eprintln!(
            "{}: {} MB of {number} captures",
            path.display(),
            out.whole_bytes / 1_000_000
        );
    }
    out.file.flush()?;
    Ok(())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Another client for each capture, so that their flows are others: from 10.1.0.1 on.
fn client(number: usize) -> Ipv4Addr {
    let [_, _, high, low] = (number as u32 / 250 * 256 + number as u32 % 250 + 1).to_be_bytes();
    Ipv4Addr::new(10, 1, high, low)
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

    fn append(&mut self, mut capture: Capture, client: Ipv4Addr) -> Result<()> {
        let begin = self.now + PAUSE;
        let mut first = None;
        while let Some(frame) = capture.frame()? {
            if frame.link != LinkType::ETHERNET {
                bail!("link layer {}, not Ethernet", frame.link);
            }
            let first = *first.get_or_insert(frame.at);
            let at = begin + frame.at.saturating_sub(first);
            self.now = self.now.max(at);
            self.write(at, &frame, client)?;
        }
        Ok(())
    }

    /// The checksums are not mended: the tools do not look at them, since captures of a sending
    /// host have none that are right.
    fn write(&mut self, at: Nanos, frame: &Frame<'_>, client: Ipv4Addr) -> Result<()> {
        self.frame.clear();
        self.frame
            .extend_from_slice(&frame.data[..frame.data.len().min(self.snaplen)]);
        if self.frame.get(12..14) == Some(&[8, 0]) {
            for i in [26, 30] {
                if let Some(address) = self.frame.get_mut(i..i + 4)
                    && address == CLIENT
                {
                    address.copy_from_slice(&client.octets());
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

/// Reads the file once, so that the first that is measured is not the one that waits for the disk.
pub fn warm(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}
