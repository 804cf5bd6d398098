use tidegate_limiter::{LimiterConfig, Rate};

use super::{Direction, Written, elements};
use crate::MILLISECOND;
use crate::plan::{ElementKind, QueueKind};

fn read(line: &str) -> Result<Vec<Written>, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    elements(&words, 100 * MILLISECOND, &|name| match name {
        "up.trace" => Ok("1\n2\n3\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    })
}

#[test]
fn a_chain_of_elements_is_read_with_directions() {
    let read = read("delay 25ms down link 10mbit queue 100kB up link 1mbit loss 0.01").unwrap();
    let directions: Vec<_> = read.iter().map(|element| element.direction).collect();
    let (both, down, up) = (Direction::Both, Direction::Down, Direction::Up);
    assert_eq!(directions, [both, down, up, up]);
    let rate = |bits| Rate::from_bits_per_second(bits);
    let queue = |bytes| QueueKind::DropTail {
        bytes: Some(bytes),
        packets: None,
    };
    assert_eq!(
        read[1].kind,
        ElementKind::Link {
            rate: rate(10_000_000),
            queue: queue(100_000),
        }
    );
    // A bandwidth-delay product would be less than 10 full packets.
    assert_eq!(
        read[2].kind,
        ElementKind::Link {
            rate: rate(1_000_000),
            queue: queue(15_000),
        }
    );
    assert_eq!(
        read[3].kind,
        ElementKind::Loss {
            probability: 0.01,
            burst: 1.0
        }
    );
}

#[test]
fn values_may_be_toml_and_main_values_may_have_their_key() {
    let read =
        read("bc-pqp rate 3mbit policy {fair=4} link trace up.trace tap both delay 1ms").unwrap();
    let texts: Vec<_> = read.iter().map(|element| element.text.as_str()).collect();
    let first = "bc-pqp rate 3mbit policy {fair=4}";
    assert_eq!(texts, [first, "link trace up.trace", "tap", "delay 1ms"]);
    let ElementKind::Limiter { config, .. } = &read[0].kind else {
        panic!("{read:?}");
    };
    assert!(
        matches!(config, LimiterConfig::PhantomQueues(_)),
        "{config:?}"
    );
    assert!(matches!(read[1].kind, ElementKind::Varying { .. }));
}

#[test]
fn every_kind_can_be_written() {
    let line = "policer 1mbit srtcm 1mbit trtcm 1mbit peak 2mbit fair-policer 1mbit pqp 1mbit bc-pqp 1mbit \
                bc-pqp-paper 1mbit shaper 1mbit link 1mbit delay 1ms loss 0.5 reorder 0.5 by 1ms tap";
    let read = read(line).unwrap();
    let kinds: Vec<_> = read
        .iter()
        .filter_map(|element| element.text.split(' ').next())
        .collect();
    assert_eq!(kinds, super::element::names().collect::<Vec<_>>());
}

#[test]
fn mistakes_name_their_words_and_a_remedy() {
    for (line, message) in [
        (
            "polcer 3mbit",
            "`polcer` is no kind of element, did you mean `policer`?",
        ),
        (
            "policer 3mbit brust 32kB",
            "policer 3mbit brust 32kB: `brust` is no key of policer, did you mean `burst`?",
        ),
        (
            "policer",
            "policer: `rate` is missing in an element of kind policer",
        ),
        (
            "policer 3mbit burst",
            "policer 3mbit burst: the value of `burst` is missing",
        ),
        (
            "policer 3mbit rate 2mbit",
            "policer 3mbit rate 2mbit: `rate` is there twice",
        ),
        ("delay 25", "delay 25: `delay`: "),
        (
            "delay 25ms up",
            "`up` is the last word: write an element after it",
        ),
        (
            "link trace no.trace",
            "link trace no.trace: `no.trace`: there is no such file",
        ),
        (
            "bc-pqp 3mbit policy {fair=",
            "bc-pqp 3mbit policy {fair=: this is not TOML",
        ),
        ("tap 3", "tap 3: `3` is no key of tap"),
        (
            "delay 5ms true",
            "delay 5ms true: `true` is no key of delay: there are delay, jitter. A command comes after `--`",
        ),
        (
            "loss 1%",
            "loss 1%: `probability` is a number from 0 to 1: write 0.01 instead of 1%",
        ),
    ] {
        let said = read(line).unwrap_err();
        assert!(said.starts_with(message), "{line}: {said}");
    }
    let quoted = elements(&["delay 5ms".to_owned()], 0, &|_| unreachable!());
    let message = "`delay 5ms` is no kind of element: write its words without quotes around them";
    assert_eq!(quoted, Err(message.to_owned()));
    assert_eq!(read(""), Ok(Vec::new()));
}
