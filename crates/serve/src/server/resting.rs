//! Connections that rest: without a task, without the runtime's attention, next to one another in memory.
//!
//! A task and its watched socket take kilobytes, and what is small of them lies between buffers that are long gone, so that the system
//! does not get those back. Most connections of a server rest.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::connection::Past;
use super::slots::Slot;

/// A connection that rests.
#[derive(Debug)]
pub(super) struct Rested {
    pub socket: TcpStream,
    pub past: Past,
    pub slot: Slot,
    /// When it has waited long enough for its client.
    pub until: Instant,
}

/// All connections that rest.
#[derive(Debug)]
pub(super) struct Resting {
    all: Slab<Rested>,
    /// Until when each rests, with its key.
    until: BTreeSet<(Instant, usize)>,
    /// It knows each by its key.
    epoll: AsyncFd<OwnedFd>,
}

impl Resting {
    #[allow(unsafe_code)]
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` has the same open descriptor until it is dropped.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?;
        Ok(Self {
            all: Slab::new(),
            until: BTreeSet::new(),
            epoll,
        })
    }

    /// Lets a connection rest. If the kernel cannot watch one more, it does not rest for long.
    pub fn put(&mut self, mut one: Rested) {
        let place = self.all.vacant_entry();
        let key = place.key();
        let data = EventData::new_u64(key as u64);
        let events = EventFlags::IN | EventFlags::RDHUP;
        if epoll::add(&self.epoll, &one.socket, data, events).is_err() {
            one.until = Instant::now();
        }
        self.until.insert((one.until, key));
        place.insert(one);
    }

    /// The next connection whose client sent or ended something, or whose time is up.
    pub async fn next(&mut self) -> Rested {
        loop {
            let first = self.until.first().copied();
            let is_over = async {
                match first {
                    Some((until, key)) => {
                        sleep_until(until).await;
                        key
                    }
                    None => std::future::pending().await,
                }
            };
            let key = tokio::select! {
                key = is_over => key,
                Ok(mut ready) = self.epoll.readable() => {
                    let mut event = [MaybeUninit::uninit()];
                    // Without waiting.
                    match epoll::wait(&self.epoll, &mut event, Some(&Timespec::default())) {
                        Ok(([event], _)) => event.data.u64() as usize,
                        _ => {
                            ready.clear_ready();
                            continue;
                        }
                    }
                }
            };
            if let Some(one) = self.remove(key) {
                return one;
            }
        }
    }

    /// All of them, whatever they wait for.
    pub fn into_all(self) -> impl Iterator<Item = Rested> {
        self.all.into_iter().map(|(_, one)| one)
    }

    fn remove(&mut self, key: usize) -> Option<Rested> {
        let one = self.all.try_remove(key)?;
        self.until.remove(&(one.until, key));
        // It fails if the kernel could not watch it.
        let _ = epoll::delete(&self.epoll, &one.socket);
        if self.all.is_empty() {
            self.all.shrink_to_fit();
        }
        Some(one)
    }
}
