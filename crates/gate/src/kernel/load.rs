//! Loading and pinning.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapHandle, ObjectBuilder, OpenObject};
use nix::mount::{MsFlags, mount};

use super::{KernelError, layout, sys};

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.bpf.o"));

/// The maps that are pinned, and the sizes of their values.
pub(super) const MAPS: &[(&str, usize)] = &[
    ("settings", layout::settings::SIZE_OF),
    ("current", size_of::<u32>()),
    ("test_time", size_of::<u64>()),
    ("strangers", layout::tally::SIZE_OF),
    ("seats4", layout::seat::SIZE_OF),
    ("seats6", layout::seat::SIZE_OF),
    ("seats_link", layout::seat::SIZE_OF),
    ("plans", layout::plan::SIZE_OF),
    ("shapes", layout::shape::SIZE_OF),
    ("rule_sets", layout::rules::SIZE_OF),
    ("pages", size_of::<u32>()),
];

/// Loads the programs, and pins them and their maps. Nothing is left if that fails.
pub(super) fn load(pins: &Path, timed: bool) -> Result<(), KernelError> {
    mount_for(pins)?;
    let mut object = opened()?;
    if timed {
        let constants = object
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".rodata"));
        // `timed_by_test` is the only constant: with another, the sizes differ and this fails.
        if let Some(mut constants) = constants {
            constants.set_initial_value(&[1]).map_err(refused)?;
        }
    }
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
        let (programs, maps) = (pin("programs")?, pin("new")?);
        pin("links")?;
        pin("pages")?;
        for mut program in object.progs_mut() {
            let path = programs.join(program.name());
            program
                .pin(&path)
                .map_err(|source| KernelError::pin(&path, source))?;
        }
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let path = match name.as_str() {
                "page_of_limiters" => page(pins, 0),
                name if MAPS.iter().any(|&(known, _)| known == name) => maps.join(name),
                _ => continue,
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

fn opened() -> Result<OpenObject, KernelError> {
    // Errors are returned as values.
    libbpf_rs::set_print(None);
    ObjectBuilder::default()
        .name("tidegate")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(refused)
}

/// Where a page of limiters is pinned. The map `pages` gives user space only its number, and opening a
/// map by number needs CAP_SYS_ADMIN.
pub(super) fn page(pins: &Path, number: u32) -> PathBuf {
    pins.join("pages").join(number.to_string())
}

/// Makes pages of limiters like the first, pinned.
pub(super) fn make_pages(
    pins: &Path,
    first: &MapHandle,
    numbers: Range<usize>,
) -> Result<Vec<MapHandle>, KernelError> {
    let refused = |source| KernelError::map("limiters", source);
    let (types, [key, value]) = sys::types(&opened()?).map_err(|error| refused(error.into()))?;
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

/// Mounts the BPF file system of the folder, if it is not mounted.
fn mount_for(pins: &Path) -> Result<(), KernelError> {
    let mut place = pins;
    while !place.exists() {
        let Some(above) = place.parent() else { break };
        place = above;
    }
    if is_bpf(place) {
        return Ok(());
    }
    let usual = Path::new("/sys/fs/bpf");
    if !pins.starts_with(usual) {
        let source = format!(
            "this folder is not in a BPF file system: use a folder in {}",
            usual.display()
        );
        return Err(KernelError::pin(pins, source));
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
