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
fn a_pipe_that_nobody_reads_does_not_hold_up_the_end() {
    struct Full(std::sync::mpsc::Receiver<()>);
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            // Until the test is over.
            let _ = self.0.recv();
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_open, full) = std::sync::mpsc::channel();
    let log = super::Log::new(super::Format::Json, Box::new(Full(full))).unwrap();
    assert!(log.send("a line\n".to_owned()));
    let began = std::time::Instant::now();
    drop(log);
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
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

/// Lines that nobody takes are dropped before they fill the memory.
#[test]
fn lines_that_wait_are_bounded_in_bytes() {
    struct Slow(std::sync::mpsc::Receiver<()>);
    impl std::io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Until the test says so.
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (go, wait) = std::sync::mpsc::channel();
    let log = super::Log::new(super::Format::Json, Box::new(Slow(wait))).unwrap();
    let line = "x".repeat(1 << 20);
    let taken = (0..100).filter(|_| log.send(line.clone())).count();
    assert_eq!(taken, super::WAITING_BYTES >> 20);
    // What is written makes room.
    drop(go);
    while !log.send(line.clone()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
