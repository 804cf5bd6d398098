//! Manifests as encoders write them, and what they name.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

mod wild;

const MASTER: &str = "#EXTM3U
#EXT-X-VERSION:7
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"English\",DEFAULT=YES,URI=\"sound/list.m3u8\"
#EXT-X-STREAM-INF:BANDWIDTH=4000000,RESOLUTION=1280x720,AUDIO=\"sound\"
720p/list.m3u8?token=1
#EXT-X-STREAM-INF:BANDWIDTH=1500000,RESOLUTION=640x360,AUDIO=\"sound\"
360p/list.m3u8
#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=200000,URI=\"frames.m3u8\"
";

const LIST: &str = "#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:4
#EXT-X-MEDIA-SEQUENCE:10
#EXT-X-MAP:URI=\"first.mp4\"
#EXTINF:4.0,
a%20b.m4s
#EXTINF:2.0,
../other/c.m4s
#EXT-X-ENDLIST
";

fn hls() -> Manifest {
    Manifest::read("show/all.m3u8", MASTER.as_bytes(), |_| Some(LIST.into())).unwrap()
}

fn mbit(rate: f64) -> Rate {
    Rate::from_bits_per_second((rate * 1e6) as u64)
}

#[test]
fn segments_of_hls_have_their_variants_rate_and_place() {
    let manifest = hls();
    let segment = manifest.find("show/360p/a b.m4s", 1).unwrap();
    assert_eq!((segment.rate, segment.next), (mbit(1.5), mbit(4.0)));
    assert_eq!(segment.place, Some(Place::At(Duration::from_secs(40))));
    let best = manifest.find("show/720p/a b.m4s", 1).unwrap();
    assert_eq!((best.rate, best.next), (mbit(4.0), mbit(4.0)));
    assert_eq!(best.track, segment.track);
    let second = manifest.find("show/other/c.m4s", 1).unwrap();
    assert_eq!(second.place, Some(Place::At(Duration::from_secs(44))));
    let first = manifest.find("show/720p/first.mp4", 1).unwrap();
    assert_eq!((first.rate, first.place), (mbit(4.0), None));
    assert_eq!(manifest.find("show/720p/d.m4s", 1), None);
}

#[test]
fn a_segment_without_a_stated_rate_has_that_of_its_length() {
    let sound = hls().find("show/sound/a b.m4s", 64_000).unwrap();
    assert_eq!(
        (sound.rate, sound.next, sound.track),
        (mbit(0.128), mbit(0.128), 1)
    );
    let alone = Manifest::read("list.m3u8", LIST.as_bytes(), |_| None).unwrap();
    let segment = alone.find("a b.m4s", 500_000).unwrap();
    assert_eq!((segment.rate, segment.stated), (mbit(1.0), false));
}

