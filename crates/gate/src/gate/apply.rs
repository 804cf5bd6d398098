//! Makes changes to a data path.

use super::GateError;
use crate::change::Change;
use crate::path::{DataPath, PathError};
use crate::state::GateState;

/// Makes room for the plans that changes need. The plans of both states are kept, whether the change
/// succeeds or not.
pub(super) fn make_room<D: DataPath>(
    path: &mut D,
    from: &GateState,
    to: &GateState,
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

/// Makes changes in order, up to the first that fails.
pub(super) fn apply<D: DataPath>(
    path: &mut D,
    to: &GateState,
    changes: &[Change],
) -> Result<(), GateError> {
    for change in changes {
        let (done, doing) = match change {
            Change::Detach(attachment) => (
                path.detach(attachment),
                format!("detaching from {}", attachment.interface),
            ),
            Change::Settings => (
                path.set_settings(&to.settings()),
                "changing the settings for all packets".to_owned(),
            ),
            Change::Reserve(limiters) => (
                path.reserve(*limiters),
                format!("making room for {limiters} limiters"),
            ),
            Change::Plan(number, limits) => {
                let plan = limits.plan();
                let plan = plan.map_err(|error| PathError::from(error.to_string()));
                let node = to.nodes.number(limits.node.as_deref(), limits.direction);
                let put = plan.and_then(|plan| path.put_plan(*number, &plan.below(node)));
                (put, format!("storing plan {number}"))
            }
            Change::Node {
                number,
                node,
                fresh,
            } => (
                path.put_node(*number, node, *fresh),
                format!("storing node {number} of the network"),
            ),
            Change::Forget(limiter) => (
                path.forget(*limiter),
                format!("resetting limiter {limiter}"),
            ),
            Change::Seat(seats) => (
                path.seat(seats),
                format!(
                    "assigning {} addresses and tags to their limiters",
                    seats.len()
                ),
            ),
            Change::Unseat(matches) => (
                path.unseat(matches),
                format!("removing {} addresses and tags", matches.len()),
            ),
            Change::Ready(attachment) => (
                path.ready(attachment),
                format!("preparing to attach to {}", attachment.interface),
            ),
            Change::Attach(attachment) => (
                path.attach(attachment),
                format!("attaching to {}", attachment.interface),
            ),
        };
        done.map_err(|source| GateError::Path { doing, source })?;
    }
    Ok(())
}
