//! Loading and pinning.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::iter;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapHandle, ObjectBuilder, OpenObject, Program};
use nix::mount::{MsFlags, mount};

use super::{KernelError, content, sys};
use crate::maps::layout;

/// The maps that are pinned, and the sizes of their values.
pub(super) const MAPS: &[(&str, usize)] = &[
    ("settings", layout::settings::SIZE_OF),
    ("current", size_of::<u32>()),
    ("test_time", size_of::<u64>()),
    ("strangers", layout::tally::SIZE_OF),
    ("senders", 2 * size_of::<u64>()),
    ("seats4", layout::seats::SIZE_OF),
    ("seats6", layout::seats::SIZE_OF),
    ("seats_link", layout::seats::SIZE_OF),
    ("bindings", layout::binding::SIZE_OF),
    ("ports", size_of::<u32>()),
    ("plans", layout::plan::SIZE_OF),
    ("nodes", layout::node::SIZE_OF),
    ("shapes", layout::shape::SIZE_OF),
    ("rule_sets", layout::rules::SIZE_OF),
    ("pages", size_of::<u32>()),
    ("flow_tables", size_of::<u32>()),
    ("lines", layout::line::SIZE_OF),
];

/// The map of the programs' constants, by the end of its name and by the name of its pin.
const CONSTANTS: (&str, &str) = (".rodata", "constants");

/// With less memory than this, in bytes, the gate has room for fewer prefixes: an empty hash map takes 16 bytes for
/// each entry that it has room for.
const LITTLE: u64 = 4 << 30;
const FEWER: u32 = 4;

/// The memory of this machine, in bytes.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

/// The maps with the room that they have on this machine, which are not made yet. With the clock of a test if `timed`.
pub(super) fn for_this_machine(timed: bool) -> Result<OpenObject, KernelError> {
    let mut object = opened(content::OBJECT, |_| false)?;
    if memory().is_some_and(|memory| memory < LITTLE) {
        let prefixes = |name: &str| name == "seats4" || name == "seats6";
        for mut map in object.maps_mut() {
            if prefixes(&map.name().to_string_lossy()) {
                let fewer = map.max_entries() / FEWER;
                map.set_max_entries(fewer).map_err(refused)?;
            }
        }
    }
    if timed {
        let constants = object
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(CONSTANTS.0));
        // `timed_by_test` is the only constant: with another, the sizes differ and this fails.
        if let Some(mut constants) = constants {
            constants.set_initial_value(&[1]).map_err(refused)?;
        }
    }
    Ok(object)
}

/// Makes the maps, and pins them. Nothing is left if that fails.
pub(super) fn load(pins: &Path, timed: bool) -> Result<(), KernelError> {
    mount_for(pins)?;
    let object = for_this_machine(timed)?;
    let mut object = object.load().map_err(refused)?;
    let pin = |folder: &str| {
        let path = pins.join(folder);
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&path)
            .map_err(|source| KernelError::pin(&path, source))
            .map(|()| path)
    };
    let pinned = (|| {
        pin("")?;
        let maps = pin("new")?;
        for folder in ["programs", "links", "pages"] {
            pin(folder)?;
        }
        for mut map in object.maps_mut() {
            let Some(path) = path_of(pins, &maps, &map.name().to_string_lossy()) else {
                continue;
            };
            map.pin(&path)
                .map_err(|source| KernelError::pin(&path, source))?;
        }
        // With the rename all maps are there at once, or none.
        let path = pins.join("maps");
        fs::rename(maps, &path).map_err(|source| KernelError::pin(&path, source))
    })();
    if pinned.is_err() {
        let _ = unpin(pins);
    }
    pinned
}

/// Where a map is pinned; `None` for maps that are not.
pub(super) fn path_of(pins: &Path, maps: &Path, name: &str) -> Option<PathBuf> {
    match name {
        "page_of_limiters" => Some(page(pins, 0)),
        name if name.ends_with(CONSTANTS.0) => Some(maps.join(CONSTANTS.1)),
        name if MAPS.iter().any(|&(known, _)| known == name) => Some(maps.join(name)),
        _ => None,
    }
}

/// A program, with the maps that are pinned. It is loaded and pinned when it is first used: the kernel takes
/// longer to verify all programs than for anything else that a gate does at its start, and most gates use two.
pub(super) fn program(pins: &Path, name: &str) -> Result<OwnedFd, KernelError> {
    let path = content::pin_of(pins, name);
    if !path.exists() {
        load_program(pins, name, &path)?;
        content::note(pins, name);
    }
    Program::fd_from_pinned_path(&path).map_err(|source| KernelError::pin(&path, source))
}

/// Loads a program with the maps that are pinned, and pins it at this path.
pub(super) fn load_program(pins: &Path, name: &str, path: &Path) -> Result<(), KernelError> {
    let mut object = opened(content::of(name), |program| program == name)?;
    let maps = pins.join("maps");
    for mut map in object.maps_mut() {
        if let Some(path) = path_of(pins, &maps, &map.name().to_string_lossy()) {
            map.reuse_pinned_map(&path)
                .map_err(|source| KernelError::pin(&path, source))?;
        }
    }
    let object = object.load().map_err(|source| match refused(source) {
        KernelError::Load(source) if content::NAT.contains(&name) => KernelError::Nat(source),
        other => other,
    })?;
    for mut program in object.progs_mut().filter(|program| program.name() == name) {
        program
            .pin(path)
            .map_err(|source| KernelError::pin(path, source))?;
    }
    Ok(())
}

