//! Prints Table 3 of [Flach16 §3.1], simulated: every rate and size, and where detectors are wrong.

use std::process::ExitCode;

use tidegate_studies::experiment::{self, Report};
use tidegate_studies::table3_lab;

fn main() -> ExitCode {
    experiment::main("flach16-table3-lab", || {
        Ok(Report {
            table: table3_lab::report()?,
            pictures: Vec::new(),
        })
    })
}
