//! Adaptive video: the start-up phase belongs to a viewer, whatever connections and files it uses.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Running, log_to, start_with};
use crate::server::LogFormat;
use crate::server::disk::Wait;
use tidegate_pace::Way;

/// Bytes of a segment: 4 s of 200 kbit/s.
const SEGMENT: usize = 100_000;

/// An HLS folder and a DASH folder with 20 segments each of two representations.
fn shows(root: &Path) {
    let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:0\n".to_owned();
    for number in 0..20 {
        list += &format!("#EXTINF:4.0,\n{number}.ts\n");
    }
    let all = "#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=200000
low/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=400000
high/list.m3u8
";
    let description = r#"<MPD><Period><AdaptationSet>
<SegmentTemplate timescale="1" duration="4" startNumber="0" media="$RepresentationID$/$Number$.ts"/>
<Representation id="low" bandwidth="200000"/><Representation id="high" bandwidth="400000"/>
</AdaptationSet></Period></MPD>"#;
    for (show, name, text) in [("hls", "all.m3u8", all), ("dash", "all.mpd", description)] {
        for rate in ["low", "high"] {
            let folder = root.join(show).join(rate);
            fs::create_dir_all(&folder).unwrap();
            if show == "hls" {
                fs::write(folder.join("list.m3u8"), &list).unwrap();
            }
            for number in 0..20 {
                fs::write(folder.join(format!("{number}.ts")), [0; SEGMENT]).unwrap();
            }
        }
        fs::write(root.join(show).join(name), text).unwrap();
    }
}

/// Start-up of 6 s, and then 100 times the next representation's rate, so that the test is quick.
async fn server() -> Running {
    let change = |config: &mut crate::server::Config| {
        shows(&config.folder);
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::from_secs(6);
        config.throttle_percent = 10_000;
        config.session = "query:viewer".parse().ok();
    };
    start_with(change, log_to("log", LogFormat::Json)).await
}

/// Fetches each target on its own connection. Returns how many bytes of each were sent in the throttling phase.
async fn throttled(targets: &[String], lines: &[&str]) -> Vec<usize> {
    let mut server = server().await;
    for target in targets {
        let (status, _, body) = server.ask("GET", target, lines).await;
        assert_eq!((status, body.len()), (200, SEGMENT), "{target}");
    }
    let throttled = logged(&mut server).await;
    assert_eq!(throttled.len(), targets.len());
    throttled
}

/// How many bytes of each connection were sent in the throttling phase.
async fn logged(server: &mut Running) -> Vec<usize> {
    server.stop().await;
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let field = |line: &str, name: &str| -> Option<usize> {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse().ok()
    };
    let mut connections: Vec<_> = log
        .lines()
        .filter(|line| line.contains("\"event\":\"connection\""))
        .map(|line| (field(line, "connection"), field(line, "throttled_bytes")))
        .collect();
    connections.sort_unstable();
    let bytes = connections.into_iter().map(|(_, bytes)| bytes.unwrap_or(0));
    bytes.collect()
}

#[tokio::test]
async fn the_start_up_goes_on_over_connections_and_files() {
    for show in ["hls", "dash"] {
        let segment = |name: &str| format!("/{show}/{name}.ts?viewer=1");
        let targets = ["low/0", "low/1", "low/2", "high/3", "high/19", "low/0"].map(segment);
        let throttled = throttled(&targets, &[]).await;
        // 6 s at full speed are one segment and a half.
        assert_eq!(throttled[0], 0, "{show} {throttled:?}");
        // What is sent in one block with the end of the start-up is counted with neither.
        assert!(
            (32_000..=50_000).contains(&throttled[1]),
            "{show} {throttled:?}"
        );
        assert_eq!(throttled[2..4], [SEGMENT; 2], "{show}");
        // The viewer jumps forward, and back.
        assert_eq!(throttled[4..], [0; 2], "{show}");
    }
}

/// A player that changes to another rendition fetches the headers and the index of its file, and then goes on where it was.
#[tokio::test]
async fn headers_of_another_rendition_are_no_jump() {
    let mut server = server().await;
    let folder = server.folder.path().join("files");
    fs::create_dir(&folder).unwrap();
    let representation = |id: &str, rate: u32| {
        fs::write(folder.join(format!("{id}.mp4")), vec![0; 2_000_000]).unwrap();
        format!(
            r#"<Representation id="{id}" bandwidth="{rate}"><BaseURL>{id}.mp4</BaseURL><SegmentBase indexRange="700-1999">
<Initialization range="0-699"/></SegmentBase></Representation>"#
        )
    };
    let (low, high) = (
        representation("low", 200_000),
        representation("high", 210_000),
    );
    let text = format!("<MPD><Period><AdaptationSet>{low}{high}</AdaptationSet></Period></MPD>");
    fs::write(folder.join("all.mpd"), text).unwrap();
    // 40 s into the video, where more than the start-up is fetched.
    for (name, range) in [
        ("low", "0-699"),
        ("low", "700-1999"),
        ("low", "1000000-1199999"),
        ("high", "0-699"),
        ("high", "700-1999"),
        ("high", "1260000-1359999"),
    ] {
        let target = format!("/files/{name}.mp4?viewer=1");
        let range = format!("Range: bytes={range}");
        let (status, ..) = server.ask("GET", &target, &[&range]).await;
        assert_eq!(status, 206, "{range}");
    }
    let throttled = logged(&mut server).await;
    assert!(throttled[2] > 0, "{throttled:?}");
    assert_eq!(throttled[5], 100_000, "{throttled:?}");
}

