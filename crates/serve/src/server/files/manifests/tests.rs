use std::fmt::Write;
use std::fs;

use super::*;

/// A playlist with this many segments, `NAME_0.ts` and so on.
fn playlist(name: &str, segments: usize) -> String {
    let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n".to_owned();
    for number in 0..segments {
        writeln!(text, "#EXTINF:6.0,\n{name}_{number}.ts").unwrap();
    }
    text
}

/// A film with a playlist for each of these rates, in kbit/s.
fn film(folder: &Path, name: &str, rates: &[u64], segments: usize) {
    let mut master = "#EXTM3U\n".to_owned();
    for rate in rates {
        let part = format!("{name}_{rate}");
        let list = playlist(&part, segments);
        fs::write(folder.join(format!("{part}.m3u8")), list).unwrap();
        let variant = format!("#EXT-X-STREAM-INF:BANDWIDTH={rate}000\n{part}.m3u8");
        writeln!(master, "{variant}").unwrap();
    }
    fs::write(folder.join(format!("{name}.m3u8")), master).unwrap();
}

fn rate(manifests: &Manifests, folder: &Folder, path: &str) -> Option<u64> {
    let found = manifests.find(folder, Path::new(path), 750_000, Wait::ForDisk);
    Some(found.unwrap()?.segment.rate.bits_per_second())
}

#[test]
fn a_folder_may_have_many_long_films() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..30 {
        let rates = [400, 800, 1_200, 2_400, 4_800, 9_600];
        film(root.path(), &format!("film{number:02}"), &rates, 1_200);
    }
    let folder = Folder::open(root.path(), None).unwrap();
    let manifests = Manifests::default();
    for number in 0..30 {
        let path = format!("film{number:02}_9600_1199.ts");
        let found = rate(&manifests, &folder, &path);
        assert_eq!(found, Some(9_600_000), "{path}");
    }
    assert_eq!(manifests.overfull.get(), 0);
}

#[test]
fn a_folder_with_too_many_manifests_is_told_once() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..=MOST_MANIFESTS {
        let name = format!("v{number:04}");
        let file = root.path().join(format!("{name}.m3u8"));
        fs::write(file, playlist(&name, 1)).unwrap();
    }
    let folder = Folder::open(root.path(), None).unwrap();
    let manifests = Manifests::default();
    assert_eq!(rate(&manifests, &folder, "v0999_0.ts"), Some(1_000_000));
    // The last one by name.
    assert_eq!(rate(&manifests, &folder, "v1000_0.ts"), None);
    assert_eq!(manifests.overfull.get(), 1);
}

#[test]
fn a_playlist_is_kept_for_itself_only_where_no_manifest_names_it() {
    let root = tempfile::tempdir().unwrap();
    // The manifest comes last by name.
    film(root.path(), "a", &[500], 10);
    fs::rename(root.path().join("a.m3u8"), root.path().join("z.m3u8")).unwrap();
    let folder = Folder::open(root.path(), None).unwrap();
    let mut shelf = Shelf::default();
    let mut kept = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(root.path().join("z.m3u8"), text).unwrap();
        }
        shelf.checked = None;
        let changed = shelf.update(&folder, Path::new(""));
        let kept = shelf.manifests.iter().filter(|one| one.manifest.is_some());
        let kept: Vec<_> = kept
            .map(|one| one.path.to_str().unwrap().to_owned())
            .collect();
        (kept, changed)
    };
    let only = |path: &str| vec![path.to_owned()];
    assert_eq!(kept(None), (only("z.m3u8"), true));
    // What did not change is not read again.
    assert_eq!(kept(None), (only("z.m3u8"), false));
    let (all, _) = kept(Some("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nb.m3u8\n"));
    assert_eq!(all, ["a_500.m3u8", "z.m3u8"]);
    let again = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=500000\na_500.m3u8\n";
    assert_eq!(kept(Some(again)), (only("z.m3u8"), true));
    assert_eq!(kept(None), (only("z.m3u8"), false));
}

#[test]
fn the_folder_that_was_used_longest_ago_is_forgotten_first() {
    let mut shelves = Shelves::default();
    let paths = ["a", "b", "c"].map(Path::new);
    for path in paths {
        shelves.near(path);
        shelves.weigh(path, MOST_IN_ALL / 3);
    }
    shelves.near(paths[0]);
    shelves.near(Path::new("d"));
    shelves.weigh(Path::new("d"), MOST_IN_ALL / 3);
    let has = |shelves: &Shelves, name: &str| shelves.near.contains_key(Path::new(name));
    let left = ["a", "b", "c", "d"].map(|name| has(&shelves, name));
    assert_eq!(left, [true, false, true, true]);
    // Those that need nothing are forgotten when there are too many.
    for number in 0..MOST_FOLDERS {
        shelves.near(paths[0]);
        shelves.near(&Path::new("more").join(number.to_string()));
    }
    assert_eq!(shelves.near.len(), MOST_FOLDERS);
    assert!(has(&shelves, "a") && !has(&shelves, "c") && !has(&shelves, "d"));
}
