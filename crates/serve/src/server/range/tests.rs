use proptest::prelude::*;

use super::{Span, Wanted, wanted};

fn part(start: u64, end: u64) -> Wanted {
    Wanted::Part(Span { start, end })
}

#[test]
fn the_forms_of_a_range() {
    assert_eq!(wanted("bytes=0-0", 10), part(0, 1));
    assert_eq!(wanted("bytes=2-5", 10), part(2, 6));
    assert_eq!(wanted("bytes=2-", 10), part(2, 10));
    assert_eq!(wanted("bytes=-3", 10), part(7, 10));
    assert_eq!(wanted("bytes=-30", 10), part(0, 10));
    assert_eq!(wanted("bytes=2-99", 10), part(2, 10));
    assert_eq!(wanted("Bytes = 2-5 ,", 10), part(2, 6));
    assert_eq!(wanted("bytes=0-99999999999999999999999", 10), part(0, 10));
}

#[test]
fn what_cannot_be_had() {
    for header in [
        "bytes=10-",
        "bytes=10-20",
        "bytes=-0",
        "bytes=99999999999999999999999-",
    ] {
        assert_eq!(wanted(header, 10), Wanted::Unsatisfiable, "{header}");
    }
    assert_eq!(wanted("bytes=0-", 0), Wanted::Unsatisfiable);
    assert_eq!(wanted("bytes=-5", 0), Wanted::Unsatisfiable);
}

#[test]
fn what_is_ignored() {
    for header in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=+1-2",
        "bytes=1 -2",
        "bytes=0x1-2",
        "seconds=1-2",
        "bytes=0-1,4-5",
    ] {
        assert_eq!(wanted(header, 10), Wanted::Whole, "{header}");
    }
}

proptest! {
    /// No header reaches beyond the file.
    #[test]
    fn within_the_file(header in "(bytes=)?[0-9,-]{0,24}", length in 0..1000_u64) {
        if let Wanted::Part(span) = wanted(&header, length) {
            prop_assert!(span.start < span.end && span.end <= length);
        }
    }
}
