//! The C interface: `include/tidegate_pace.h`.
//!
//! Structures are copied up to the smaller of the caller's and our size, so both may grow. But a larger target with unknown values is
//! rejected.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)]

#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use tidegate_limiter::Rate;
use tidegate_limiter::pacing::Hold;

use crate::error::PaceError;
use crate::pacer::{Mode, Options, Pacer};
use crate::target::Target;

// The header's constants, and assertions that the structures below are those of the header.
include!(concat!(env!("OUT_DIR"), "/header.rs"));

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// `struct tidegate_pace`.
#[derive(Debug)]
pub struct Opened {
    pace: Pacer,
    why: CString,
}

/// `struct tidegate_pace_target`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CTarget {
    rate: u64,
    credit: u64,
    headroom: u32,
    floor: u32,
    flags: u32,
    reserved: u32,
}

/// `struct tidegate_pace_stats`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CStats {
    state: u32,
    clamp: u32,
    window: u32,
    srtt: u32,
    mss: u32,
    sent: u32,
    retransmitted: u32,
    round_trips: u32,
    sets: u32,
    lifts: u32,
    rate: u64,
    delivered: u64,
    due: u64,
    pacing: u64,
}

/// C strings have no zeros inside.
fn words(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn fail(number: c_int, text: &str) -> c_int {
    ERROR.with_borrow_mut(|error| *error = words(text));
    -number
}

fn forget() {
    ERROR.with_borrow_mut(|error| {
        // An empty string takes memory too, and writers call this for each write.
        if !error.is_empty() {
            *error = CString::default();
        }
    });
}

/// A panic must not cross into C, where it would end the program. Gives `failed` instead.
fn caught<T>(failed: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        fail(libc::EFAULT, "the library failed; please report it");
        failed
    })
}

