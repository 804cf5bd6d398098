#![doc = include_str!("../README.md")]

mod capture;
#[cfg(target_os = "linux")]
pub mod compare;
mod error;
#[cfg(target_os = "linux")]
mod forward;
#[cfg(target_os = "linux")]
pub mod iperf;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
pub mod link;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod row;
#[cfg(target_os = "linux")]
pub mod shell;
#[cfg(target_os = "linux")]
pub mod site;
#[cfg(test)]
mod testing;

pub use capture::{CaptureFolder, Unfinished};
pub use error::TestbedError;
#[cfg(target_os = "linux")]
pub use kernel::host::{Awake, real_time};
#[cfg(target_os = "linux")]
pub use row::LabKernelRow;

/// Waits for a thread and returns its result. If it panicked, this panics too.
pub(crate) fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
