//! Work on all cores.

use std::sync::Mutex;

use anyhow::Result;

/// Works on every item, with as many threads as there are cores.
///
/// # Errors
/// The error of an item, when all threads have ended: one of them leaves the rest to the others.
pub fn on_all_cores<T: Send>(
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let items = Mutex::new(items);
    let next = || items.lock().ok().and_then(|mut items| items.next());
    let run = || std::iter::from_fn(next).try_for_each(&work);
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}
