use std::time::{Duration, SystemTime};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::{Outcome, Validators};

fn ours() -> Validators {
    Validators {
        etag: "\"1-2\"".into(),
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
    }
}

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    let header = |&(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    list.iter().map(header).collect()
}

const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

#[test]
fn each_condition() {
    for (name, value, outcome) in [
        ("if-none-match", "\"1-2\"", Outcome::NotModified),
        ("if-none-match", "\"x\", W/\"1-2\"", Outcome::NotModified),
        ("if-none-match", "*", Outcome::NotModified),
        ("if-none-match", "\"x\"", Outcome::Proceed),
        ("if-match", "\"1-2\"", Outcome::Proceed),
        ("if-match", "*", Outcome::Proceed),
        // Strong comparison.
        ("if-match", "W/\"1-2\"", Outcome::Failed),
        ("if-match", "\"x\"", Outcome::Failed),
        ("if-modified-since", AT, Outcome::NotModified),
        ("if-modified-since", BEFORE, Outcome::Proceed),
        ("if-modified-since", "yesterday", Outcome::Proceed),
        ("if-unmodified-since", AT, Outcome::Proceed),
        ("if-unmodified-since", BEFORE, Outcome::Failed),
    ] {
        assert_eq!(
            ours().evaluate(&headers(&[(name, value)])),
            outcome,
            "{name}: {value}"
        );
    }
}

#[test]
fn tags_come_before_dates() {
    let both = headers(&[("if-none-match", "\"x\""), ("if-modified-since", AT)]);
    assert_eq!(ours().evaluate(&both), Outcome::Proceed);
    let both = headers(&[("if-match", "\"1-2\""), ("if-unmodified-since", BEFORE)]);
    assert_eq!(ours().evaluate(&both), Outcome::Proceed);
}

#[test]
fn ranges_of_the_same_version_only() {
    let now = SystemTime::now();
    let holds = |value| ours().range_holds(&headers(&[("if-range", value)]), now);
    assert!(ours().range_holds(&headers(&[]), now));
    assert!(holds("\"1-2\""));
    assert!(!holds("W/\"1-2\""));
    assert!(!holds("\"1-3\""));
    assert!(holds(AT));
    assert!(!holds(BEFORE));
    // Changed a second ago: it may change again within the date's second.
    let fresh = ours().modified + Duration::from_secs(1);
    assert!(!ours().range_holds(&headers(&[("if-range", AT)]), fresh));
}