#[tokio::test]
async fn viewers_are_told_apart() {
    let targets = [
        "/hls/low/0.ts?viewer=1",
        "/hls/low/1.ts?viewer=2",
        "/hls/low/1.ts?CMCD=sid%3D%22a%22",
        "/hls/low/2.ts?CMCD=sid%3D%22a%22",
        "/hls/low/3.ts?CMCD=sid%3D%22a%22",
        "/hls/low/4.ts?CMCD=sid%3D%22a%22%2Csu",
    ];
    let throttled = throttled(&targets.map(str::to_owned), &[]).await;
    assert_eq!(throttled[..3], [0; 3]);
    assert!(throttled[3] > 0, "{throttled:?}");
    assert_eq!(throttled[4], SEGMENT);
    // It waits.
    assert_eq!(throttled[5], 0);
}

#[tokio::test]
async fn players_tell_the_rate_where_no_manifest_does() {
    let mut server = server().await;
    fs::remove_file(server.folder.path().join("hls/all.m3u8")).unwrap();
    for rate in ["low", "high"] {
        fs::remove_file(server.folder.path().join(format!("hls/{rate}/list.m3u8"))).unwrap();
    }
    let pace = |target: &str| {
        use crate::server::pace::Pace;
        let folder = crate::server::files::Folder::open(server.folder.path(), None).unwrap();
        let found = folder
            .find(Path::new("hls/low/0.ts"), false, Wait::ForDisk)
            .unwrap();
        let crate::server::files::Target::File(found) = found else {
            panic!("no file");
        };
        let config = crate::server::Config::new("".into());
        let viewers = crate::server::viewers::Viewers::new(config.start_up);
        let asked = (&target.parse().unwrap(), &Default::default());
        let address = server.address.ip();
        match Pace::of(&found, &viewers, &config, address, asked) {
            Pace::Segment(pace) => Some((
                pace.rate.bits_per_second() / 1000,
                pace.throttled.bits_per_second() / 1000,
            )),
            _ => None,
        }
    };
    for (said, expected) in [
        ("br%3D800%2Ctb%3D2000%2Cot%3Dv", Some((800, 4_000))),
        ("br%3D2000%2Ctb%3D2000%2Cot%3Dv", Some((2_000, 2_500))),
        // A player that asks for less would never learn that the network carries more.
        (
            "br%3D800%2Ctb%3D2000%2Cot%3Dv%2Crtp%3D900",
            Some((800, 4_000)),
        ),
        // No best rate, no media, and a rate that cannot be.
        ("br%3D800%2Cot%3Dv", None),
        ("br%3D800%2Ctb%3D2000%2Cot%3Dm", None),
        ("br%3D0%2Ctb%3D2000%2Cot%3Dv", None),
    ] {
        assert_eq!(pace(&format!("/hls/low/0.ts?CMCD={said}")), expected);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_manifest_that_changes_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    shows(folder.path());
    let served = crate::server::files::Folder::open(folder.path(), None).unwrap();
    let rate = |path: &str| match served.find(Path::new(path), false, Wait::ForDisk) {
        Ok(crate::server::files::Target::File(found)) => {
            let known = found.segment.map(|known| known.segment);
            known.map(|one| (one.rate.bits_per_second(), one.next.bits_per_second()))
        }
        other => panic!("{other:?}"),
    };
    for show in ["hls", "dash"] {
        assert_eq!(rate(&format!("{show}/low/1.ts")), Some((200_000, 400_000)));
        assert_eq!(rate(&format!("{show}/high/1.ts")), Some((400_000, 400_000)));
    }
    assert_eq!(rate("hls/low/list.m3u8"), None);
    fs::write(folder.path().join("hls/low/1.ts.rate"), "1mbit").unwrap();
    assert_eq!(rate("hls/low/1.ts"), Some((1_000_000, 1_000_000)));
    // A playlist without this segment, and a manifest that is no longer one.
    fs::write(folder.path().join("hls/low/list.m3u8"), "#EXTM3U\n").unwrap();
    fs::write(folder.path().join("dash/all.mpd"), "<MPD>").unwrap();
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(rate("hls/low/2.ts"), None);
    assert_eq!(rate("hls/high/2.ts"), Some((400_000, 400_000)));
    assert_eq!(rate("dash/low/1.ts"), None);
}
