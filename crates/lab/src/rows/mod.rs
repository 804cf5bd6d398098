//! The rows of simulations: points of a sweep, flows, connections, windows, elements, samples,
//! transfers.

/// Columns of rows that belong to a simulation: first those that identify the simulation, then
/// these.
macro_rules! simulation_columns {
    ($row:ty, |$r:ident| $of:expr; $($rest:tt)*) => {
        tidegate_table::columns! { $row;
            point: Integer [""] "The point of the sweep." = |$r| $of.point;
            parameters: Text [""] "What is varied, and its values at the point." = |$r| $of.parameters.to_string();
            seed: Integer [""] "The seed." = |$r| $of.seed;
            $($rest)*
        }
    };
}

/// Columns of rows that belong to a flow: first those that identify the flow, then these.
macro_rules! flow_columns {
    ($row:ty; $($rest:tt)*) => {
        simulation_columns! { $row, |r| r.flow.of;
            aggregate: Text [""] "The aggregate." = |r| r.flow.aggregate.clone();
            flow: Text [""] "The flow's name in the scenario." = |r| r.flow.name.clone();
            number: Integer [""] "Its number among the flows of the name in the aggregate, from 0." = |r| r.flow.number;
            $($rest)*
        }
    };
}

/// Columns of rows that belong to an element: first those that identify the element, then these.
macro_rules! element_columns {
    ($row:ty; $($rest:tt)*) => {
        simulation_columns! { $row, |r| r.element.of;
            element: Text [""] "The element's name in the scenario." = |r| r.element.name.clone();
            aggregate: Text [""] "The aggregate that it belongs to; missing if it is shared." = |r| r.element.aggregate.clone();
            $($rest)*
        }
    };
}

mod connection;
mod element;
mod flow;
mod parameters;
mod point;
mod sample;
mod transfer;
mod window;

use std::sync::Arc;

use crate::experiment::Finished;
use crate::scenario::Parameter;

pub use connection::LabConnectionRow;
pub use element::LabElementRow;
pub use flow::LabFlowRow;
pub use parameters::LabParameters;
pub use point::{LabPointRow, LabPoints};
pub use sample::LabSampleRow;
pub use transfer::LabTransferRow;
pub use window::LabWindowRow;

/// The simulation that a row belongs to.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The point of the sweep.
    pub point: u64,
    /// The varied keys, and their values at this point.
    pub parameters: Arc<str>,
    /// The seed.
    pub seed: u64,
}

impl Simulation {
    /// The simulation that was run; `parameters` are those of its point.
    pub fn new(finished: &Finished, parameters: &[Parameter]) -> Self {
        Self {
            point: finished.point as u64,
            parameters: label(parameters),
            seed: finished.seed,
        }
    }
}

/// The varied keys and their values at a point, as one text: the value of a `parameters` column.
pub fn label(parameters: &[Parameter]) -> Arc<str> {
    let parts: Vec<String> = parameters.iter().map(Parameter::to_string).collect();
    parts.join(", ").into()
}

/// The flow that a row belongs to.
#[derive(Debug, Clone)]
struct Flow {
    of: Simulation,
    aggregate: String,
    name: String,
    number: u64,
}

impl Flow {
    fn new(of: &Simulation, finished: &Finished, index: usize) -> Self {
        let flow = &finished.group.plan.flows[index];
        Self {
            of: of.clone(),
            aggregate: finished.group.plan.aggregates[flow.aggregate].clone(),
            name: flow.name.clone(),
            number: u64::from(finished.group.numbers[index]),
        }
    }
}

/// The element that a row belongs to.
#[derive(Debug, Clone)]
struct Element {
    of: Simulation,
    name: String,
    aggregate: Option<String>,
}

impl Element {
    fn new(of: &Simulation, finished: &Finished, index: usize) -> Self {
        let instance = &finished.group.elements[index];
        let name = |aggregate| finished.group.plan.aggregates.get(aggregate).cloned();
        Self {
            of: of.clone(),
            name: instance.name.clone(),
            aggregate: instance.aggregate.and_then(name),
        }
    }
}
