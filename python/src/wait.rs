//! Long work that Ctrl-C ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often to look for Ctrl-C.
pub const LOOK: Duration = Duration::from_millis(50);

/// Does the work without the interpreter's lock. If Ctrl-C comes, sets the flag, on which the work must end soon.
///
/// # Errors
/// Ctrl-C, or the work failed by a bug.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let caller = thread::current();
    thread::scope(|scope| {
        let working = scope.spawn(move || {
            let done = work();
            caller.unpark();
            done
        });
        let mut interrupt = None;
        while !working.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if let Err(error) = py.check_signals() {
                stop.store(true, Ordering::Relaxed);
                interrupt.get_or_insert(error);
            }
        }
        let done = working.join();
        match interrupt {
            Some(error) => Err(error),
            None => {
                done.map_err(|_| PyRuntimeError::new_err("the work ended by a bug of Tidegate"))
            }
        }
    })
}
