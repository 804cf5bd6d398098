//! The writer's schedule, for C.

use std::ffi::c_int;

use tidegate_limiter::pacing::{Hold, Phase, Ready, Way, Writer, throttled_rate};
use tidegate_limiter::{Bytes, Rate};

use super::{WAY_APPLICATION, WAY_MAX_PACING_RATE, WAY_NONE, WAY_TRICKLE, caught, fail, forget};

/// Bytes and waiting time if the library fails: that costs the pacing, and not the video.
const UNPACED: (u64, u64) = (65_536, 0);

/// What a function returns that does nothing without a writer.
fn refuse<T: Default>() -> T {
    fail(libc::EINVAL, "the writer is NULL");
    T::default()
}

/// What holds the socket, by its number in the header. Any other number says that the state is not known, as where the socket could not be
/// asked or was never paced. Nothing may hold it then, so the writer throttles.
fn hold(number: c_int) -> Hold {
    let found = super::HOLDS.iter().find(|(known, _)| *known == number);
    found.map_or(Hold::Unheld, |(_, hold)| *hold)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_pace_writer_new(
    way: c_int,
    block: u64,
    percent: u32,
    encoding_rate: u64,
    startup: u64,
) -> *mut Writer {
    forget();
    let refused = |why| {
        fail(libc::EINVAL, why);
        std::ptr::null_mut()
    };
    let percent = if percent == 0 { 125 } else { percent };
    let way = match way {
        WAY_NONE => Way::None,
        WAY_APPLICATION => Way::Application {
            block: if block == 0 { 65_536 } else { block },
        },
        WAY_MAX_PACING_RATE => Way::MaxPacingRate,
        WAY_TRICKLE => Way::TRICKLE,
        _ => return refused("there is no such way to pace"),
    };
    if encoding_rate == 0 && way != Way::None {
        return refused("an encoding rate of 0 cannot be paced: give it in bit/s");
    }
    let encoding = Rate::from_bits_per_second(encoding_rate);
    caught(std::ptr::null_mut(), || {
        let rate = throttled_rate(encoding, u64::from(percent) * 10);
        Box::into_raw(Box::new(Writer::new(way, rate, Bytes::new(startup))))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_writer_free(writer: *mut Writer) {
    if !writer.is_null() {
        // SAFETY: what tidegate_pace_writer_new returned, freed once, by the interface.
        drop(unsafe { Box::from_raw(writer) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_writer_throttling(writer: *const Writer) -> c_int {
    forget();
    // SAFETY: NULL, or a pointer from tidegate_pace_writer_new that is not freed and not in use.
    match unsafe { writer.as_ref() } {
        Some(writer) => c_int::from(writer.phase() == Phase::Throttling),
        None => refuse(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_writer_ready(
    writer: *mut Writer,
    now: u64,
    number: c_int,
    wait: *mut u64,
) -> u64 {
    forget();
    // SAFETY: as above.
    let (bytes, nanoseconds) = match unsafe { writer.as_mut() } {
        Some(writer) => caught(UNPACED, || match writer.ready(now, Some(hold(number))) {
            Ready::Write(bytes) => (bytes, 0),
            Ready::Wait(nanoseconds) => (0, nanoseconds),
        }),
        None => refuse(),
    };
    // SAFETY: NULL, or room for one number, by the interface.
    if let Some(wait) = unsafe { wait.as_mut() } {
        *wait = nanoseconds;
    }
    bytes
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_pace_writer_wrote(writer: *mut Writer, bytes: u64, now: u64) {
    forget();
    // SAFETY: as above.
    match unsafe { writer.as_mut() } {
        Some(writer) => caught((), || writer.wrote(Bytes::new(bytes), now)),
        None => refuse(),
    }
}
