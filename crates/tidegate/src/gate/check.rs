//! `tidegate gate check`: the mistakes in configurations, and the limits that they would set.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use tidegate_gate::Footprint;
use tidegate_gate::calendar::Terms;
use tidegate_gate::config::{Config, Listen, Problem};
use tidegate_gate::limits::Limits;
use tidegate_gate::table::{Direction, Match};

use super::{commands, dpdk, remote};
use crate::cli::gate::Check;
use crate::exit::Exit;
use crate::output::Output;
use crate::units::{bytes, count, plural};

mod files;

pub fn run(options: &Check) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    let mut exit = Exit::Done;
    let on_dpdk = !options.devices.dpdk.is_empty();
    for file in &options.files {
        match Config::read_as(file, options.imports.lenient) {
            Ok(config) => {
                let mut said = warnings(&config, on_dpdk);
                if on_dpdk {
                    let wrong = dpdk::mistakes(&config, &options.devices)?.into_iter();
                    said.extend(wrong.map(|text| format!("the daemon would not start: {text}")));
                }
                summary(&mut out, &config, &said, on_dpdk)?;
            }
            Err(errors) => {
                // Keeps the order of the files where both outputs go to one terminal.
                out.flush()?;
                eprintln!("{errors}");
                exit = Exit::Failed;
            }
        }
    }
    out.commit()?;
    Ok(exit)
}

/// Writes the limits that a configuration would set, in the kernel or on DPDK.
fn summary(
    out: &mut impl Write,
    config: &Config,
    warnings: &[String],
    on_dpdk: bool,
) -> io::Result<()> {
    writeln!(out, "{} is valid", config.file.display())?;
    for attachment in &config.attachments {
        let (interface, hook) = (&attachment.interface, attachment.hook);
        let hook = match on_dpdk {
            true => hook.on_dpdk(),
            false => hook,
        };
        let hook = hook.name();
        let way = attachment.direction.name();
        writeln!(out, "  {interface:<15} {hook:<11} {way}")?;
    }
    let subscribers = config.subscribers.len() as u64;
    if !config.nodes.is_empty() {
        let below = config.subscribers.iter();
        let below = below.filter(|one| one.declared.parent.is_some()).count() as u64;
        writeln!(
            out,
            "  {} of the network, with {} below them",
            plural(config.nodes.len() as u64, "node", "nodes"),
            plural(below, "subscriber", "subscribers"),
        )?;
    }
    let (mut prefixes, mut tags) = (0, 0);
    let mut limits: HashSet<&Arc<Limits>> = HashSet::new();
    for subscriber in &config.subscribers {
        limits.extend([&subscriber.limits.down, &subscriber.limits.up]);
        for one in &subscriber.declared.matches {
            match one {
                Match::Prefix(_) => prefixes += 1,
                _ => tags += 1,
            }
        }
    }
    writeln!(
        out,
        "  {} with {} and {}",
        plural(subscribers, "subscriber", "subscribers"),
        plural(prefixes, "prefix", "prefixes"),
        plural(tags, "tag or session", "tags or sessions"),
    )?;
    writeln!(
        out,
        "  {}, {} of rates and sizes",
        plural(config.plans.len() as u64, "plan", "plans"),
        plural(limits.len() as u64, "combination", "combinations"),
    )?;
    if let Ok(Footprint { tables, entries }) = Footprint::of(config)
        && !on_dpdk
    {
        let flows = config
            .watch
            .as_ref()
            .map_or("", |_| " and the watched flows");
        writeln!(
            out,
            "  at most {} of kernel memory: {} of tables, which every gate has, and {} for these subscribers{flows}",
            bytes(tables + entries),
            bytes(tables),
            bytes(entries),
        )?;
    }
    let usual = Listen::Unix(remote::socket(&config.state));
    let api = config.api.as_ref().map_or(&usual, |api| &api.listen);
    writeln!(out, "  the daemon serves its API on {api}")?;
    if let Some(metrics) = &config.metrics {
        let (listed, queues) = (metrics.subscribers as u64, metrics.queues as u64);
        writeln!(
            out,
            "  metrics on {}, of at most {} subscribers, and of the queues of at most {}",
            metrics.listen,
            count(listed),
            count(queues.min(listed)),
        )?;
    }
    for warning in warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    let skipped = &config.skipped;
    let mistakes: Vec<_> = skipped.problems.iter().map(Problem::in_short).collect();
    commands::skipped(out, "  ", skipped.lines as u64, &mistakes)?;
    Ok(())
}

