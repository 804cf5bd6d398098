//! The compiled programs, and which of them are pinned.
//!
//! Beside the pin of each program is a symbolic link that names the content that it is of: the kernel cannot be asked for that.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The maps, and most programs.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.bpf.o"));

/// The programs for interfaces outside of address translation. They need a kernel that knows connections.
static NAT_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nat.bpf.o"));
pub(super) const NAT: [&str; 4] = ["nat_down", "nat_up", "nat_down_ip", "nat_up_ip"];

/// The object that a program is in.
pub(super) fn of(program: &str) -> &'static [u8] {
    match NAT.contains(&program) {
        true => NAT_OBJECT,
        false => OBJECT,
    }
}

/// The digest of that object. If another compiler computes it in another way, programs are replaced by equal ones.
fn digest(program: &str) -> &'static str {
    static DIGESTS: LazyLock<[String; 2]> = LazyLock::new(|| {
        [OBJECT, NAT_OBJECT].map(|content| {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        })
    });
    &DIGESTS[usize::from(NAT.contains(&program))]
}

/// Where a program is pinned.
pub(super) fn pin_of(pins: &Path, program: &str) -> PathBuf {
    pins.join("programs").join(program)
}

/// Where its content is named. The BPF file system allows no dots.
pub(super) fn note_of(pins: &Path, program: &str) -> PathBuf {
    pin_of(pins, &format!("{program}_of"))
}

/// Notes that the pinned program is of this version.
pub(super) fn note(pins: &Path, program: &str) {
    let path = note_of(pins, program);
    let _ = fs::remove_file(&path);
    // Without it, the next process replaces the program by an equal one.
    let _ = symlink(digest(program), path);
}

/// Whether a program is pinned, and not of this version.
pub(super) fn is_outdated(pins: &Path, program: &str) -> bool {
    let noted = fs::read_link(note_of(pins, program)).ok();
    let is_ours = noted.is_some_and(|noted| noted == Path::new(digest(program)));
    !is_ours && pin_of(pins, program).exists()
}
