//! Threads that each serve a share of the connections. What a connection does stays in one thread, so that none wakes another.

use std::io;
use std::net;
use std::thread::{self, JoinHandle};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::privileges::drop_privileges;

/// Threads that may wait for the disk, of all workers together.
const FOR_DISK: usize = 512;

/// The threads; they end with this.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    handle: Handle,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The main thread opens everything that needs privileges.
fn without_privileges() {
    if let Err(error) = drop_privileges() {
        tracing::error!("a thread cannot give up its privileges: {error}");
    }
}

impl Workers {
    /// Starts this number of threads; with 0, all connections stay in the caller's runtime.
    pub fn start(count: usize) -> io::Result<Self> {
        let workers = (0..count).map(|_| {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(FOR_DISK.div_ceil(count))
                .on_thread_start(without_privileges)
                .build()?;
            let handle = runtime.handle().clone();
            let (stop, stopped) = oneshot::channel::<()>();
            let run = move || {
                without_privileges();
                // It says so by being dropped.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            };
            let thread = thread::Builder::new()
                .name("connections".into())
                .spawn(run)?;
            Ok(Worker {
                handle,
                stop: Some(stop),
                thread: Some(thread),
            })
        });
        Ok(Self(workers.collect::<io::Result<_>>()?))
    }

    /// The runtime for a connection of this number.
    pub fn runtime(&self, number: u64) -> Handle {
        let worker = self.0.get(number as usize % self.0.len().max(1));
        worker.map_or_else(Handle::current, |worker| worker.handle.clone())
    }

    /// A socket in the runtime for a connection of this number.
    ///
    /// It is registered again even in the same runtime: of one that was accepted the runtime supposes that it can be read, so that a connection
    /// without a request would not wait.
    pub fn place(&self, number: u64, socket: net::TcpStream) -> io::Result<(Handle, TcpStream)> {
        let runtime = self.runtime(number);
        let there = runtime.enter();
        let socket = TcpStream::from_std(socket)?;
        drop(there);
        Ok((runtime, socket))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            drop(worker.stop.take());
        }
        for worker in &mut self.0 {
            // It only fails if the thread panicked.
            let _ = worker.thread.take().map(JoinHandle::join);
        }
    }
}