/// Warnings: settings that are valid but may be unintended, or would not start on this machine.
fn warnings(config: &Config, on_dpdk: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    // This file is about the network namespace of this process. sysfs may be about another one.
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: HashSet<&str> = devices
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .collect();
    let mut seen = HashSet::new();
    for attachment in &config.attachments {
        let name = attachment.interface.as_str();
        // The kernel no longer has the devices of DPDK.
        if seen.insert(name) && !on_dpdk && !names.contains(name) {
            warnings.push(format!(
                "there is no interface {name} on this machine at present"
            ));
        }
    }
    for direction in Direction::BOTH {
        let mut attachments = config.attachments.iter();
        if !attachments.any(|one| one.direction == direction) {
            let way = direction.name();
            warnings.push(format!(
                "no interface is set up for the direction {way}: traffic in that direction is not limited"
            ));
        }
    }
    if !on_dpdk {
        warnings.extend(config.only_on_dpdk());
    }
    warnings.extend(config.doubts());
    warnings.extend(commands::needs_daemon(config).map(str::to_owned));
    if config.subscribers.is_empty() {
        warnings.push("there are no subscribers: nothing is limited".into());
    }
    let mut used = HashSet::new();
    used.extend(
        config
            .subscribers
            .iter()
            .filter_map(|one| one.declared.plan.as_deref()),
    );
    let terms = config.plans.iter().map(|(_, plan)| &plan.terms);
    used.extend(terms.flat_map(Terms::plans));
    let unused: Vec<_> = config
        .plans
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !used.contains(name))
        .collect();
    if !unused.is_empty() {
        warnings.push(format!(
            "no subscriber has these plans: {}",
            unused.join(", ")
        ));
    }
    warnings.extend(files::warnings(config));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::testing::Site;

    const MORE: &str = r#"
[[interface]]
name = "notthere0"
side = "access"
[plan.lead]
down = "1mbit"
[plan.slow]
down = "1mbit"
[plan.day]
down = "1mbit"
[[plan.day.schedule]]
plan = "slow"
from = "22:00"
to = "06:00"
[[subscriber]]
name = "daily"
plan = "day"
addresses = "192.0.2.99"
[api]
listen = "0.0.0.0:9642"
token = "/nonexistent/token"
"#;

    #[test]
    fn says_what_would_run_and_what_may_not_be_meant() {
        let text = Site::FILE.to_owned() + MORE;
        let config = Config::parse("gate.toml".as_ref(), text, &|_| Err("no".into()))
            .expect("a configuration");
        let warnings = warnings(&config, false);
        let mut out = Vec::new();
        summary(&mut out, &config, &warnings, false).expect("written");
        let out = String::from_utf8(out).expect("text");
        for part in [
            "gate.toml is valid\n",
            "notthere0       tc-ingress  up\n",
            "3 subscribers with 3 prefixes and 1 tag or session\n",
            "5 plans, 5 combinations",
            "warning: there is no interface notthere0 ",
            "warning: no subscriber has these plans: lead\n",
            "warning: the daemon would not start: gate.toml: cannot read the token file /nonexistent/token",
            "of kernel memory: ",
        ] {
            assert!(out.contains(part), "{part} is not in\n{out}");
        }
        let daemon = "plans with `schedule` or `quota` only change while a daemon runs";
        assert!(warnings.iter().any(|warning| warning.contains(daemon)));
        assert_eq!(warnings.len(), 4);
        let mut out = Vec::new();
        summary(&mut out, &config, &[], true).expect("written");
        let out = String::from_utf8(out).expect("text");
        assert!(out.contains("notthere0       dpdk-ingress up\n"), "{out}");
        assert!(!out.contains("kernel"), "{out}");
        assert!(
            !super::warnings(&config, true)
                .iter()
                .any(|text| text.contains("notthere0"))
        );
    }
}
