use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::{Folder, NoFile, Target, path_of};
use crate::media::make::{self, Layout};
use crate::server::disk::Wait;

#[test]
fn paths_stay_inside() {
    assert_eq!(path_of("/a/b.mp4"), Ok("a/b.mp4".into()));
    assert_eq!(path_of("//a//b.mp4"), Ok("a/b.mp4".into()));
    assert_eq!(path_of("/a%20b%2Emp4"), Ok("a b.mp4".into()));
    assert_eq!(path_of("/"), Ok("".into()));
    for bad in ["", "a", "*", "/%", "/%2", "/%zz", "/a%2fb", "/a%00"] {
        assert_eq!(path_of(bad), Err(NoFile::Bad), "{bad}");
    }
    for missing in [
        "/..",
        "/a/../../b",
        "/%2e%2e/b",
        "/.",
        "/.hidden",
        "/a/.ssh/key",
    ] {
        assert_eq!(path_of(missing), Err(NoFile::NotFound), "{missing}");
    }
}

fn rate(folder: &Folder, path: &str) -> Option<u64> {
    match folder.find(Path::new(path), false, Wait::ForDisk) {
        Ok(Target::File(found)) => found.rate.map(|rate| rate.bits_per_second()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn links_stay_inside() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "x").unwrap();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "x").unwrap();
    fs::create_dir(root.path().join("sub")).unwrap();
    symlink("../a", root.path().join("sub/good")).unwrap();
    symlink(outside.path().join("secret"), root.path().join("far")).unwrap();
    symlink(outside.path(), root.path().join("folder")).unwrap();
    symlink("../../../../../../etc/passwd", root.path().join("up")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    let folder = Folder::open(root.path(), None).unwrap();
    assert!(matches!(
        folder.find(Path::new("sub/good"), false, Wait::ForDisk),
        Ok(Target::File(_))
    ));
    for path in [
        "far",
        "folder/secret",
        "up",
        "loop",
        "none",
        "sub",
        "",
        "a/b",
    ] {
        let found = folder.find(Path::new(path), false, Wait::ForDisk);
        assert!(matches!(found, Err(NoFile::NotFound)), "{path}: {found:?}");
    }
    let Ok(Target::Folder(names, 0)) = folder.find(Path::new(""), true, Wait::ForDisk) else {
        panic!("no list");
    };
    assert_eq!(names, ["a", "far", "folder", "loop", "sub/", "up"]);
}

/// Of more names than are listed these are the first ones, however the disk keeps them.
#[test]
fn long_lists_are_cut_in_order() {
    let root = tempfile::tempdir().unwrap();
    for number in (0..10_002).rev() {
        fs::write(root.path().join(format!("{number:05}")), "").unwrap();
    }
    let folder = Folder::open(root.path(), None).unwrap();
    let Ok(Target::Folder(names, more)) = folder.find(Path::new(""), true, Wait::ForDisk) else {
        panic!("no list");
    };
    assert_eq!((names.len(), more), (10_000, 2));
    assert_eq!((&*names[0], &*names[9_999]), ("00000", "09999"));
}

#[test]
fn pipes_are_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join("pipe"), mode).unwrap();
    let folder = Folder::open(root.path(), None).unwrap();
    assert!(matches!(
        folder.find(Path::new("pipe"), false, Wait::ForDisk),
        Err(NoFile::NotFound)
    ));
}

#[test]
fn where_the_rate_comes_from() {
    let root = tempfile::tempdir().unwrap();
    let video = root.path().join("v.mp4");
    make::video(&video, Layout::Mp4, Duration::from_secs(10), 1_000_000).unwrap();
    fs::write(root.path().join("raw.bin"), [0; 5000]).unwrap();
    let folder = Folder::open(root.path(), None).unwrap();
    assert_eq!(rate(&folder, "v.mp4"), Some(800_000));
    assert_eq!(rate(&folder, "raw.bin"), None);
    let folder = Folder::open(root.path(), Some("2mbit".parse().unwrap())).unwrap();
    assert_eq!(rate(&folder, "v.mp4"), Some(800_000));
    assert_eq!(rate(&folder, "raw.bin"), Some(2_000_000));
    fs::write(root.path().join("v.mp4.rate"), "1.5mbit\n").unwrap();
    assert_eq!(rate(&folder, "v.mp4"), Some(1_500_000));
    assert!(!folder.malformed.has("v.mp4.rate"));
    fs::write(root.path().join("v.mp4.rate"), "1500000").unwrap();
    assert_eq!(rate(&folder, "v.mp4"), Some(800_000));
    assert!(folder.malformed.has("v.mp4.rate"));
    // A changed file is looked at again.
    make::video(&video, Layout::WebM, Duration::from_secs(20), 1_000_000).unwrap();
    assert_eq!(rate(&folder, "v.mp4"), Some(400_000));
}

#[test]
fn dates_that_http_cannot_write_are_cut() {
    for (seconds, date) in [
        (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        let identity = super::Identity {
            device: 0,
            inode: 0,
            length: 0,
            modified: (seconds, 0),
        };
        let modified = identity.validators().modified;
        assert_eq!(httpdate::fmt_http_date(modified), date);
    }
}

/// What was found once, and did not change, is found without the disk, and alike.
#[test]
fn files_in_memory_need_no_thread() {
    let root = tempfile::tempdir().unwrap();
    let video = root.path().join("v.mp4");
    make::video(&video, Layout::Mp4, Duration::from_secs(10), 1_000_000).unwrap();
    let folder = Folder::open(root.path(), None).unwrap();
    let find = |wait| match folder.find(Path::new("v.mp4"), false, wait) {
        Ok(Target::File(found)) => Ok((found.length, found.rate)),
        Ok(other) => panic!("{other:?}"),
        Err(missing) => Err(missing),
    };
    // Its headers were not read yet.
    assert_eq!(find(Wait::Never), Err(NoFile::NotInMemory));
    let found = find(Wait::ForDisk);
    assert!(found.is_ok());
    // Some file systems cannot open files without waiting.
    let again = find(Wait::Never);
    assert!(
        again == found || again == Err(NoFile::NotInMemory),
        "{again:?}"
    );
    fs::write(root.path().join("v.mp4.rate"), "3mbit").unwrap();
    let changed = find(Wait::ForDisk).unwrap();
    assert_eq!(
        changed.1.map(|rate| rate.bits_per_second()),
        Some(3_000_000)
    );
    let again = find(Wait::Never);
    assert!(
        again == Ok(changed) || again == Err(NoFile::NotInMemory),
        "{again:?}"
    );
    // After a second the manifests are compared again.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(find(Wait::Never), Err(NoFile::NotInMemory));
}
