//! The foreground of the terminal. An interactive shell takes it, and gives it back at its end. In a shell of ours it cannot: it is asked for the
//! number of a group outside, which has none in its namespace.

use std::io::stdin;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal's foreground, which this process's group has.
#[derive(Debug)]
pub struct Foreground(Pid);

impl Foreground {
    /// Notes it, if standard input is a terminal and this process is in its foreground.
    pub fn note() -> Option<Self> {
        let own = getpgrp();
        (tcgetpgrp(stdin()).ok()? == own).then_some(Self(own))
    }

    /// Takes it back from whoever has it now.
    pub fn take_back(self) {
        // The kernel would stop a process in the background that asks for it.
        let stop = SigSet::from(Signal::SIGTTOU);
        if stop.thread_block().is_ok() {
            // It fails if the terminal is gone.
            let _ = tcsetpgrp(stdin(), self.0);
            let _ = stop.thread_unblock();
        }
    }
}
