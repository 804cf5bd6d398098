//! Which cgroup this process is in, and where it is mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why no cgroup was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A file below /proc could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// No cgroup2 file system.
    #[error(
        "no cgroup2 file system is mounted here; mount one: mount -t cgroup2 none /sys/fs/cgroup (ip \
        netns exec hides it: enter a namespace by nsenter --net=/run/netns/NAME)"
    )]
    NotMounted,
    /// The process is in no cgroup2.
    #[error("/proc/self/cgroup has no line that begins with 0::, so this process is in no cgroup2")]
    NotIn,
}

/// The folder of the cgroup (version 2) that this process is in.
///
/// # Errors
/// If cgroup2 is not mounted, or the process is in none.
pub fn own_cgroup() -> Result<PathBuf, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::Read {
            path: path.into(),
            source,
        })
    };
    let mount = mount(&read("/proc/self/mounts")?).ok_or(CgroupError::NotMounted)?;
    let cgroups = read("/proc/self/cgroup")?;
    Ok(mount.join(path(&cgroups).ok_or(CgroupError::NotIn)?))
}

/// Where cgroup2 is mounted: alone, or in a hybrid below version 1.
fn mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(unescaped(point)))
    })
}

/// The kernel writes a space in a mount point as `\040`, and so on.
fn unescaped(point: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(point.to_owned(), |point, (from, to)| {
        point.replace(from, to)
    })
}

fn path(cgroups: &str) -> Option<&Path> {
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_alone_and_in_a_hybrid() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        let alone = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(mount(alone), Some("/sys/fs/cgroup".into()));
        assert_eq!(
            mount("cgroup2 /a\\040b cgroup2 rw 0 0\n"),
            Some("/a b".into())
        );
        assert_eq!(mount("proc /proc proc rw 0 0\n\nx\n"), None);
    }

    #[test]
    fn the_own_path_is_the_line_of_version_2() {
        let hybrid = "4:memory:/x\n1:cpu:/\n0::/system.slice/video.service\n";
        assert_eq!(path(hybrid), Some(Path::new("system.slice/video.service")));
        assert_eq!(path("0::/\n"), Some(Path::new("")));
        assert_eq!(path("4:memory:/x\n"), None);
    }
}
