//! `tidegate gate status`: tables and JSON.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use tidegate_gate::Direction;
use tidegate_gate::control::{Control, ControlError, inspect};
use tidegate_gate::reading::Reading;
use tidegate_table::csv;

use super::remote::{self, Remote};
use super::view::felt::{LineJson, SegmentsJson, TripsJson};
use super::view::{self, Counted, Limited, NodeJson, Status, SubscriberJson};
use crate::cli::gate::{self, SortStatus};
use crate::exit::Exit;
use crate::output::Output;
use crate::table::Paint;
use crate::units::{bytes, count, percent, plural, rate, time};

#[cfg(test)]
mod tests;

/// Most columns of names of subscribers and nodes, and of plans: the table should fit into a terminal.
const LONGEST_NAME: usize = 40;
const LONGEST_PLAN: usize = 20;

/// Shows a gate that this process can read.
pub fn run(
    options: &gate::Status,
    control: &mut dyn Control,
    state: &Path,
    paint: Paint,
) -> anyhow::Result<Exit> {
    if let Some(name) = &options.name {
        return one(options, &subscriber_json(control, name)?, paint);
    }
    let reading = control.read()?;
    let status = Status {
        // Only the daemon knows it.
        pair: Remote::pair(state),
        ..view::status(&control.overview()?, &reading)
    };
    let (sort, most) = match options.csv {
        true => (SortStatus::Name, usize::MAX),
        false => (options.sort, most(options)),
    };
    all(options, &status, &sorted(&reading, sort, most), paint)
}

/// Shows a gate whose limits are in the process of its daemon, which is asked.
pub fn ask(options: &gate::Status, state: &Path, paint: Paint) -> anyhow::Result<Exit> {
    if let Some(name) = &options.name {
        let path = format!("/v1/subscribers/{}", remote::encoded(name));
        return one(options, &remote::daemon(state)?.get(&path)?, paint);
    }
    let (status, mut subscribers) = remote::everything(state)?;
    if !options.csv {
        subscribers.sort_by_key(|one| {
            let sum = |of: fn(&Counted) -> u64| {
                let both = [&one.down, &one.up].into_iter().flatten();
                both.map(|limited| of(&limited.counted)).sum::<u64>()
            };
            std::cmp::Reverse(match options.sort {
                SortStatus::Bytes => sum(|counted| counted.passed_bytes + counted.excess_bytes),
                SortStatus::Drops => sum(|counted| counted.excess_packets),
                SortStatus::Name => 0,
            })
        });
        subscribers.truncate(most(options));
    }
    all(options, &status, &subscribers, paint)
}

/// The number of subscribers to show.
fn most(options: &gate::Status) -> usize {
    if options.all {
        usize::MAX
    } else {
        options.limit
    }
}

