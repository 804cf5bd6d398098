use tidegate_limiter::pacing::Way;

use super::*;
use crate::plan::Pace;

#[test]
fn videos_are_read_with_what_belongs_to_their_way() {
    let with = |stream: &str| {
        format!(
            "duration = \"1s\"\n[[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"1mbit\"\n\
             [[flow]]\nname = \"video\"\nrtt = \"10ms\"\npath = [\"line\"]\n\
             traffic = {{ kind = \"stream\", {stream} }}\n"
        )
    };
    let read = |stream: &str| {
        let mut group = one(&parse(&with(stream)).expect(stream));
        match group.plan.flows.remove(0).traffic {
            Traffic::Stream(stream) => stream,
            other => panic!("{other:?}"),
        }
    };
    let plain = read("rate = \"540kbit\"");
    assert_eq!(plain.throttled_bytes_per_second(), 84_375);
    assert_eq!(plain.pace, Way::APPLICATION_64K.into());
    // Earlier names are still read.
    let old = read("rate = \"540kbit\", pace = \"blocks\", block = \"16KiB\"");
    assert_eq!(old.pace, Way::APPLICATION_16K.into());
    let old = read("rate = \"540kbit\", pace = \"max-rate\"");
    assert_eq!(old.pace, Way::MaxPacingRate.into());
    let trickle = read("rate = \"400kbit..600kbit\", pace = \"trickle\", headroom = 1.05");
    assert!((400_000..=600_000).contains(&trickle.rate.bits_per_second()));
    let narrow = Pace {
        headroom: 1050,
        ..Way::TRICKLE.into()
    };
    assert_eq!(trickle.pace, narrow);
    for (stream, complaint) in [
        ("pace = \"trickle\"", "`rate` is missing"),
        (
            "rate = \"1mbit\", pace = \"tickle\"",
            "did you mean `trickle`?",
        ),
        (
            "rate = \"1mbit\", pace = \"max-rate\", block = \"16kB\"",
            "`block` has no meaning with pace max-pacing-rate",
        ),
        (
            "rate = \"1mbit\", headroom = 1.2",
            "`headroom` has no meaning with pace application-64k",
        ),
        (
            "rate = \"1gbit\", block = \"1B\"",
            "blocks of 1 bytes are too small",
        ),
        ("rate = \"1mbit\", length = \"0s\"", "length"),
    ] {
        let error = parse(&with(stream)).expect_err(stream);
        assert!(error.contains(complaint), "{stream}: {error}");
    }
}
