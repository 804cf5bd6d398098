//! Functions for tests with namespaces.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TestbedError;

/// One at a time: they share the machine's time, and search for leftovers of others.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports past the test harness that the test cannot be run here.
pub(crate) fn permitted<T>(
    test: &str,
    result: Result<T, TestbedError>,
) -> Option<Result<T, TestbedError>> {
    match result {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped {test}: needs root and /dev/net/tun").unwrap();
            None
        }
        result => Some(result),
    }
}