#[test]
fn segments_of_dash_are_named_by_patterns() {
    let text = r#"<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static">
  <Period>
    <AdaptationSet contentType="video">
      <SegmentTemplate timescale="1000" duration="4000" startNumber="1"
        initialization="$RepresentationID$/first.mp4" media="$RepresentationID$/$Number%05d$.m4s"/>
      <Representation id="low" bandwidth="1500000"/>
      <Representation id="high" bandwidth="4000000"><BaseURL>best/</BaseURL></Representation>
    </AdaptationSet>
    <AdaptationSet contentType="audio">
      <Representation id="sound" bandwidth="128000">
        <SegmentTemplate timescale="48000" media="sound-$Time$.m4s">
          <SegmentTimeline><S t="0" d="96000" r="9"/></SegmentTimeline>
        </SegmentTemplate>
      </Representation>
    </AdaptationSet>
    <AdaptationSet>
      <Representation id="whole" bandwidth="64000"><BaseURL>whole.mp4</BaseURL></Representation>
    </AdaptationSet>
    <AdaptationSet>
      <Representation id="far" bandwidth="64000"><BaseURL>https://elsewhere/far.mp4</BaseURL></Representation>
      <Representation id="list" bandwidth="70000">
        <SegmentList timescale="1" duration="5"><SegmentURL media="l0.m4s"/><SegmentURL media="l1.m4s"/></SegmentList>
      </Representation>
    </AdaptationSet>
  </Period>
</MPD>"#;
    let manifest = Manifest::read("show/all.mpd", text.as_bytes(), |_| None).unwrap();
    let find = |path| manifest.find(path, 1);
    let low = find("show/low/00003.m4s").unwrap();
    assert_eq!((low.rate, low.next, low.track), (mbit(1.5), mbit(4.0), 0));
    assert_eq!(low.place, Some(Place::At(Duration::from_secs(12))));
    assert_eq!(find("show/best/high/7.m4s").unwrap().rate, mbit(4.0));
    assert_eq!(find("show/low/first.mp4").unwrap().place, None);
    let sound = find("show/sound-192000.m4s").unwrap();
    assert_eq!((sound.rate, sound.track), (mbit(0.128), 1));
    assert_eq!(sound.place, Some(Place::At(Duration::from_secs(4))));
    assert_eq!(
        find("show/whole.mp4").unwrap().place,
        Some(Place::ByOffset { head: 0 })
    );
    let listed = find("show/l1.m4s").unwrap();
    // Number 2, as in a pattern.
    assert_eq!(listed.place, Some(Place::At(Duration::from_secs(10))));
    for none in ["show/low/x.m4s", "show/low/3.mp4", "far.mp4", "low/3.m4s"] {
        assert_eq!(find(none), None, "{none}");
    }
}

#[test]
fn references_lead_to_paths_in_the_folder() {
    for (base, reference, path) in [
        ("a/b.mpd", "c.m4s", Some("a/c.m4s")),
        ("a/b.mpd", "/c.m4s?x=../y", Some("c.m4s")),
        ("a/b.mpd", "../c/./d//e%2fx", Some("c/d/e/x")),
        ("a/b/", "c/", Some("a/b/c/")),
        ("b.mpd", "../c", None),
        ("b.mpd", "http://other/c", None),
        ("b.mpd", "//other/c", None),
        ("b.mpd", "c%zz", None),
    ] {
        let found = uri::resolve(base, reference);
        assert_eq!(found.as_deref(), path, "{base} {reference}");
    }
}

#[test]
fn players_tell_what_they_are_doing() {
    let uri =
        "/a.m4s?x=1&CMCD=br%3D3200%2Cbs%2Csid%3D%22a%2Cb%22%2Crtp%3D9000%2Cot%3Dv%2Ctb%3D6000"
            .parse();
    let said = Cmcd::of(&uri.unwrap(), &HeaderMap::new());
    let expected = Cmcd {
        session: Some("a,b".to_owned()),
        rate: Some(3_200_000),
        best: Some(6_000_000),
        kind: Some("v".to_owned()),
        waits: true,
    };
    assert_eq!(said, expected);
    let mut headers = HeaderMap::new();
    let mut say = |name, value| headers.insert(name, HeaderValue::from_static(value));
    say("cmcd-session", "sid=\"a,b\",v=1");
    say("cmcd-object", "br=3200,d=4004,ot=v,tb=6000");
    say("cmcd-request", "rtp=9000,su");
    assert_eq!(Cmcd::of(&"/a.m4s".parse().unwrap(), &headers), expected);
    // What makes no sense is passed over.
    headers.insert("cmcd-object", HeaderValue::from_static("br=-1,\"\",=,sid"));
    let said = Cmcd::of(&"/a.m4s?CMCD=%".parse().unwrap(), &headers);
    assert_eq!((said.rate, said.session), (None, expected.session));
}