fn one(options: &gate::Status, subscriber: &SubscriberJson, paint: Paint) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    if options.json {
        json(&mut out, subscriber)?;
    } else {
        detail(&mut out, subscriber, paint)?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

fn all(
    options: &gate::Status,
    status: &Status,
    subscribers: &[SubscriberJson],
    paint: Paint,
) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    if options.csv {
        csv(&mut out, subscribers)?;
    } else if options.json {
        let all = All {
            status,
            listed: subscribers,
        };
        json(&mut out, &all)?;
    } else {
        whole(&mut out, status, paint)?;
        list(&mut out, subscribers, paint)?;
        let hidden = status.subscribers - subscribers.len() as u64;
        if hidden > 0 {
            let more = plural(hidden, "subscriber", "subscribers");
            writeln!(
                out,
                "{more} not shown: --all shows all, NAME shows one with its queues"
            )?;
        }
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// Both in the form of the HTTP API.
#[derive(Serialize)]
struct All<'a> {
    status: &'a Status,
    #[serde(rename = "subscribers")]
    listed: &'a [SubscriberJson],
}

fn json(out: &mut Output, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// The counters of these subscribers.
fn csv(out: &mut impl Write, subscribers: &[SubscriberJson]) -> io::Result<()> {
    writeln!(
        out,
        "name,plan,direction,rate_bps,passed_packets,passed_bytes,excess_packets,excess_bytes,marked_packets"
    )?;
    for subscriber in subscribers {
        let both = both(&subscriber.down, &subscriber.up).into_iter();
        for (direction, limited) in both.filter_map(|(name, one)| Some((name, one.as_ref()?))) {
            let counted = &limited.counted;
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{}",
                csv::field(&subscriber.name),
                csv::field(subscriber.plan.as_deref().unwrap_or("")),
                direction,
                limited
                    .rate
                    .map_or_else(String::new, |rate| rate.to_string()),
                counted.passed_packets,
                counted.passed_bytes,
                counted.excess_packets,
                counted.excess_bytes,
                counted.marked_packets,
            )?;
        }
    }
    Ok(())
}

fn subscriber_json(control: &mut dyn Control, name: &str) -> Result<SubscriberJson, ControlError> {
    Ok(view::detail(&inspect(control, name)?))
}

fn sorted(reading: &Reading, sort: SortStatus, most: usize) -> Vec<SubscriberJson> {
    let key = |&index: &usize| {
        let counters = reading.counters[index];
        let both = counters.down.plus(counters.up);
        let weight = match sort {
            SortStatus::Bytes => both.passed_bytes.saturating_add(both.excess_bytes),
            SortStatus::Drops => both.excess_packets,
            SortStatus::Name => 0,
        };
        (std::cmp::Reverse(weight), index)
    };
    let mut indices: Vec<usize> = (0..reading.counters.len()).collect();
    indices.sort_unstable_by_key(key);
    indices.truncate(most);
    let indices = indices.into_iter();
    indices
        .map(|index| view::subscriber(reading, index))
        .collect()
}

/// The gate as a whole.
fn whole(out: &mut impl Write, status: &Status, paint: Paint) -> io::Result<()> {
    writeln!(out, "{} {}", paint.bold("gate"), status.file)?;
    for attached in &status.attachments {
        let (interface, hook) = (&attached.interface, &attached.hook);
        let way = &attached.direction;
        write!(out, "  {interface:<15} {hook:<11} {way}")?;
        if !attached.attached {
            write!(out, "  {}", paint.alarm("not attached: nothing is limited"))?;
        }
        match attached.link {
            Some(true) => write!(out, "  link up")?,
            Some(false) => write!(out, "  {}", paint.alarm("no link: no packet passes"))?,
            None => {}
        }
        if let Some(now) = &attached.renamed {
            write!(
                out,
                "  the interface is named {now} now: rename it in the file"
            )?;
        }
        writeln!(out)?;
    }
    if status.attachments.is_empty() {
        writeln!(
            out,
            "  {}",
            paint.alarm("attached to no interface: nothing is limited")
        )?;
    }
    let set = match status.set {
        0 => String::new(),
        set => format!(", {} set live", count(set)),
    };
    writeln!(
        out,
        "{}{set}, {}",
        plural(status.subscribers, "subscriber", "subscribers"),
        plural(status.plans, "plan", "plans"),
    )?;
    if status.shadow {
        let text = "shadow: nothing is dropped or marked, the counts say what would be";
        writeln!(out, "  {}", paint.alarm(text))?;
    }
    if status.stands_by == Some(false) {
        let text = "no process stands by: if the daemon dies, no packet passes";
        writeln!(out, "  {}", paint.alarm(text))?;
    }
    if status.unsettled {
        let text = "a change was made only in part: `tidegate gate reload` tries again";
        writeln!(out, "  {}", paint.alarm(text))?;
    }
    if !status.outdated.is_empty() {
        let names = status.outdated.join(", ");
        let text = format!(
            "{names}: of another version of tidegate; restart the daemon to replace them, or run `tidegate gate reload` without one"
        );
        writeln!(out, "  {}", paint.alarm(&text))?;
    }
    for (way, counted) in both(&status.down, &status.up) {
        writeln!(
            out,
            "  {way:<5} {:>9} passed, {:>9} beyond limits ({} of packets){}",
            bytes(counted.passed_bytes),
            bytes(counted.excess_bytes),
            percent(drop_share(counted)),
            marked(counted),
        )?;
    }
    nodes(out, &status.nodes, paint)?;
    for (line, is_wrong) in status.pair.iter().flat_map(|pair| pair.lines()) {
        match is_wrong {
            true => writeln!(out, "  {}", paint.alarm(&line))?,
            false => writeln!(out, "  {line}")?,
        }
    }
    if let Some(line) = &status.line {
        felt(out, line, "  ")?;
    }
    let seen = status.unlimited.iter().filter(|one| one.packets > 0);
    let seen: Vec<String> = seen
        .map(|one| format!("{} {}", count(one.packets), one.reason.replace('_', " ")))
        .collect();
    if !seen.is_empty() {
        writeln!(out, "  packets without a limiter: {}", seen.join(", "))?;
    }
    writeln!(out)
}

/// What lines feel, in two lines.
fn felt(out: &mut impl Write, line: &LineJson, indent: &str) -> io::Result<()> {
    let trip = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| time((ms * 1e6) as u64));
    let trips =
        |trips: &TripsJson| format!("{} (95 %: {})", trip(trips.p50_ms), trip(trips.p95_ms));
    let score = line
        .score
        .map_or("-".to_owned(), |score| format!("{score:.0}"));
    writeln!(
        out,
        "{indent}round trips  access {}, core {}",
        trips(&line.access),
        trips(&line.core),
    )?;
    let again = |segments: &SegmentsJson| segments.again_share.map_or("-".to_owned(), percent);
    writeln!(
        out,
        "{indent}sent again   {} down, {} up; score {score} of 100",
        again(&line.down),
        again(&line.up),
    )
}

