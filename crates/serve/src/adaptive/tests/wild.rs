//! Manifests as packagers of live streams, signed URLs and single files write them.

use super::*;

fn dash(text: &str) -> Manifest {
    Manifest::read("show/all.mpd", text.as_bytes(), |_| None).unwrap()
}

/// Where a segment lies in the video, in seconds.
fn seconds(manifest: &Manifest, path: &str) -> f64 {
    match manifest.find(path, 1).unwrap().place {
        Some(Place::At(time)) => time.as_secs_f64(),
        place => panic!("{path}: {place:?}"),
    }
}

/// Sound in segments of 48128 and 47104 ticks: the mean of what the window shows changes, which may not move the numbers.
#[test]
fn numbers_of_a_live_timeline_stay_where_they_are() {
    let lasts = |number: u64| [48_128, 47_104, 48_128][number as usize % 3];
    let begins = |number: u64| -> u64 { (0..number).map(lasts).sum() };
    let window = |first: u64, count: u64| {
        let lines = (first..first + count)
            .map(|number| format!(r#"<S t="{}" d="{}"/>"#, begins(number), lasts(number)));
        let lines: String = lines.collect();
        dash(&format!(
            r#"<MPD type="dynamic"><Period><AdaptationSet><SegmentTemplate timescale="48000" startNumber="{first}" media="$Number$.m4s">
<SegmentTimeline>{lines}</SegmentTimeline></SegmentTemplate><Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#
        ))
    };
    for first in 100_001..100_010 {
        let window = window(first, 5);
        for number in first..first + 5 {
            let expected = begins(number) as f64 / 48_000.0;
            let found = seconds(&window, &format!("show/{number}.m4s"));
            assert!((found - expected).abs() < 1e-6, "{first} {number}: {found}");
        }
        // Before the window and behind it: at the distance of the nearest segments.
        for number in [first - 20, first + 20] {
            let expected = begins(number) as f64 / 48_000.0;
            let found = seconds(&window, &format!("show/{number}.m4s"));
            assert!((found - expected).abs() < 1.0, "{first} {number}: {found}");
        }
    }
}

#[test]
fn timelines_repeat_their_lines() {
    let manifest = dash(
        r#"<MPD><Period><AdaptationSet><SegmentTemplate timescale="10" startNumber="0" media="$Number$.m4s">
<SegmentTimeline><S t="100" d="20" r="2"/><S d="10"/><S d="40" r="-1"/><S t="331" d="5" r="-1"/></SegmentTimeline></SegmentTemplate>
<Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#,
    );
    // The third line has four segments until the fourth line begins, a tick late.
    for (number, at) in [(0, 10.0), (2, 14.0), (3, 16.0), (4, 17.0), (7, 29.0)] {
        assert_eq!(seconds(&manifest, &format!("show/{number}.m4s")), at);
    }
    let last = seconds(&manifest, "show/1000.m4s");
    assert!((500.0..600.0).contains(&last), "{last}");
    // Numbers of a list count too: its window moves as well.
    let manifest = dash(
        r#"<MPD><Period><AdaptationSet><SegmentList startNumber="50" duration="4"><SegmentURL media="a"/><SegmentURL media="b"/></SegmentList>
<Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#,
    );
    assert_eq!(seconds(&manifest, "show/b"), 204.0);
}

/// Each video is there once for each group of audio.
#[test]
fn a_playlist_of_hls_has_one_rate() {
    let master = "#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=1100000,AUDIO=\"low\"
360p/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=4100000,AUDIO=\"low\"
720p/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=1300000,AUDIO=\"high\"
./360p/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=4300000,AUDIO=\"high\"
720p/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=8000000
https://elsewhere.example/list.m3u8
";
    let mut reads = 0;
    let manifest = Manifest::read("show/all.m3u8", master.as_bytes(), |_| {
        reads += 1;
        Some(LIST.into())
    })
    .unwrap();
    assert_eq!(reads, 2);
    for (path, rate, next) in [("360p", 1.3, 4.3), ("720p", 4.3, 8.0)] {
        let segment = manifest.find(&format!("show/{path}/a b.m4s"), 1).unwrap();
        assert_eq!((segment.rate, segment.next), (mbit(rate), mbit(next)));
    }
}

/// A viewer who comes to a file fetches its headers first, wherever in the video it is.
#[test]
fn headers_of_a_file_have_no_place() {
    let base = |base: &str| {
        dash(&format!(
            r#"<MPD><Period><AdaptationSet><Representation id="a" bandwidth="800000"><BaseURL>v.mp4</BaseURL>{base}</Representation>
</AdaptationSet></Period></MPD>"#
        ))
    };
    let head = |manifest: &Manifest, path: &str| match manifest.find(path, 1).unwrap().place {
        Some(Place::ByOffset { head }) => head,
        place => panic!("{place:?}"),
    };
    for (text, expected) in [
        (
            r#"<SegmentBase indexRange="800-1999"><Initialization range="0-799"/></SegmentBase>"#,
            2000,
        ),
        (r#"<SegmentBase indexRange="800-1999"/>"#, 2000),
        (
            r#"<SegmentBase><Initialization range="0-799"/></SegmentBase>"#,
            800,
        ),
        // An index behind the video, and one that makes no sense.
        (
            r#"<SegmentBase indexRange="900000-901999"><Initialization range="0-799"/></SegmentBase>"#,
            800,
        ),
        (r#"<SegmentBase indexRange="800-18446744073709551615"/>"#, 0),
        ("", 0),
    ] {
        assert_eq!(head(&base(text), "show/v.mp4"), expected, "{text}");
    }
    let list = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"v.mp4\",BYTERANGE=\"720@0\"
#EXTINF:4,\n#EXT-X-BYTERANGE:1000@720\nv.mp4\n#EXTINF:4,\n#EXT-X-BYTERANGE:1000\nv.mp4\n#EXT-X-ENDLIST\n";
    let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=800000\nlist.m3u8\n";
    let hls = Manifest::read("all.m3u8", master.as_bytes(), |_| Some(list.into()));
    assert_eq!(head(&hls.unwrap(), "v.mp4"), 720);
}

#[test]
fn a_base_is_read_as_one_text_and_the_first_usable_one_is_taken() {
    for (bases, path) in [
        (
            "<BaseURL>a/</BaseURL><BaseURL>b/</BaseURL>",
            "show/a/v/1.m4s",
        ),
        ("<BaseURL>a &amp; b&#x2f;</BaseURL>", "show/a & b/v/1.m4s"),
        (
            "<BaseURL><![CDATA[a & b/]]></BaseURL>",
            "show/a & b/v/1.m4s",
        ),
        ("<BaseURL>\n a<!-- no -->b/\n</BaseURL>", "show/ab/v/1.m4s"),
        (
            "<BaseURL>https://cdn.example/</BaseURL><BaseURL>b/</BaseURL>",
            "show/b/v/1.m4s",
        ),
        ("", "show/v/1.m4s"),
    ] {
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT4S">{bases}<Period><AdaptationSet><BaseURL>v/</BaseURL>
<SegmentTemplate duration="4" media="$Number$.m4s"/><Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#
        );
        assert!(dash(&text).find(path, 1).is_some(), "{bases}");
        let all = Programme::read("show/all.mpd", text.as_bytes(), |_| None).unwrap();
        assert_eq!(fetched(&all.tracks[0]), [(64_000, vec![path])]);
    }
}

#[test]
fn a_player_says_that_the_segments_are_elsewhere() {
    let text = r#"<MPD mediaPresentationDuration="PT4S"><BaseURL>https://cdn.example/</BaseURL><Period><AdaptationSet>
<BaseURL>v/</BaseURL><SegmentTemplate duration="4" media="s$Number$.m4s"/><Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#;
    let read = Programme::read("show/all.mpd", text.as_bytes(), |_| None);
    assert_eq!(read, Err(ProgrammeError::Elsewhere));
}

#[test]
fn a_period_says_how_long_it_lasts() {
    let text = r#"<MPD type="static"><Period duration="PT12S"><AdaptationSet><SegmentTemplate duration="4" media="s$Number$.m4s"/>
<Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#;
    let all = Programme::read("all.mpd", text.as_bytes(), |_| None).unwrap();
    let names = vec!["s1.m4s", "s2.m4s", "s3.m4s"];
    assert_eq!(fetched(&all.tracks[0]), [(64_000, names)]);
}

#[test]
fn folders_may_have_percent_signs() {
    for (base, reference, path) in [
        ("100%/b.mpd", "c.m4s", "100%/c.m4s"),
        ("50%25/b.mpd", "c%20d.m4s", "50%25/c d.m4s"),
        ("a%/b/c.mpd", "../%25d.m4s", "a%/%d.m4s"),
    ] {
        assert_eq!(uri::resolve(base, reference).as_deref(), Some(path));
    }
}

/// The queries of signed URLs belong to playlists and segments.
#[test]
fn players_keep_queries() {
    let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=800000\nlist.m3u8?v=low&s=1
#EXT-X-STREAM-INF:BANDWIDTH=900000\nlist.m3u8?v=high#top\n";
    let lists = Programme::playlists("all.m3u8", master.as_bytes());
    let queries: Vec<_> = lists.iter().map(|list| list.query.as_deref()).collect();
    assert_eq!(queries, [Some("v=low&s=1"), Some("v=high")]);
    let read = Programme::read("all.m3u8", master.as_bytes(), |list| {
        let query = list.query.as_deref()?;
        let map = format!("#EXT-X-MAP:URI=\"i.mp4?{query}\"");
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n{map}\n#EXTINF:4,\na.ts?{query}\n");
        Some(format!("{text}#EXT-X-ENDLIST\n").into())
    });
    let renditions = &read.unwrap().tracks[0].renditions;
    let low = &renditions[0];
    for part in low.first.iter().chain(&low.parts) {
        assert_eq!(part.address.query.as_deref(), Some("v=low&s=1"));
    }
    let text = r#"<MPD mediaPresentationDuration="PT4S"><Period><AdaptationSet><SegmentTemplate duration="4" media="s$Number$.m4s?s=1"/>
<Representation id="a" bandwidth="64000"/></AdaptationSet></Period></MPD>"#;
    let all = Programme::read("all.mpd", text.as_bytes(), |_| None).unwrap();
    let address = &all.tracks[0].renditions[0].parts[0].address;
    assert_eq!(address.path, "s1.m4s");
    assert_eq!(address.query.as_deref(), Some("s=1"));
}
