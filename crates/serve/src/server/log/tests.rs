use std::time::Duration;

use super::LogFormat;

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
    drop(log);
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
    let taken = (0..100).filter(|_| log.send(line.clone())).count();
    assert_eq!(taken, super::WAITING_BYTES >> 20);
    // What is written makes room.
    drop(go);
    while !log.send(line.clone()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
