//! Doing changes to a data path.

use super::GateError;
use crate::change::Change;
use crate::path::{DataPath, PathError};
use crate::state::State;

/// Does changes; the first that fails ends it.
pub(super) fn apply<D: DataPath>(
    path: &mut D,
    to: &State,
    changes: &[Change],
) -> Result<(), GateError> {
    for change in changes {
        let (done, doing) = match change {
            Change::Detach(own) => (
                path.detach(own),
                format!("detaching from {}", own.interface),
            ),
            Change::Settings => (
                path.set_settings(&to.settings()),
                "changing what holds for all packets".to_owned(),
            ),
            Change::Reserve(limiters) => (
                path.reserve(*limiters),
                format!("making room for {limiters} limiters"),
            ),
            Change::Plan(number, limits) => {
                let plan = limits.plan().map_err(PathError::from);
                let put = plan.and_then(|plan| path.put_plan(*number, &plan));
                (put, format!("putting plan {number}"))
            }
            Change::Forget(limiter) => (
                path.forget(*limiter),
                format!("forgetting limiter {limiter}"),
            ),
            Change::Seat(direction, seats) => (
                path.seat(*direction, seats),
                format!(
                    "leading {} addresses and tags to their limiters",
                    seats.len()
                ),
            ),
            Change::Unseat(direction, matches) => (
                path.unseat(*direction, matches),
                format!("removing {} addresses and tags", matches.len()),
            ),
            Change::Attach(own) => (path.attach(own), format!("attaching to {}", own.interface)),
        };
        done.map_err(|source| GateError::Path { doing, source })?;
    }
    Ok(())
}
