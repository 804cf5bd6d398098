//! What a shell cannot do without: its rules, its link, and its way outside. When one of them ends early, the shell's first
//! process is killed, and the kernel ends all others of the shell.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::TestbedError;

/// Shared by all that a shell cannot do without.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    /// The first process of the shell, once there is one.
    Open(Option<Pid>),
    /// The shell ends as it should.
    Closed,
    /// This has ended early.
    Lost(&'static str),
}

impl Default for State {
    fn default() -> Self {
        Self::Open(None)
    }
}

impl Guard {
    /// From now on, this process is killed when anything ends early.
    pub(super) fn protect(&self, first: u32) -> Result<(), TestbedError> {
        let first = Pid::from_raw(first as i32);
        let mut state = self.lock();
        if let State::Open(protected) = &mut *state {
            *protected = Some(first);
            return Ok(());
        }
        drop(state);
        let _ = kill(first, Signal::SIGKILL);
        self.check()
    }

    /// This has ended. That is early, unless the shell ends.
    pub(super) fn lose(&self, part: &'static str) {
        let mut state = self.lock();
        if let State::Open(first) = *state {
            if let Some(first) = first {
                // It may just have ended.
                let _ = kill(first, Signal::SIGKILL);
            }
            *state = State::Lost(part);
        }
    }

    /// The shell ends: from now on, its parts may end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        if let State::Open(_) = *state {
            *state = State::Closed;
        }
    }

    /// Whether nothing has ended early.
    pub(super) fn check(&self) -> Result<(), TestbedError> {
        match *self.lock() {
            State::Lost(part) => Err(TestbedError::Command(
                part.into(),
                "it has ended, and the shell with it".into(),
            )),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
