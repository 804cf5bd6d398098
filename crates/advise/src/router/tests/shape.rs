//! Shapers of Cisco: their bursts and their queues.

use super::*;

#[test]
fn bursts_of_a_shaper_may_leave_at_once() {
    // IOS has them in bits, and without Be it is as much as Bc.
    for (line, burst) in [
        ("shape average 10000000", 1_514),
        ("shape average 10000000 400000", 100_000),
        ("shape average 10000000 400000 0", 50_000),
        ("shape average 10000000 400000 400000", 100_000),
        ("shape average 10m 400 0", 1_514),
        ("shape average 10 mbps 5 ms", 6_250),
        ("shape average 10 mbps 20000", 20_000),
        ("shape average 10 mbps 20 kbytes", 20_000),
    ] {
        let text = format!("{line}\n queue-limit 100 packets");
        let (rate, queue, found) = shaper(&text);
        assert_eq!((rate, found), (10 * MBIT, burst), "{line}");
        assert!(queue.is_some(), "{line}");
        let is_even = line.ends_with("10000000");
        let note = match is_even {
            true => "sends packets evenly",
            false => "may leave at once",
        };
        assert_assumed(&read(&text).unwrap(), note);
    }
    let error = read("shape average 10000000 400q").unwrap_err();
    assert_eq!((error.line, error.column), (1, 24), "{error}");
}

#[test]
fn queues_that_are_no_fifos_are_not_taken_for_fifos() {
    for kind in ["fair-queue", "random-detect dscp-based"] {
        for text in [
            format!("class A\n shape average 10m\n {kind}\n"),
            format!("class A\n {kind}\n shape average 10m\n"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(
                error.message.contains("only FIFOs are simulated"),
                "{error}"
            );
            assert_eq!(error.column, 2, "{error}");
        }
        let other = format!("class A\n {kind}\nclass B\n shape average 10m\n no fair-queue\n");
        assert_eq!(shaper(&other).0, 10 * MBIT);
    }
    let parent = read("class A\n shape average 10m\n service-policy CHILD\n").unwrap();
    assert_assumed(&parent, "a policy of its own");
}