/// The nodes of the network, the full ones marked.
fn nodes(out: &mut impl Write, nodes: &[NodeJson], paint: Paint) -> io::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let name = |node: &NodeJson| node.name.chars().count();
    let width = nodes.iter().map(name).max().unwrap_or(0);
    let width = width.clamp(10, LONGEST_NAME);
    let heading = format!(
        "  {:<width$} {:<4} {:>11} {:>11} {:>6}",
        "NODE", "WAY", "CAPACITY", "RATE", "SHARE"
    );
    writeln!(out, "{}", paint.dim(&heading))?;
    for node in nodes {
        let mut title = cut(&node.name, width);
        for (way, load) in both(&node.down, &node.up) {
            write!(
                out,
                "  {title:<width$} {way:<4} {:>11} {:>11} {:>6}",
                rate(load.capacity as f64),
                rate(load.rate as f64),
                percent(load.share),
            )?;
            if load.full {
                write!(out, "  {}", paint.alarm("full"))?;
            }
            writeln!(out)?;
            // The second line of a node has no name.
            title.clear();
        }
    }
    Ok(())
}

/// What is to be shown of each direction, with the direction's name.
fn both<T>(down: T, up: T) -> [(&'static str, T); 2] {
    [(Direction::Down.name(), down), (Direction::Up.name(), up)]
}

fn drop_share(counted: &Counted) -> f64 {
    share_of(counted, counted.excess_packets)
}

fn mark_share(counted: &Counted) -> f64 {
    share_of(counted, counted.marked_packets)
}

/// The share of this many packets in all that came.
fn share_of(counted: &Counted, packets: u64) -> f64 {
    let all = counted
        .passed_packets
        .saturating_add(counted.excess_packets);
    if all == 0 {
        0.0
    } else {
        packets as f64 / all as f64
    }
}

/// What follows the counts of packets, if any were marked.
fn marked(counted: &Counted) -> String {
    match counted.marked_packets {
        0 => String::new(),
        _ => format!(", {} marked", percent(mark_share(counted))),
    }
}

fn list(out: &mut impl Write, subscribers: &[SubscriberJson], paint: Paint) -> io::Result<()> {
    if subscribers.is_empty() {
        return Ok(());
    }
    let name = |one: &SubscriberJson| {
        let mark = if one.set { "*" } else { "" };
        format!("{}{mark}", one.name)
    };
    let plan = |one: &SubscriberJson| one.plan.clone().unwrap_or("-".into());
    let longest = |text: &dyn Fn(&SubscriberJson) -> String| {
        let lengths = subscribers.iter().map(|one| text(one).chars().count());
        lengths.max().unwrap_or(0)
    };
    let (width, plan_width) = (
        longest(&name).clamp(10, LONGEST_NAME),
        longest(&plan).clamp(10, LONGEST_PLAN),
    );
    let heading = format!(
        "{:<width$} {:<plan_width$} {:<4} {:>11} {:>9} {:>9} {:>6} {:>6}",
        "SUBSCRIBER", "PLAN", "WAY", "LIMIT", "PASSED", "BEYOND", "DROPS", "MARKS"
    );
    writeln!(out, "{}", paint.dim(&heading))?;
    for one in subscribers {
        let mut title = (cut(&name(one), width), cut(&plan(one), plan_width));
        for (way, limited) in both(&one.down, &one.up) {
            let Some(limited) = limited else {
                continue;
            };
            let counted = &limited.counted;
            writeln!(
                out,
                "{:<width$} {:<plan_width$} {way:<4} {:>11} {:>9} {:>9} {:>6} {:>6}",
                title.0,
                title.1,
                limit(one, limited),
                bytes(counted.passed_bytes),
                bytes(counted.excess_bytes),
                percent(drop_share(counted)),
                percent(mark_share(counted)),
            )?;
            // The second line of a subscriber has no name.
            title = Default::default();
        }
    }
    if subscribers.iter().any(|one| one.set) {
        writeln!(out, "* set live: differs from the configuration")?;
    }
    Ok(())
}

/// The limit of a direction of a subscriber.
fn limit(one: &SubscriberJson, limited: &Limited) -> String {
    match limited.rate {
        _ if one.suspended => "suspended".into(),
        limit => limit.map_or("-".into(), |limit| rate(limit as f64)),
    }
}

/// A text that fits into a column: an ellipsis stands for what does not.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// Why another plan than that of a subscriber is in force.
pub fn turned(one: &SubscriberJson) -> String {
    let Some(turn) = one.turn.as_deref() else {
        return String::new();
    };
    let why = match turn {
        "quota" => "its quota is used up",
        _ => "of the time of day",
    };
    let base = one.base_plan.as_deref().unwrap_or("none");
    format!(" instead of {base}, because {why}")
}

/// One subscriber, with its queues.
fn detail(out: &mut impl Write, one: &SubscriberJson, paint: Paint) -> io::Result<()> {
    let set = if one.set { ", set live" } else { "" };
    let name = paint.bold(&one.name);
    let plan = match &one.plan {
        Some(plan) => format!("plan {plan}"),
        None => "no plan".to_owned(),
    };
    write!(out, "{name}  {plan}{set}{}", turned(one))?;
    if let Some(node) = &one.parent {
        write!(out, ", below {node}")?;
    }
    if one.suspended {
        write!(
            out,
            ", {}",
            paint.alarm("suspended: all packets are dropped")
        )?;
    }
    writeln!(out)?;
    let live = if one.moved { " (changed live)" } else { "" };
    let matches = match one.matches.is_empty() {
        true => "no addresses or tags".to_owned(),
        false => one.matches.join(", "),
    };
    writeln!(out, "{matches}{live}")?;
    if !one.users.is_empty() {
        writeln!(out, "users of RADIUS: {}", one.users.join(", "))?;
    }
    if !one.from.is_empty() {
        writeln!(out, "from {}", one.from.join(", "))?;
    }
    for (key, value) in one.keys.iter().flatten() {
        writeln!(out, "{key} = {value} (set live)")?;
    }
    if let Some(line) = &one.line {
        felt(out, line, "")?;
    }
    for (way, limited) in both(&one.down, &one.up) {
        let Some(limited) = limited else {
            writeln!(out, "\n{way}  no limiter")?;
            continue;
        };
        let counted = &limited.counted;
        writeln!(
            out,
            "\n{}  {}, {} ({} packets) passed, {} ({}) beyond it ({} of packets){}",
            paint.bold(way),
            match one.suspended {
                true => "suspended".to_owned(),
                false => format!("limit {}", limit(one, limited)),
            },
            bytes(counted.passed_bytes),
            count(counted.passed_packets),
            bytes(counted.excess_bytes),
            count(counted.excess_packets),
            percent(drop_share(counted)),
            marked(counted),
        )?;
        if let Some(boost) = &limited.boost {
            let (saved, most) = (bytes(boost.saved_bytes), bytes(boost.most_bytes));
            writeln!(out, "boost: {saved} of {most} saved")?;
        }
        let queues = limited.queues.as_deref().unwrap_or_default();
        let used = |queue: &view::Queue| queue.passed_bytes > 0 || queue.excess_bytes > 0;
        if !queues.iter().any(used) {
            continue;
        }
        let heading = format!(
            "{:>5} {:>9} {:>9} {:>9} {:>9}",
            "QUEUE", "LENGTH", "MAGIC", "PASSED", "BEYOND"
        );
        writeln!(out, "{}", paint.dim(&heading))?;
        for (number, queue) in queues.iter().enumerate().filter(|(_, queue)| used(queue)) {
            writeln!(
                out,
                "{number:>5} {:>9} {:>9} {:>9} {:>9}",
                bytes(queue.length),
                bytes(queue.magic),
                bytes(queue.passed_bytes),
                bytes(queue.excess_bytes),
            )?;
        }
    }
    Ok(())
}