/// Short texts must not become long lists.
#[test]
fn no_manifest_needs_much_memory() {
    let long = "x".repeat(4_000);
    let segments = "<SegmentURL media=\"a\"/>".repeat(50_000);
    let sets = "<Representation bandwidth=\"9000\"></Representation>".repeat(900);
    for text in [
        format!(
            "<AdaptationSet><BaseURL>{long}/</BaseURL><SegmentList duration=\"{}\">{segments}</SegmentList>{sets}</AdaptationSet>",
            u64::MAX
        ),
        format!("<AdaptationSet><SegmentTemplate media=\"{long}$Number$\"/>{sets}</AdaptationSet>"),
        "<Period>".repeat(100_000),
    ] {
        let length = "<MPD mediaPresentationDuration=\"P999999D\">";
        let played = Programme::read("a.mpd", format!("{length}{text}</MPD>").as_bytes(), |_| {
            None
        });
        let all = played.into_iter().flat_map(|played| played.tracks);
        let renditions = all.flat_map(|track| track.renditions);
        let parts = renditions.flat_map(|rendition| rendition.parts);
        assert!(parts.map(|part| part.address.path.len()).sum::<usize>() < 2 * MOST_BYTES);
        let read = Manifest::read("a.mpd", text.as_bytes(), |_| None);
        let weight = read.map_or(0, |manifest| manifest.weight());
        assert!(weight < 2 * MOST_BYTES, "{weight}");
    }
}

proptest! {
    #[test]
    fn no_manifest_is_too_much(text in "(#EXT[-A-Z:=0-9.,\"]{0,40}\n|[ -~]{0,30}\n|</?(MPD|Period|AdaptationSet|Representation|BaseURL|S)( [a-z]+=\"[0-9$A-Za-z]{0,8}\")?/?>){0,20}") {
        for path in ["a/b.mpd", "a/b.m3u8"] {
            if let Some(manifest) = Manifest::read(path, text.as_bytes(), |_| Some(text.clone().into())) {
                let _ = manifest.find("a/b", 1);
            }
            let _ = Programme::playlists(path, text.as_bytes());
            let _ = Programme::read(path, text.as_bytes(), |_| Some(text.clone().into()));
        }
    }
}

/// The paths of a track's segments by rendition, with the rate.
fn fetched(track: &Track) -> Vec<(u64, Vec<&str>)> {
    let renditions = track.renditions.iter();
    renditions
        .map(|one| {
            (
                one.rate,
                one.parts.iter().map(|part| &*part.address.path).collect(),
            )
        })
        .collect()
}

#[test]
fn players_read_playlists_of_hls() {
    let path = "show/all.m3u8";
    let at = |path: &str, query: Option<&str>| Address {
        path: path.to_owned(),
        query: query.map(str::to_owned),
    };
    let lists = [
        at("show/720p/list.m3u8", Some("token=1")),
        at("show/360p/list.m3u8", None),
        at("show/sound/list.m3u8", None),
    ];
    assert_eq!(Programme::playlists(path, MASTER.as_bytes()), lists);
    let read = |list: &str| {
        let list = list.to_owned();
        Programme::read(path, MASTER.as_bytes(), move |_| Some(list.clone().into()))
    };
    let all = read(LIST).unwrap();
    let others = "show/other/c.m4s";
    let [video, sound] = &all.tracks[..] else {
        panic!("{all:?}");
    };
    let (low, high) = ("show/360p/a b.m4s", "show/720p/a b.m4s");
    let expected = [
        (1_500_000, vec![low, others]),
        (4_000_000, vec![high, others]),
    ];
    assert_eq!(fetched(video), expected);
    assert_eq!(fetched(sound)[0].1.len(), 2);
    let first = video.renditions[0].first.as_ref().unwrap();
    assert_eq!(first.address.path, "show/360p/first.mp4");
    assert_eq!(video.renditions[0].parts[1].plays, Duration::from_secs(2));
    // Without an end it is a live stream.
    let live = LIST.replace("#EXT-X-ENDLIST", "");
    assert_eq!(read(&live), Err(ProgrammeError::Live));
    let elsewhere = LIST.replace("a%20b", "https://other.example/a");
    assert_eq!(read(&elsewhere), Err(ProgrammeError::Elsewhere));
    assert_eq!(
        Programme::read(path, b"no", |_| None),
        Err(ProgrammeError::Unreadable)
    );
}