fn guarded(call: impl FnOnce() -> Result<c_int, PaceError>) -> c_int {
    forget();
    caught(-libc::EFAULT, || match call() {
        Ok(value) => value,
        Err(error) => {
            let number = match &error {
                PaceError::Target(_) | PaceError::Unreadable(_) => libc::EINVAL,
                PaceError::OtherCgroup { .. } => libc::EXDEV,
                PaceError::NotPaced { .. } => libc::ENOENT,
                PaceError::Socket { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            };
            fail(number, &error.to_string())
        }
    })
}

/// `pace` and `fd` as the library's functions take them.
fn with(
    pace: *const Opened,
    fd: c_int,
    call: impl FnOnce(&Pacer, BorrowedFd<'_>) -> Result<c_int, PaceError>,
) -> c_int {
    // SAFETY: NULL, or a pointer from tidegate_pace_open that is not closed yet, by the interface.
    let Some(opened) = (unsafe { pace.as_ref() }) else {
        return fail(libc::EINVAL, "pace is NULL");
    };
    if fd < 0 {
        return fail(libc::EBADF, "the file descriptor is negative");
    }
    // SAFETY: not -1, and the caller keeps it open during the call; if not, system calls fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    guarded(|| call(&opened.pace, socket))
}

fn target(from: *const CTarget, size: usize) -> Result<Target, PaceError> {
    if from.is_null() {
        return Err(PaceError::Unreadable("the target is NULL"));
    }
    let mut given = CTarget::default();
    let known = size.min(size_of::<CTarget>());
    // SAFETY: the caller has `size` bytes there, by the interface.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    // SAFETY: both have as many; any bytes are a CTarget.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut given).cast(), known) };
    let CTarget {
        rate,
        credit,
        headroom,
        floor,
        flags,
        reserved,
    } = given;
    let is_zero = |byte: &u8| *byte == 0;
    if flags & !(HOLD_AVERAGE | CLAMP_ONLY) != 0
        || reserved != 0
        || !bytes[known..].iter().all(is_zero)
    {
        return Err(PaceError::Unreadable(
            "the target has flags or fields that are not known here",
        ));
    }
    let mut target = Target::new(Rate::from_bits_per_second(rate))?
        .hold_average(flags & HOLD_AVERAGE != 0)
        .clamp_only(flags & CLAMP_ONLY != 0);
    if credit != 0 {
        target = target.credit(credit);
    }
    if headroom != 0 {
        target = target.headroom(headroom)?;
    }
    if floor != 0 {
        target = target.floor(floor)?;
    }
    Ok(target)
}

/// What holds a socket, by its number in the header.
const HOLDS: [(c_int, Hold); 7] = [
    (STARTUP, Hold::StartUp),
    (CLAMPED, Hold::Clamped),
    (FLOOR, Hold::Floor),
    (BEHIND, Hold::Behind),
    (NO_CLAMP, Hold::Fallback),
    (SPACED, Hold::Spaced),
    (UNHELD, Hold::Unheld),
];

fn number(hold: Hold) -> c_int {
    let found = HOLDS.iter().find(|(_, one)| *one == hold);
    found.map_or(NO_CLAMP, |(number, _)| *number)
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_open(cgroup: *const c_char) -> *mut Opened {
    forget();
    caught(ptr::null_mut(), || {
        let mut options = Options::default();
        if !cgroup.is_null() {
            // SAFETY: a string that ends with zero, by the interface.
            let path = unsafe { CStr::from_ptr(cgroup) };
            options.cgroup = Some(OsStr::from_bytes(path.to_bytes()).into());
        }
        let pace = Pacer::open_with(&options);
        let why = match pace.mode() {
            Mode::Fallback { why: Some(why) } => words(&why.to_string()),
            _ => CString::default(),
        };
        Box::into_raw(Box::new(Opened { pace, why }))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_close(pace: *mut Opened) {
    if !pace.is_null() {
        // SAFETY: what tidegate_pace_open returned, closed once, by the interface.
        let opened = unsafe { Box::from_raw(pace) };
        caught((), || drop(opened));
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_mode(pace: *const Opened) -> c_int {
    // SAFETY: NULL, or a pointer from tidegate_pace_open that is not closed yet.
    let mode = unsafe { pace.as_ref() }.map(|opened| opened.pace.mode());
    match mode {
        Some(Mode::Kernel) => KERNEL,
        _ => FALLBACK,
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_why(pace: *const Opened) -> *const c_char {
    // SAFETY: NULL, or a pointer from tidegate_pace_open that is not closed yet.
    match unsafe { pace.as_ref() } {
        Some(opened) => opened.why.as_ptr(),
        None => c"".as_ptr(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_set(
    pace: *const Opened,
    fd: c_int,
    to: *const CTarget,
    size: usize,
) -> c_int {
    with(pace, fd, |pace, socket| {
        pace.pace(socket, &target(to, size)?).map(|()| 0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_change(
    pace: *const Opened,
    fd: c_int,
    to: *const CTarget,
    size: usize,
) -> c_int {
    with(pace, fd, |pace, socket| {
        pace.change(socket, &target(to, size)?).map(|()| 0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_remove(pace: *const Opened, fd: c_int) -> c_int {
    with(pace, fd, |pace, socket| pace.remove(socket).map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_state(pace: *const Opened, fd: c_int) -> c_int {
    with(pace, fd, |pace, socket| pace.hold(socket).map(number))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_get(
    pace: *const Opened,
    fd: c_int,
    to: *mut CStats,
    size: usize,
) -> c_int {
    if to.is_null() {
        return fail(libc::EINVAL, "the statistics are NULL");
    }
    if size == 0 {
        return fail(libc::EINVAL, "the statistics have no size");
    }
    with(pace, fd, |pace, socket| {
        let stats = pace.stats(socket)?;
        let stats = CStats {
            state: number(stats.hold).cast_unsigned(),
            clamp: stats.clamp,
            window: stats.window,
            srtt: stats.srtt,
            mss: stats.mss,
            sent: stats.sent,
            retransmitted: stats.retransmitted,
            round_trips: stats.round_trips,
            sets: stats.sets,
            lifts: stats.lifts,
            rate: stats.rate.saturating_mul(8),
            delivered: stats.delivered,
            due: stats.due,
            pacing: stats.pacing.saturating_mul(8),
        };
        let known = size.min(size_of::<CStats>());
        // SAFETY: the caller has `size` bytes there; bytes that we do not know become zero.
        unsafe {
            ptr::write_bytes(to.cast::<u8>(), 0, size);
            ptr::copy_nonoverlapping((&raw const stats).cast::<u8>(), to.cast(), known);
        }
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_pace_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}
