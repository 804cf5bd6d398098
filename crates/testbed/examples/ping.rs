//! Two hosts with a link between them, and the output of `ping`. It needs root:
//!
//! ```sh
//! cargo build --example ping && sudo target/debug/examples/ping
//! ```

use std::error::Error;

use tidegate_limiter::Prefix;
use tidegate_testbed::link::{Ends, Link, LinkPlan};
use tidegate_testbed::namespace::Namespace;

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = (Namespace::new()?, Namespace::new()?);
    let ends = Ends {
        near: here.port("eth0")?,
        far: there.port("eth0")?,
    };
    // Nanoseconds.
    let round_trip = |time| LinkPlan {
        round_trips: vec![(Prefix::ALL, time)],
        ..LinkPlan::default()
    };
    let link = Link::new(ends, &round_trip(20_000_000))?;
    here.address("eth0", [192, 0, 2, 1].into(), 24)?;
    there.address("eth0", [192, 0, 2, 2].into(), 24)?;
    for time in [20_000_000, 80_000_000] {
        link.set(&round_trip(time))?;
        print!("{}", here.run("ping", "-c 3 -i 0.2 192.0.2.2")?);
    }
    let report = link.finish()?;
    println!("late by at most {} us", report.lateness.max / 1000);
    Ok(())
}
