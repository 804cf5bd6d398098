use std::time::{Duration, SystemTime};

use super::{Object, common_date, quoted};

#[test]
fn lines_cannot_be_forged() {
    assert_eq!(quoted("a\"b\\c\nd\u{e9}"), "a\\\"b\\\\c\\x0ad\\xc3\\xa9");
    let mut object = Object::new("request");
    object.text("agent", "a\"b\\c\nd\u{e9}\u{7f}");
    object.number("bytes", 5_u32);
    assert_eq!(
        object.end(),
        "{\"event\":\"request\",\"agent\":\"a\\\"b\\\\c\\u000ad\u{e9}\\u007f\",\"bytes\":5}\n"
    );
}

#[test]
fn dates_as_others_log_them() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_eq!(common_date(at), "06/Nov/1994:08:49:37 +0000");
}

#[test]
fn long_texts_are_cut_where_no_escape_is_halved() {
    let hostile = "\u{fffd}".repeat(1024);
    assert_eq!(quoted(&hostile).len(), 1024);
    assert_eq!(quoted(&format!("a{hostile}")).len(), 1021);
    let mut object = Object::new("request");
    let head = object.0.len();
    object.text("agent", &"\u{1}".repeat(1024));
    let line = object.end();
    assert!(line.ends_with("\\u0001\"}\n"), "{line}");
    assert!(line.len() - head < 1040, "{}", line.len());
}
