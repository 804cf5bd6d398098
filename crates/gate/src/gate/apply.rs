//! Doing changes to a data path.

use super::GateError;
use crate::change::Change;
use crate::path::{DataPath, PathError};
use crate::state::State;

/// Makes room for the plans that changes bring, if they bring any: all of the states that they lead
/// from and to are kept, whatever comes of it.
pub(super) fn make_room<D: DataPath>(
    path: &mut D,
    from: &State,
    to: &State,
    changes: &[Change],
) -> Result<(), GateError> {
    let plans = changes.iter();
    let plans = plans.filter(|change| matches!(change, Change::Plan(..)));
    let plans = plans.count();
    if plans == 0 {
        return Ok(());
    }
    let kept = |number| {
        [from, to]
            .iter()
            .any(|state| state.plans.get(number).is_some())
    };
    path.make_room(plans, &kept)
        .map_err(|source| GateError::Path {
            doing: format!("making room for {plans} plans"),
            source,
        })
}

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
