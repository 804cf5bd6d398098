//! The daemon: API and metrics beside limits that would hold without it.

use super::control::{Failure, Reloaded};
use super::desk::Desk;

/// Applies what has changed in the file, and logs what became of it.
pub fn reload(desk: &Desk) -> Result<Reloaded, Failure> {
    let done = desk.reload(None);
    match &done {
        Ok(done) => {
            let &Reloaded {
                added,
                removed,
                limited,
                moved,
                unchanged,
                ..
            } = done;
            tracing::info!(added, removed, limited, moved, unchanged, "reloaded");
            for subscriber in &done.reset {
                tracing::warn!(
                    subscriber,
                    "what was set live no longer holds: the file changed"
                );
            }
            for place in &done.missing {
                tracing::warn!(place, "packets are not taken there");
            }
        }
        Err(error) => tracing::error!(%error, "not reloaded; all is as before"),
    }
    done
}
