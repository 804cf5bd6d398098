//! Policy enforcement of BC-PQP and its baselines: figure 6 of \[BCPQP\].

mod fairness;
mod nested;
mod weighted;

use std::process::ExitCode;

use tidegate_studies::experiment::{self, Report};

fn main() -> ExitCode {
    experiment::main("bcpqp-figure6", || {
        let mut report = Report {
            table: String::new(),
            pictures: Vec::new(),
        };
        weighted::run(&mut report)?;
        nested::run(&mut report)?;
        fairness::run(&mut report)?;
        Ok(report)
    })
}
