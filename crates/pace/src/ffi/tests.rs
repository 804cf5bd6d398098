use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::*;

/// What went wrong last.
fn error() -> String {
    // SAFETY: a string that lives until the next call.
    let words = unsafe { CStr::from_ptr(tidegate_pace_error()) };
    words.to_str().unwrap().to_owned()
}

/// Runs with a socket that is paced to 8 Mbit/s, without the kernel's help.
fn paced(run: impl FnOnce(*mut Opened, c_int)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // SAFETY: a string; no cgroup.
    let pace = unsafe { tidegate_pace_open(c"/proc/self".as_ptr()) };
    let target = CTarget {
        rate: 8_000_000,
        ..CTarget::default()
    };
    let fd = socket.as_raw_fd();
    // SAFETY: all live, and the target has that size.
    let set = unsafe { tidegate_pace_set(pace, fd, &raw const target, size_of::<CTarget>()) };
    assert_eq!(set, 0, "{}", error());
    run(pace, fd);
    // SAFETY: opened above.
    unsafe { tidegate_pace_close(pace) };
}

#[test]
fn a_larger_target_is_taken_if_what_is_not_known_of_it_is_zero() {
    #[repr(C)]
    struct Larger {
        target: CTarget,
        more: [u64; 2],
    }
    paced(|pace, fd| {
        let mut larger = Larger {
            target: CTarget {
                rate: 16_000_000,
                ..CTarget::default()
            },
            more: [0; 2],
        };
        let change = |larger: &Larger| {
            let target = ptr::from_ref(larger).cast();
            // SAFETY: all live, and the target has that size.
            unsafe { tidegate_pace_change(pace, fd, target, size_of::<Larger>()) }
        };
        assert_eq!(change(&larger), 0, "{}", error());
        larger.more[1] = 1;
        assert_eq!(change(&larger), -libc::EINVAL);
        assert!(error().contains("not known here"), "{}", error());
    });
}

#[test]
fn statistics_without_a_size_are_refused() {
    paced(|pace, fd| {
        let mut stats = CStats::default();
        let mut get = |size| {
            // SAFETY: all live, and the statistics have that size at least.
            unsafe { tidegate_pace_get(pace, fd, &raw mut stats, size) }
        };
        assert_eq!(get(0), -libc::EINVAL);
        assert!(error().contains("no size"), "{}", error());
        assert_eq!(get(size_of::<CStats>()), 0, "{}", error());
        assert_eq!((error().as_str(), stats.rate), ("", 8_000_000));
    });
}

#[test]
fn opening_forgets_the_last_error() {
    // SAFETY: NULL is refused.
    let state = unsafe { tidegate_pace_state(ptr::null(), 0) };
    assert!(state == -libc::EINVAL && !error().is_empty());
    // SAFETY: a string; no cgroup.
    let pace = unsafe { tidegate_pace_open(c"/proc/self".as_ptr()) };
    assert_eq!(error(), "");
    // SAFETY: opened above.
    unsafe { tidegate_pace_close(pace) };
}

#[test]
fn writers_without_a_way_or_a_rate_are_refused() {
    use super::writer::{tidegate_pace_writer_free, tidegate_pace_writer_new};
    for (way, rate, why) in [
        (WAY_TRICKLE, 0, "an encoding rate of 0"),
        (WAY_APPLICATION, 0, "an encoding rate of 0"),
        (77, 1_000_000, "no such way"),
    ] {
        assert!(tidegate_pace_writer_new(way, 0, 0, rate, 0).is_null());
        assert!(error().contains(why), "{}", error());
    }
    for (way, rate) in [
        (WAY_NONE, 0),
        (WAY_TRICKLE, 1),
        (WAY_MAX_PACING_RATE, u64::MAX),
    ] {
        let writer = tidegate_pace_writer_new(way, 0, 0, rate, 0);
        assert!(!writer.is_null() && error().is_empty());
        // SAFETY: made above.
        unsafe { tidegate_pace_writer_free(writer) };
    }
}

/// A writer that is told of an error, and not of a state, throttles by itself.
#[test]
fn writers_throttle_where_the_state_is_not_known() {
    use super::writer::{
        tidegate_pace_writer_free, tidegate_pace_writer_new, tidegate_pace_writer_ready,
        tidegate_pace_writer_wrote,
    };
    for state in [-1, -libc::EBADF, -libc::ENOENT, 77] {
        let writer = tidegate_pace_writer_new(WAY_TRICKLE, 0, 0, 1_000_000, 0);
        let mut wait = 0;
        // SAFETY: made above; `wait` has room for a number.
        let first = unsafe { tidegate_pace_writer_ready(writer, 0, state, &raw mut wait) };
        assert!(first < 100_000, "{state}: {first} bytes at once");
        // SAFETY: as above.
        unsafe { tidegate_pace_writer_wrote(writer, 1_000_000, 0) };
        // SAFETY: as above.
        let next = unsafe { tidegate_pace_writer_ready(writer, 1, state, &raw mut wait) };
        assert!(next == 0 && wait > 0, "{state}: {next} bytes");
        // SAFETY: as above, freed once.
        unsafe { tidegate_pace_writer_free(writer) };
    }
}

#[test]
fn functions_of_writers_refuse_null() {
    use super::writer::{
        tidegate_pace_writer_ready, tidegate_pace_writer_throttling, tidegate_pace_writer_wrote,
    };
    let none = ptr::null_mut();
    let mut wait = 7;
    let refused = |call: &mut dyn FnMut() -> u64| {
        forget();
        assert_eq!(call(), 0);
        assert_eq!(error(), "the writer is NULL");
    };
    // SAFETY: NULL is refused, by the interface; `wait` has room for a number.
    refused(&mut || unsafe { tidegate_pace_writer_ready(none, 0, -1, &raw mut wait) });
    assert_eq!(wait, 0);
    // SAFETY: NULL is refused, by the interface.
    refused(&mut || u64::from(unsafe { tidegate_pace_writer_throttling(none) } != 0));
    refused(&mut || {
        // SAFETY: NULL is refused, by the interface.
        unsafe { tidegate_pace_writer_wrote(none, 1, 0) };
        0
    });
}

#[test]
fn descriptors_that_are_no_socket_have_the_kernel_s_number() {
    let file = std::fs::File::open("/dev/null").unwrap();
    // The first has the clamp where this process may load programs, and the second is the fallback.
    for cgroup in [ptr::null(), c"/proc/self".as_ptr()] {
        // SAFETY: NULL or a string.
        let pace = unsafe { tidegate_pace_open(cgroup) };
        for (fd, number) in [
            (c_int::MAX, libc::EBADF),
            (file.as_raw_fd(), libc::ENOTSOCK),
        ] {
            let mut stats = CStats::default();
            // SAFETY: opened above, and the statistics have that size.
            let results = unsafe {
                [
                    tidegate_pace_state(pace, fd),
                    tidegate_pace_remove(pace, fd),
                    tidegate_pace_get(pace, fd, &raw mut stats, size_of::<CStats>()),
                ]
            };
            assert_eq!(results, [-number; 3], "{}", error());
        }
        // SAFETY: opened above.
        unsafe { tidegate_pace_close(pace) };
    }
}

#[test]
fn a_panic_does_not_cross_into_c() {
    assert_eq!(caught(7, || 3), 3);
    forget();
    let failed = caught(7, || -> c_int {
        panic!("a fault of the library, made for a test")
    });
    assert_eq!(failed, 7);
    assert!(error().contains("please report"), "{}", error());
    let failed = guarded(|| panic!("a fault of the library, made for a test"));
    assert_eq!(failed, -libc::EFAULT);
}
