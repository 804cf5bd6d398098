//! The files of a sampler: written aside, and named when they are complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use tidegate_trace::read::{LinkType, Nanos};
use tidegate_trace::write::pcapng::{Interface, Marks, PcapngWriter, Section, Statistics};
use zstd::stream::write::Encoder;

use crate::error::SampleError;

/// What the names of complete files end with.
const COMPLETE: &str = ".pcapng.zst";
/// What the names of others end with. They also begin with a dot.
const PART: &str = ".part";
/// The level at which files are compressed: the fastest that finds most of what headers repeat.
const LEVEL: i32 = 3;

/// When a file ends and the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file. It may be larger by what the compression holds back, at most about 128 kB.
    pub size: u64,
    /// Files begin at multiples of this time since 1970, if there are packets.
    pub every: Duration,
}

/// What every file says of its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub host: String,
    pub interface: String,
    pub link: LinkType,
}

/// A folder with the files of one interface of one host.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    stem: String,
    _lock: File,
}

impl Folder {
    /// Takes the folder for this process, and removes what a process that was killed left behind.
    pub fn open(path: &Path, origin: &Origin) -> Result<Self, SampleError> {
        fs::create_dir_all(path).map_err(SampleError::write(path))?;
        let stem = format!("{}-{}", plain(&origin.host), plain(&origin.interface));
        let lock = path.join(format!(".{stem}.lock"));
        let file = File::create(&lock).map_err(SampleError::write(&lock))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SampleError::Busy(path.to_owned()))?;
        let this = Self {
            path: path.to_owned(),
            stem,
            _lock: file,
        };
        for part in this.list(|name| name.starts_with('.') && name.ends_with(PART))? {
            fs::remove_file(&part).map_err(SampleError::write(&part))?;
        }
        Ok(this)
    }

    /// The files of this sampler whose names are wanted, sorted: names hold times.
    fn list(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, SampleError> {
        let entries = fs::read_dir(&self.path).map_err(SampleError::write(&self.path))?;
        let mut files: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let rest = name.trim_start_matches('.').strip_prefix(&self.stem);
                // The time begins with a digit. Interfaces such as eth0 and eth0-1 are apart by that.
                rest.is_some_and(is_time) && wanted(&name)
            })
            .map(|entry| entry.path())
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Begins a file whose first packet was captured at this time.
    fn begin(&self, at: Nanos) -> Result<Part, SampleError> {
        let time = UNIX_EPOCH + Duration::from_nanos(at);
        let time = humantime::format_rfc3339_micros(time).to_string();
        let time: String = time.chars().filter(|c| !matches!(c, '-' | ':')).collect();
        let name = (0..)
            .map(|number| match number {
                0 => format!("{}-{time}", self.stem),
                number => format!("{}-{time}-{number}", self.stem),
            })
            .find(|name| !self.path.join(format!("{name}{COMPLETE}")).exists())
            .unwrap_or_default();
        let aside = self.path.join(format!(".{name}{PART}"));
        let file = File::create(&aside).map_err(SampleError::write(&aside))?;
        Ok(Part {
            file,
            aside: Some(aside),
            complete: self.path.join(format!("{name}{COMPLETE}")),
            bytes: 0,
        })
    }
}

/// Whether this is the rest of a file's name behind host and interface: `-20261123T190500.123456Z…`.
fn is_time(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    bytes.len() > 10
        && bytes[0] == b'-'
        && bytes[1..9].iter().all(u8::is_ascii_digit)
        && bytes[9] == b'T'
}

/// A name without characters that are special in names of files.
fn plain(name: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
        true => c,
        false => '_',
    };
    name.chars().map(plain).collect()
}

/// A file that is not complete. Dropped, it is removed.
#[derive(Debug)]
struct Part {
    file: File,
    /// Its name until it is complete.
    aside: Option<PathBuf>,
    complete: PathBuf,
    bytes: u64,
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Part {
    /// Gives the file its name, when its bytes are on the disk.
    fn complete(mut self) -> io::Result<(PathBuf, u64)> {
        self.file.sync_all()?;
        if let Some(aside) = &self.aside {
            fs::rename(aside, &self.complete)?;
        }
        self.aside = None;
        if let Some(folder) = self.complete.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok((self.complete.clone(), self.bytes))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            let _ = fs::remove_file(aside);
        }
    }
}

/// A capture that is being written.
pub(crate) struct Open {
    capture: PcapngWriter<Encoder<'static, Part>>,
    /// When the next file must begin.
    until: Nanos,
    start: Nanos,
    end: Nanos,
    packets: u64,
}

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Packets in it.
    pub packets: u64,
    /// Packets that are missing in it because the ring was full.
    pub dropped: u64,
}

impl Open {
    /// Begins a file for a packet that was captured at this time.
    pub fn begin(
        folder: &Folder,
        origin: &Origin,
        rotation: Rotation,
        comment: &str,
        at: Nanos,
    ) -> Result<Self, SampleError> {
        let part = folder.begin(at)?;
        let path = part.complete.clone();
        let section = Section {
            system: "Linux",
            program: concat!("tidegate ", env!("CARGO_PKG_VERSION")),
            comment,
        };
        let interface = Interface {
            name: &origin.interface,
            link: origin.link,
            filter: "headers of TCP packets of the flows that are sampled",
        };
        let begin = || {
            let encoder = Encoder::new(part, LEVEL)?;
            PcapngWriter::new(encoder, &section, &interface)
        };
        let every = u64::try_from(rotation.every.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        Ok(Self {
            capture: begin().map_err(SampleError::write(path))?,
            until: (at / every).saturating_add(1).saturating_mul(every),
            start: at,
            end: at,
            packets: 0,
        })
    }

    /// Whether a packet of this time, or nothing until this time, belongs to the next file.
    pub fn is_over(&self, at: Nanos, rotation: Rotation) -> bool {
        at >= self.until || self.capture.get_ref().get_ref().bytes >= rotation.size
    }

    pub fn write(
        &mut self,
        at: Nanos,
        frame: &[u8],
        wire_len: u32,
        marks: Marks,
    ) -> io::Result<()> {
        self.packets += 1;
        self.end = self.end.max(at);
        self.capture.frame(at, frame, wire_len, marks)
    }

    /// Completes the file, with what the kernel counted meanwhile: packets that passed the filter, and lost ones.
    pub fn close(mut self, accepted: u64, dropped: u64) -> Result<Closed, SampleError> {
        let path = self.capture.get_ref().get_ref().complete.clone();
        let counts = Statistics {
            start: self.start,
            end: self.end,
            accepted,
            dropped,
            written: self.packets,
        };
        let packets = self.packets;
        let close = move || {
            self.capture.statistics(&counts)?;
            self.capture.into_inner().finish()?.complete()
        };
        let (path, bytes) = close().map_err(SampleError::write(path))?;
        Ok(Closed {
            path,
            bytes,
            packets,
            dropped,
        })
    }
}

/// The present time.
pub(crate) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