#[test]
fn durations_that_cannot_be_are_refused() {
    let length = "#EXTINF:10000000000000000000,\n";
    let list =
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{length}a.ts\n{length}b.ts\n#EXT-X-ENDLIST\n");
    let read = |list: &str| Programme::read("v.m3u8", list.as_bytes(), |_| None);
    assert_eq!(read(&list), Err(ProgrammeError::Duration));
    let with = |seconds: &str| read(&list.replace("10000000000000000000", seconds));
    assert_eq!(with("86401"), Err(ProgrammeError::Duration));
    assert!(with("86400").is_ok());
    let text = r#"<MPD><Period><AdaptationSet><SegmentList duration="18446744073709551615"><SegmentURL media="a"/></SegmentList>
<Representation bandwidth="1"/></AdaptationSet></Period></MPD>"#;
    let read = Programme::read("v.mpd", text.as_bytes(), |_| None);
    assert_eq!(read, Err(ProgrammeError::Duration));
}

#[test]
fn players_follow_absolute_urls_to_the_same_server() {
    let url: Uri = "http://host.example/show/all.m3u8".parse().unwrap();
    let source = Source {
        url: Some(&url),
        path: "show/all.m3u8",
    };
    for (reference, path, query) in [
        (
            "http://host.example/a%20b/c.ts?x=1",
            "a b/c.ts",
            Some("x=1"),
        ),
        ("http://HOST.example:80/c.ts", "c.ts", None),
        ("//host.example/c.ts", "c.ts", None),
        ("c.ts", "show/c.ts", None),
    ] {
        let found = source.address(reference).unwrap();
        assert_eq!((&*found.path, found.query.as_deref()), (path, query));
    }
    for other in [
        "https://host.example/c.ts",
        "http://host.example:8080/c.ts",
        "http://other.example/c.ts",
        "//other.example/c.ts",
    ] {
        assert_eq!(source.address(other), None, "{other}");
    }
    let list = "#EXTM3U\n#EXTINF:4,\nhttp://host.example/s/0.ts\n#EXT-X-ENDLIST\n";
    let all = Programme::read(source, list.as_bytes(), |_| None).unwrap();
    assert_eq!(fetched(&all.tracks[0])[0].1, ["s/0.ts"]);
    let text = r#"<MPD><Period><BaseURL>http://host.example/s/</BaseURL><AdaptationSet><SegmentList duration="1"><SegmentURL media="0.ts"/>
</SegmentList><Representation bandwidth="1"/></AdaptationSet></Period></MPD>"#;
    let source = Source {
        path: "show/all.mpd",
        ..source
    };
    let all = Programme::read(source, text.as_bytes(), |_| None).unwrap();
    assert_eq!(fetched(&all.tracks[0])[0].1, ["s/0.ts"]);
}

#[test]
fn names_of_manifests_may_have_capital_letters() {
    assert!(Manifest::is_named("A.M3U8") && Manifest::is_named("a.Mpd"));
    let manifest = Manifest::read("LIST.M3U8", LIST.as_bytes(), |_| None).unwrap();
    assert!(manifest.find("a b.m4s", 500_000).is_some());
}

#[test]
fn ranges_of_hls_follow_one_another() {
    let list = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n#EXT-X-BYTERANGE:100@50\nv.ts
#EXTINF:4,\n#EXT-X-BYTERANGE:70\nv.ts\n#EXT-X-ENDLIST\n";
    let all = Programme::read("v.m3u8", list.as_bytes(), |_| None).unwrap();
    let ranges: Vec<_> = all.tracks[0].renditions[0]
        .parts
        .iter()
        .map(|part| part.range)
        .collect();
    assert_eq!(ranges, [Some((50, 100)), Some((150, 70))]);
}

