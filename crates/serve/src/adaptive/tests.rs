//! Manifests as encoders write them, and what they name.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

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
    assert_eq!(find("show/whole.mp4").unwrap().place, Some(Place::ByOffset));
    let listed = find("show/l1.m4s").unwrap();
    assert_eq!(listed.place, Some(Place::At(Duration::from_secs(5))));
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
        most: Some(9_000_000),
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
        }
    }
}
