//! Cores for packets that get stuck.
#![allow(unsafe_code)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::libc;

use super::*;

static HANGS: AtomicBool = AtomicBool::new(false);

/// What a thread does that gets the signal: nothing, until it is let go.
extern "C" fn hang(_: libc::c_int) {
    while HANGS.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

/// Makes the second core for packets hang, which is the thread of DPDK with this end of its name.
fn stick() {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
    let is_it = |folder: &fs::DirEntry| {
        let name = fs::read_to_string(folder.path().join("comm")).unwrap_or_default();
        let name = name.trim();
        name.contains("worker") && (name.ends_with("-2") || name.ends_with("worker2"))
    };
    let thread = threads.into_iter().find(is_it).expect("a core of DPDK");
    let number: libc::c_long = thread.file_name().to_str().unwrap().parse().unwrap();
    HANGS.store(true, Ordering::Release);
    let handler: extern "C" fn(libc::c_int) = hang;
    // SAFETY: the handler only reads an atomic value, and the signal goes to a thread of this process.
    unsafe {
        libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
        let process = libc::c_long::from(std::process::id());
        let sent = libc::syscall(libc::SYS_tgkill, process, number, libc::SIGUSR1);
        assert_eq!(sent, 0);
    }
}

/// Waits for something that comes soon.
fn soon(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A core that is stuck is found without the others waiting for it, and what is asked after that fails at once. When it goes on,
/// all is as before. The data path ends without it.
#[test]
fn a_stuck_core_does_not_stop_the_others() {
    const STUCK: &str = "packet core 1 of DPDK";
    let mut alone = alone(&settings(Unknown::Pass));
    let path = &mut alone.path;
    path.reserve(1).unwrap();
    let place = Attachment {
        interface: "wan".to_owned(),
        hook: Hook::TcIngress,
        direction: Direction::Down,
    };
    path.attach(&place).unwrap();
    let attached = [place.clone()];
    assert_eq!(path.attachments(), attached);
    assert_eq!(path.link(&place), Some(true));
    path.read(0).unwrap();

    stick();
    let before = sys::bursts(0);
    let error = path.read(0).unwrap_err().to_string();
    assert!(error.contains(STUCK), "{error}");
    let meanwhile = sys::bursts(0) - before;
    assert!(meanwhile > 100, "{meanwhile} bursts in a second");
    let asked = Instant::now();
    for _ in 0..20 {
        assert!(path.read(0).is_err());
        assert_eq!(path.attachments(), []);
        assert!(path.attach(&place).is_err());
    }
    assert!(asked.elapsed() < Duration::from_secs(10), "each one waits");
    HANGS.store(false, Ordering::Release);
    soon(|| path.attachments() == attached);
    path.read(0).unwrap();

    stick();
    let Alone { path, _one } = alone;
    let error = path.remove().unwrap_err().to_string();
    assert!(error.contains(STUCK), "{error}");
    let second = Dpdk::create(Path::new("/other"), &settings(Unknown::Pass));
    assert!(matches!(second, Err(DpdkError::Taken)));
    HANGS.store(false, Ordering::Release);
    soon(|| Dpdk::clear(Path::new("/test")).is_ok());
    assert!(!Dpdk::exists(Path::new("/test")));
}
