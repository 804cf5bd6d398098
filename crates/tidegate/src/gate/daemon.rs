//! The daemon: API and metrics beside limits that would hold without it.

use super::control::{Failure, Reloaded};
use super::desk::Desk;

/// Applies what has changed in the file, and logs what became of it.
pub fn reload(desk: &Desk) -> Result<Reloaded, Failure> {
    let done = desk.reload(None);
    match &done {
        Ok(done) => {
            let Reloaded {
                added,
                removed,
                changed,
                unchanged,
            } = done;
            tracing::info!(added, removed, changed, unchanged, "reloaded");
        }
        Err(error) => tracing::error!(%error, "not reloaded; all is as before"),
    }
    done
}
