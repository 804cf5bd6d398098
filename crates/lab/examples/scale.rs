//! How fast the lab is, by the number of flows that share a link: `cargo run --release -p tidegate-lab --example scale`.
//! Numbers of flows, and a congestion control, may follow (`scale 10 1000 bbr`), and a number of threads (`threads=1`); otherwise all cores are
//! used.

use std::error::Error;
use std::num::NonZero;
use std::time::Instant;

use tidegate_lab::experiment::{Settings, simulate};
use tidegate_lab::scenario::{Run, Scenario, Source};

/// Packets of each measurement, about.
const PACKETS: f64 = 8e6;

/// Flows that share 10 Gbit/s, for as long as about `PACKETS` take: data packets and half as many acknowledgements.
fn scenario(flows: u64, cc: &str) -> String {
    let seconds = PACKETS / (1.5 * 10e9 / (1514.0 * 8.0));
    format!(
        "duration = '{seconds:.2}s'\n\
         [[element]]\nname = 'link'\nkind = 'link'\nrate = '10gbit'\n\
         [[flow]]\nname = 'f'\ncount = {flows}\ncc = '{cc}'\nrtt = '10ms..60ms'\nstart = '0s..200ms'\npath = ['link']\n"
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut numbers, mut cc) = (Vec::new(), "cubic".to_owned());
    let mut jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
    for word in std::env::args().skip(1) {
        if let Some(threads) = word.strip_prefix("threads=") {
            jobs = threads.parse()?;
            continue;
        }
        match word.parse() {
            Ok(number) => numbers.push(number),
            Err(_) => cc = word,
        }
    }
    if numbers.is_empty() {
        numbers = vec![1, 10, 100, 1000, 5000, 10_000];
    }
    for flows in numbers {
        let text = scenario(flows, &cc);
        let scenario = Scenario::parse(Source {
            file: "scale",
            text: &text,
            settings: &[],
        })?;
        let run = Run {
            point: 0,
            seed: 1,
            taps: false,
        };
        for group in scenario.groups(run)? {
            let begun = Instant::now();
            let settings = Settings {
                jobs,
                ..Settings::default()
            };
            let done = simulate(&group.plan, "", settings)?;
            let seconds = begun.elapsed().as_secs_f64();
            let packets = done.map_or(0, |(outcome, _)| outcome.packets) as f64;
            println!(
                "lab-{cc}-{flows}-flows {:.2} Mpackets/s",
                packets / seconds / 1e6
            );
        }
    }
    Ok(())
}