#[test]
fn players_read_presentations_of_dash() {
    let with = |attributes: &str, template: &str| {
        format!(
            r#"<MPD {attributes}><Period><AdaptationSet contentType="video">{template}
<Representation id="b" bandwidth="2000000"/><Representation id="a" bandwidth="1000000"/></AdaptationSet>
<AdaptationSet mimeType="audio/mp4"><SegmentList duration="4"><SegmentURL media="s0.m4s"/><SegmentURL media="s1.m4s"/></SegmentList>
<Representation id="s" bandwidth="64000"/></AdaptationSet>
<AdaptationSet mimeType="audio/mp4"><SegmentList duration="4"><SegmentURL media="t0.m4s"/></SegmentList>
<Representation id="t" bandwidth="64000"/></AdaptationSet></Period></MPD>"#
        )
    };
    let read = |text: String| Programme::read("d/v.mpd", text.as_bytes(), |_| None);
    // 10.5 s in segments of 4 s: the last one is shorter.
    let numbers = r#"<SegmentTemplate timescale="10" duration="40" startNumber="7" initialization="$RepresentationID$.mp4" media="$RepresentationID$/$Number%03d$.m4s"/>"#;
    let all = read(with(r#"mediaPresentationDuration="PT10.5S""#, numbers)).unwrap();
    let [video, sound] = &all.tracks[..] else {
        panic!("{all:?}");
    };
    let found = fetched(video);
    assert_eq!(
        found[0],
        (1_000_000, vec!["d/a/007.m4s", "d/a/008.m4s", "d/a/009.m4s"])
    );
    assert_eq!(found[1].0, 2_000_000);
    assert_eq!(
        video.renditions[0].first.as_ref().unwrap().address.path,
        "d/a.mp4"
    );
    assert_eq!(fetched(sound)[0].1, ["d/s0.m4s", "d/s1.m4s"]);
    let line = r#"<SegmentTemplate timescale="1000" media="$Bandwidth$-$Time$.m4s"><SegmentTimeline>
<S t="500" d="2000" r="1"/><S d="1000"/></SegmentTimeline></SegmentTemplate>"#;
    let all = read(with("", line)).unwrap();
    let names = ["500", "2500", "4500"].map(|time| format!("d/1000000-{time}.m4s"));
    assert_eq!(fetched(&all.tracks[0])[0].1, names);
    let plays = all.tracks[0].renditions[0]
        .parts
        .iter()
        .map(|part| part.plays.as_secs());
    assert_eq!(plays.collect::<Vec<_>>(), [2, 2, 1]);
    // A timeline that is repeated to the end, and hostile numbers.
    for (attributes, repeated, expected) in [
        (r#"mediaPresentationDuration="PT1M""#, "-1", Ok(30)),
        (
            r#"mediaPresentationDuration="P9999999D""#,
            "-1",
            Err(ProgrammeError::TooLarge),
        ),
        ("", "9223372036854775807", Err(ProgrammeError::TooLarge)),
        ("", "-1", Ok(0)),
    ] {
        let line = format!(
            r#"<SegmentTemplate media="$Time$.m4s"><SegmentTimeline><S d="2" r="{repeated}"/></SegmentTimeline></SegmentTemplate>"#
        );
        let longest = read(with(attributes, &line)).map(|all| {
            let renditions = all.tracks.iter().flat_map(|track| &track.renditions);
            let video = renditions.filter(|rendition| rendition.rate >= 1_000_000);
            video
                .map(|rendition| rendition.parts.len())
                .max()
                .unwrap_or(0)
        });
        assert_eq!(longest, expected, "{repeated}");
    }
    assert_eq!(
        read(with(r#"type="dynamic""#, numbers)),
        Err(ProgrammeError::Live)
    );
}
