//! A progress bar for simulations, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_lab::Nanos;

use crate::units::time;

/// A bar on standard error, in seconds of virtual time.
pub fn bar(work: Nanos, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(work / 1_000_000);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let template = "{bar:30} {percent:>3}%  {msg}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Does something while the bar follows its progress.
pub fn watched<T>(bar: &ProgressBar, progress: &AtomicU64, work: impl FnOnce() -> T) -> T {
    if bar.is_hidden() {
        return work();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let now = progress.load(Ordering::Relaxed);
                bar.set_message(format!("{} simulated", time(now)));
                bar.set_position(now / 1_000_000);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        // Also if the work should panic: the scope waits for the bar.
        let _done = Raise(&done);
        work()
    })
}

/// Raises a flag in the end.
struct Raise<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
