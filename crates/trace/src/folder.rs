//! Folders of captures: which of their files are taken for captures.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A folder that could not be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its path.
    pub folder: PathBuf,
    /// Why not.
    pub error: io::Error,
}

/// The captures in a folder and the folders in it, by name. Links to folders are not followed, since they can form loops.
pub fn captures_in(folder: &Path) -> Vec<Result<PathBuf, Unreadable>> {
    let mut found = Vec::new();
    search(folder, &mut found);
    found
}

fn search(folder: &Path, found: &mut Vec<Result<PathBuf, Unreadable>>) {
    let list = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let mut entries = match list {
        Ok(entries) => entries,
        Err(error) => {
            let folder = folder.to_owned();
            return found.push(Err(Unreadable { folder, error }));
        }
    };
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&path, found);
        } else if is_capture(&path) {
            found.push(Ok(path));
        }
    }
}

/// Whether a file that nobody named is taken for a capture.
pub fn is_capture(path: &Path) -> bool {
    path.is_file() && (has_capture_name(path) || begins_like_a_capture(path))
}

/// Whether a file is named like a capture. tcpdump -C and -W append digits to `.pcap`.
pub fn has_capture_name(path: &Path) -> bool {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    let name = [".gz", ".xz", ".zst"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = name.strip_suffix('.').unwrap_or(name);
    [".pcap", ".pcapng", ".cap", ".dmp"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Whether an uncompressed file begins like a capture.
fn begins_like_a_capture(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok()
        && [0xa1b2_c3d4u32, 0xa1b2_3c4d, 0xa1b2_cd34, 0x0a0d_0d0a]
            .into_iter()
            .any(|known| magic == known.to_le_bytes() || magic == known.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_by_name() {
        for name in [
            "a.pcap",
            "a.PCAPNG.zst",
            "a.pcap12",
            "a.pcap.3.gz",
            "b.cap",
            "x.dmp.xz",
        ] {
            assert!(has_capture_name(Path::new(name)), "{name}");
        }
        for name in ["truth.csv", "pcap", "a.gz", "a.pcap.txt", "notes.capital"] {
            assert!(!has_capture_name(Path::new(name)), "{name}");
        }
    }
}
