//! Networks in small on this machine, in real time: namespaces, links between them, and plans of the
//! lab run with the kernel's TCP.
//!
//! Namespaces and devices have no names in the file system: they are held by file descriptors
//! alone and go with them, however the process ends. Nothing else of the machine is changed.
//!
//! Needs Linux, the capabilities `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`, and `/dev/net/tun`.
//! [`CaptureFolder`] needs none of these.

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
pub mod site;
#[cfg(test)]
mod testing;

pub use capture::CaptureFolder;
pub use error::TestbedError;
#[cfg(target_os = "linux")]
pub use row::LabKernelRow;

/// The thread's result; its panic is passed on.
pub(crate) fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
