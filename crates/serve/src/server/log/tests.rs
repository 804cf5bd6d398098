use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::LogFormat;

/// The messages of this thread while it runs this.
fn said(run: &mut dyn FnMut()) -> String {
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let heard = Heard::default();
    let writer = heard.clone();
    let to = tracing_subscriber::fmt().with_writer(move || writer.clone());
    tracing::subscriber::with_default(to.finish(), run);
    let bytes = heard.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_full_pipe_does_not_delay_the_end_of_the_server() {
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
    let log = super::Log::new(LogFormat::Json, Box::new(Full(full))).unwrap();
    assert!(log.send("a line\n".to_owned()));
    let began = std::time::Instant::now();
    let mut log = Some(log);
    let said = said(&mut || drop(log.take()));
    assert!(
        said.contains("up to 1 lines of the access log were lost"),
        "{said}"
    );
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

/// If no reader takes the lines, they are dropped before they fill the memory.
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
    let log = super::Log::new(LogFormat::Json, Box::new(Slow(wait))).unwrap();
    let line = "x".repeat(1 << 20);
    let mut taken = 0;
    let said = said(&mut || taken = (0..100).filter(|_| log.send(line.clone())).count());
    assert_eq!(
        said.matches("8 lines wait, and more are lost").count(),
        1,
        "{said}"
    );
    assert_eq!(taken, super::WAITING_BYTES >> 20);
    // What is written makes room.
    drop(go);
    while !log.send(line.clone()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A disk that takes a part of a line, is full for a while, and then has room again.
#[test]
fn lines_wait_while_the_disk_is_full() {
    struct Disk {
        room: Vec<usize>,
        written: Sender<Vec<u8>>,
    }
    impl std::io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = self.room.pop().unwrap_or(usize::MAX).min(bytes.len());
            if taken == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            let _ = self.written.send(bytes[..taken].to_vec());
            Ok(taken)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (written, found) = channel();
    let room = vec![0, 0, 4, 0, 9];
    let log = super::Log::new(LogFormat::Json, Box::new(Disk { room, written })).unwrap();
    for line in ["the first\n", "the second\n", "the third\n"] {
        assert!(log.send(line.to_owned()));
    }
    let mut text = String::new();
    while text.lines().count() < 3 || !text.ends_with('\n') {
        let piece = found.recv_timeout(Duration::from_secs(60)).unwrap();
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(text, "the first\nthe second\nthe third\n");
    // It is counted once the disk has taken it.
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while log.waiting.bytes.load(std::sync::atomic::Ordering::Relaxed) > 0 {
        assert!(std::time::Instant::now() < end, "something waits on");
        std::thread::sleep(Duration::from_millis(1));
    }
}
