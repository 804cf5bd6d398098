//! What users feel behind four limiters: figures 7 and 9 of \[BCPQP\], with players and browsers of the lab.

mod video;
mod web;

use std::process::ExitCode;

use tidegate_studies::experiment::{self, Report};

/// The limiters of both scenarios, in the order of their sweeps.
const LIMITERS: [&str; 4] = ["policer", "single queue", "DRR shaper", "BC-PQP"];

fn main() -> ExitCode {
    experiment::main("bcpqp-figure7", || {
        let mut report = Report {
            table: String::new(),
            pictures: Vec::new(),
        };
        video::run(&mut report)?;
        web::run(&mut report)?;
        Ok(report)
    })
}
