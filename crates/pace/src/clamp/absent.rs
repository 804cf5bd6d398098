//! Replaces the kernel's side if the crate is built without its feature `clamp`. There is no value of [`Clamp`], so
//! nothing here is ever called.

pub(crate) mod cgroup;
pub(crate) mod wire;

use std::io;
use std::os::fd::BorrowedFd;

use self::wire::{Record, Request};

#[derive(Debug)]
pub(crate) enum Never {}

#[derive(Debug)]
pub(crate) struct Clamp {
    never: Never,
    pub(crate) owner: u64,
    pub(crate) programs: Vec<u32>,
}

impl Clamp {
    pub(crate) fn set(&self, _: BorrowedFd<'_>, _: &Request) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn change(&self, _: BorrowedFd<'_>, _: &Request) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn remove(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn free(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn record(&self, _: BorrowedFd<'_>) -> io::Result<Option<Record>> {
        match self.never {}
    }

    pub(crate) fn holds(&self, _: BorrowedFd<'_>) -> bool {
        match self.never {}
    }
}
