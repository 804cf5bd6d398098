//! Signals that end a command: the first one properly, a later one at once.

use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::iterator::Signals;
use tidegate_testbed::shell::is_ignored;

/// A signal within this time of the first one is the same request: timeout(1) sends its signal to the command, and then to
/// all processes of its group.
const SAME: Duration = Duration::from_millis(500);

/// The signals among these that this process does not ignore. What nohup(1), or a shell that starts a job in the background, lets it ignore stays
/// ignored.
pub fn caught(signals: &[c_int]) -> Vec<c_int> {
    let all = signals.iter().copied();
    all.filter(|&signal| !is_ignored(signal)).collect()
}

/// Calls a function at each of these signals. One that comes later than the first ends the process, as if it had not been
/// caught. The thread that waits for them has the rights that the caller has now.
pub fn on(signals: &[c_int], each: impl Fn(c_int) + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals)?;
    let wait = move || {
        let mut first = None;
        for signal in signals.forever() {
            each(signal);
            if first.get_or_insert_with(Instant::now).elapsed() > SAME {
                signal_hook::low_level::exit(128 + signal);
            }
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread
        .spawn(wait)
        .context("cannot start the thread that waits for signals")?;
    Ok(())
}