/// A compiled object, of which these programs will be loaded.
fn opened(content: &[u8], loads: impl Fn(&str) -> bool) -> Result<OpenObject, KernelError> {
    // Errors are returned as values.
    // DBG libbpf_rs::set_print(None);
    let mut object = ObjectBuilder::default()
        .name("tidegate")
        .and_then(|builder| builder.open_memory(content))
        .map_err(refused)?;
    for mut program in object.progs_mut() {
        let is_loaded = loads(&program.name().to_string_lossy());
        program.set_autoload(is_loaded);
    }
    Ok(object)
}

/// Where a page of limiters is pinned. The map `pages` gives user space only its number, and opening a
/// map by number needs CAP_SYS_ADMIN.
pub(super) fn page(pins: &Path, number: u32) -> PathBuf {
    pins.join("pages").join(number.to_string())
}

/// Where the table of flows is pinned, likewise.
pub(super) fn flows(pins: &Path) -> PathBuf {
    pins.join("pages").join("flows")
}

/// Makes pages of limiters like the first, pinned.
pub(super) fn make_pages(
    pins: &Path,
    first: &MapHandle,
    numbers: Range<usize>,
) -> Result<Vec<MapHandle>, KernelError> {
    let subscribers = (numbers.end * layout::PAGE / 2) as u32;
    let refused = |source: libbpf_rs::Error| match source.kind() {
        libbpf_rs::ErrorKind::OutOfMemory => KernelError::Memory {
            subscribers,
            source,
        },
        _ => KernelError::map("limiters", source),
    };
    let (types, [key, value]) =
        sys::types(&opened(content::OBJECT, |_| false)?).map_err(|error| refused(error.into()))?;
    let info = first.info().map_err(refused)?.info;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        btf_fd: types.as_raw_fd() as u32,
        btf_key_type_id: key,
        btf_value_type_id: value,
        map_flags: info.map_flags,
        ..Default::default()
    };
    let make = |number: usize| {
        let mut map = MapHandle::create(
            first.map_type(),
            Some("limiters"),
            info.key_size,
            info.value_size,
            info.max_entries,
            &options,
        )
        .map_err(refused)?;
        let path = page(pins, number as u32);
        // A process that was killed may have left it.
        let _ = fs::remove_file(&path);
        map.pin(&path)
            .map_err(|source| KernelError::pin(&path, source))?;
        Ok(map)
    };
    let made: Result<Vec<_>, _> = numbers.clone().map(make).collect();
    if made.is_err() {
        // The memory is given back.
        for number in numbers {
            let _ = fs::remove_file(page(pins, number as u32));
        }
    }
    made
}

fn refused(source: libbpf_rs::Error) -> KernelError {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied if !nix::unistd::Uid::effective().is_root() => {
            KernelError::Rights(source.to_string())
        }
        _ => KernelError::Load(source),
    }
}

/// Whether this is in a BPF file system. Pins can be nowhere else.
pub(super) fn is_bpf(path: &Path) -> bool {
    nix::sys::statfs::statfs(path)
        .is_ok_and(|info| info.filesystem_type() == nix::sys::statfs::BPF_FS_MAGIC)
}

/// Whether what this process mounts may end with it: it is in another mount namespace than a process that led
/// to its start. Processes that it may not examine do not count.
fn ends_with_this_process() -> bool {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let parent = |process: &String| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        Some(line.trim().to_owned())
    };
    let present = mounts("thread-self");
    iter::successors(Some("self".to_owned()), parent)
        .filter_map(|process| mounts(&process))
        .any(|mounts| Some(mounts) != present)
}

/// Where the BPF file system is mounted.
const USUAL: &str = "/sys/fs/bpf";

/// Whether the file system of the folder is mounted, as far as this process sees.
fn is_mounted(pins: &Path) -> bool {
    let mut place = pins;
    while !place.exists() {
        let Some(above) = place.parent() else { break };
        place = above;
    }
    is_bpf(place)
}

/// Whether a gate may be pinned in this folder that this process does not see.
pub(super) fn is_hidden(pins: &Path) -> bool {
    pins.starts_with(USUAL) && !is_mounted(pins) && ends_with_this_process()
}

/// Mounts the BPF file system of the folder, if it is not mounted.
fn mount_for(pins: &Path) -> Result<(), KernelError> {
    if is_mounted(pins) {
        return Ok(());
    }
    let usual = Path::new(USUAL);
    if !pins.starts_with(usual) {
        let source = format!(
            "this folder is not in a BPF file system: use a folder in {}",
            usual.display()
        );
        return Err(KernelError::pin(pins, source));
    }
    if ends_with_this_process() {
        return Err(KernelError::Mounts);
    }
    mount(
        Some("bpf"),
        usual,
        Some("bpf"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        Some("mode=0700"),
    )
    .map_err(|source| match source {
        nix::Error::EPERM | nix::Error::EACCES => KernelError::Rights(source.to_string()),
        source => KernelError::pin(usual, source),
    })
}

/// Removes the folder with all that is pinned in it. Tries everything, and returns the first error.
pub(super) fn unpin(pins: &Path) -> Result<(), KernelError> {
    let mut result = Ok(());
    let mut tried = |path: &Path, removed: io::Result<()>| match removed {
        Err(error) if error.kind() != ErrorKind::NotFound && result.is_ok() => {
            result = Err(KernelError::pin(path, error));
        }
        _ => {}
    };
    // Maps are removed first: without them there is no gate.
    for folder in ["maps", "new", "links", "pages", "programs"] {
        let path = pins.join(folder);
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            tried(&entry.path(), fs::remove_file(entry.path()));
        }
        tried(&path, fs::remove_dir(&path));
    }
    match fs::remove_dir(pins) {
        // Files of others stay. The file system itself stays too.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy
            ) => {}
        removed => tried(pins, removed),
    }
    result
}
