//! The advice for people.

use std::fmt::Write as _;

use tidegate_limiter::{Bytes, Rate};

use crate::advice::{Advice, Choice};
use crate::chance::Mean;
use crate::claim::Claim;
use crate::effect::Effect;
use crate::gate_file;
use crate::remedy::Change;
use crate::router::{self, Vendor};
use crate::setting::{ETHERNET, FULL, Kind, Setting};
use crate::trial::PAGE;

/// Where today's limit was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Whose configuration it is, if it is one.
    pub vendor: Option<Vendor>,
    /// The line of the configuration, or the name of a capture.
    pub place: Option<String>,
    /// What was assumed when it was read, in sentences.
    pub assumed: Vec<String>,
}

/// The whole advice as text.
pub fn text(advice: &Advice, origin: &Origin) -> String {
    let mut out = String::new();
    // Writing to a text cannot fail.
    let _ = writeln!(out, "{}\n", headline(advice, origin));
    let _ = writeln!(out, "{}\n", verdict(advice));
    promised(&mut out, advice);
    table(&mut out, advice);
    who(&mut out, advice);
    why(&mut out, advice);
    how(&mut out, advice, origin);
    out.push_str("\nAssumed\n");
    for note in assumed(advice, origin) {
        paragraph(&mut out, &note);
    }
    out
}

fn headline(advice: &Advice, origin: &Origin) -> String {
    let vendor = origin.vendor.map(|vendor| vendor.name().to_owned());
    let place = [vendor, origin.place.clone()].into_iter().flatten();
    let place: Vec<String> = place.collect();
    let place = match place.is_empty() {
        true => String::new(),
        false => format!(" ({})", place.join(", ")),
    };
    format!("Today: {}{place}.", limit(&advice.situation.today))
}

/// A limit in words.
fn limit(setting: &Setting) -> String {
    let rate = setting.rate;
    match setting.kind {
        Kind::Policer { burst } => {
            format!("a policer of {rate} with a bucket of {}", Bytes::new(burst))
        }
        Kind::Shaper { queue, burst } => {
            let passes = match burst {
                FULL => String::new(),
                burst => format!(", which lets {} pass at once", Bytes::new(burst)),
            };
            let queue = Bytes::new(queue);
            format!("a shaper of {rate} with a queue of {queue}{passes}")
        }
        Kind::BcPqp { .. } => format!("BC-PQP of {rate}"),
    }
}

/// What today's limit does, and what to set instead, in a few sentences.
fn verdict(advice: &Advice) -> String {
    let today = &advice.today().effect;
    let situation = &advice.situation;
    let whom = match (situation.compares_users(), situation.total()) {
        (true, _) => format!("The slowest of {} users gets", situation.users),
        (false, 1) => "A download gets".to_owned(),
        (false, flows) => format!("The slowest of {flows} downloads gets"),
    };
    let of = match situation.total() {
        1 => "the rate",
        _ => "its equal share",
    };
    let now = format!(
        "{whom} {} of {of}, and {} of the packets are dropped. A short transfer of {} takes {} (median).",
        percent(today.slowest),
        percent(today.loss),
        Bytes::new(PAGE),
        page_time(today),
    );
    let Some(chosen) = advice.chosen() else {
        let why = match advice.effort.seeds {
            1 => {
                "Nothing is advised: one simulation does not tell a better limit from chance, more --seeds do."
            }
            _ => {
                "Leave it as it is: no limit that was simulated does clearly better. Servers can: see `senders pace`."
            }
        };
        return format!("{now}\n{why}");
    };
    let then = &chosen.effect;
    format!(
        "{now}\nSet instead: {}. The lab predicts {} of {of}, {} of packets dropped, and {} for a short transfer.",
        chosen.remedy.words(),
        percent(then.slowest),
        percent(then.loss),
        page_time(then),
    )
}

/// The median time of short transfers, or that it is longer.
fn page_time(effect: &Effect) -> String {
    let more = match effect.page_is_bound() {
        true => "more than ",
        false => "",
    };
    format!("{more}{}", seconds(effect.page_s))
}

/// By how much the chosen limit improves what users feel, as far as it is known, and what it makes worse.
fn promised(out: &mut String, advice: &Advice) {
    let (claims, costs) = (advice.claims(), advice.costs());
    if !claims.is_empty() {
        let _ = writeln!(out, "What it improves");
        for claim in claims {
            let _ = writeln!(out, "{}{}", change(&claim), how_sure(&claim));
        }
        out.push('\n');
    }
    if !costs.is_empty() {
        let _ = writeln!(out, "What it costs");
        for cost in costs {
            let how = match cost.is_clearly_worse() {
                true => "worse",
                false => "worse, or chance",
            };
            let _ = writeln!(out, "{} ({how})", change(&cost));
        }
        out.push('\n');
    }
}

/// A value today and then; `>` marks lower bounds.
fn change(claim: &Claim) -> String {
    let show = match claim.measure.in_seconds {
        true => seconds,
        false => percent,
    };
    let [now, then] = claim.bounds.map(at_least);
    let now = format!("{now}{}", show(claim.now));
    let then = format!("{then}{}", show(claim.then));
    format!("  {:<22}{now:>8} to {then:>8}", claim.measure.words)
}

/// How far it is known by how much it improves.
fn how_sure(claim: &Claim) -> String {
    let by = match claim.measure.in_seconds {
        true => seconds,
        false => points,
    };
    match (claim.range(), claim.bounds) {
        // A single simulation chooses nothing, so it promises nothing.
        (None, _) => String::new(),
        (Some((least, _)), _) if !claim.is_known() && least <= 0.0 => {
            ", or not at all: more --seeds tell".to_owned()
        }
        (_, [_, true]) => ", but a longer --duration may find otherwise".to_owned(),
        (_, [true, false]) if claim.is_known() => {
            format!(", at least {} better", by(claim.gain()))
        }
        (Some((least, _)), [true, false]) => format!(", at least {} better", by(least)),
        _ if claim.is_known() => String::new(),
        // Others may have more to improve, which nobody would believe beside these.
        (Some((least, most)), _) if most > claim.most() => {
            format!(", at least {} better", by(least))
        }
        (Some((least, most)), _) => format!(", between {} and {} better", by(least), by(most)),
    }
}

/// The mark of a lower bound.
fn at_least(is_bound: bool) -> &'static str {
    match is_bound {
        true => ">",
        false => "",
    }
}

/// A column: its title, and its value.
type Column = (&'static str, fn(&Effect) -> String);

const COLUMNS: [Column; 11] = [
    ("GOODPUT", |effect| percent(effect.goodput)),
    ("SLOWEST", |effect| {
        about(&effect.runs.slowest, percent(effect.slowest))
    }),
    ("JAIN", |effect| {
        effect
            .fairness
            .map_or("-".to_owned(), |jain| format!("{jain:.3}"))
    }),
    ("LOSS", |effect| {
        about(&effect.runs.loss, percent(effect.loss))
    }),
    ("RETRANS", |effect| percent(effect.retransmitted)),
    ("DELAY", |effect| format!("{:.0}ms", effect.delay_s * 1e3)),
    ("SILENT", |effect| percent(effect.silent)),
    ("PEAK", |effect| percent(effect.peak)),
    ("JOIN", |effect| {
        let bound = at_least(effect.join_is_bound());
        format!("{bound}{}", seconds(effect.join_s))
    }),
    ("STALLED", |effect| {
        let bound = at_least(effect.wait_is_bound());
        let stalled = format!("{bound}{}", seconds(effect.rebuffer_s));
        about(&effect.runs.video_s, stalled)
    }),
    ("300 kB", |effect| {
        let bound = at_least(effect.page_is_bound());
        let (half, most) = (seconds(effect.page_s), seconds(effect.page_p95_s));
        let times = format!("{bound}{half}..{most}");
        about(&effect.runs.page_s, times)
    }),
];

/// A mean that is not known within this share of itself is marked.
const KNOWN: f64 = 0.2;

/// A cell, marked if chance makes much of it.
fn about(runs: &[f64], cell: String) -> String {
    match Mean::of(runs).is_within(KNOWN) {
        true => cell,
        false => format!("~{cell}"),
    }
}

fn table(out: &mut String, advice: &Advice) {
    let names: Vec<String> = advice
        .options
        .iter()
        .enumerate()
        .map(|(number, option)| {
            let mark = if advice.chosen == Some(number) {
                "> "
            } else {
                "  "
            };
            format!("{mark}{}", option.remedy.words())
        })
        .collect();
    let first = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let cells: Vec<Vec<String>> = advice
        .options
        .iter()
        .map(|option| {
            COLUMNS
                .iter()
                .map(|(_, value)| value(&option.effect))
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let cells = cells.iter().map(|row| row[column].len());
        cells.max().unwrap_or(0).max(COLUMNS[column].0.len())
    };
    let mut row = |name: &str, cells: &[String]| {
        let _ = write!(out, "{name:first$}");
        for (column, cell) in cells.iter().enumerate() {
            let _ = write!(out, "  {cell:>width$}", width = width(column));
        }
        out.push('\n');
    };
    row("", &COLUMNS.map(|(title, _)| title.to_owned()));
    for (name, cells) in names.iter().zip(&cells) {
        row(name, cells);
    }
    let slowest = match advice.situation.compares_users() {
        true => "user",
        false => "download",
    };
    let _ = write!(
        out,
        "\nGOODPUT: payload of all downloads over the rate. SLOWEST: what the slowest {slowest} gets of an equal share.\n\
         DELAY: the 95th percentile of round trips beyond the path's. SILENT: time in which a download gets nothing\n\
         for 250 ms. PEAK: the 99th percentile of the rate in 250 ms over the limit. JOIN, STALLED: until a video begins,\n\
         and how long it stands still. 300 kB: median..95th percentile of a short transfer's time.\n\
         ~: known to no better than 20 % (with 95 % confidence); more --seeds help. >: a lower bound, for many were\n\
         incomplete at the end; a longer --duration tells more.\n"
    );
}

/// What each download gets.
fn who(out: &mut String, advice: &Advice) {
    let senders = advice.situation.senders();
    if senders.len() < 2 {
        return;
    }
    let chosen = advice.chosen().or_else(|| advice.option(Change::BcPqp));
    let name = |choice: &Choice| match choice.remedy.change {
        Change::BcPqp => "BC-PQP".to_owned(),
        Change::Shape => "shaped".to_owned(),
        _ => "then".to_owned(),
    };
    let then = chosen.map(name).unwrap_or_default();
    let _ = writeln!(
        out,
        "\nWho gets what (payload)\n  {:<8}{:<16}{:>14}{then:>14}",
        "SENDER", "ROUND TRIP", "today"
    );
    const MOST: usize = 12;
    let today = &advice.today().effect.each;
    for (number, sender) in senders.iter().enumerate().take(MOST) {
        let (low, high) = (sender.rtt.0 / 1_000_000, sender.rtt.1 / 1_000_000);
        let range = match low == high {
            true => format!("{low}ms"),
            false => format!("{low}ms..{high}ms"),
        };
        let rate = |each: &[f64]| {
            each.get(number)
                .map_or(String::new(), |&bits| self::rate(bits))
        };
        let after = chosen.map_or(String::new(), |choice| rate(&choice.effect.each));
        let _ = writeln!(
            out,
            "  {:<8}{range:<16}{:>14}{after:>14}",
            sender.control,
            rate(today)
        );
    }
    if senders.len() > MOST {
        let _ = writeln!(out, "  and {} more", senders.len() - MOST);
    }
}

fn why(out: &mut String, advice: &Advice) {
    let _ = writeln!(out, "\nWhy");
    for option in &advice.options[1..] {
        paragraph(
            out,
            &format!("{}: {}", option.remedy.words(), option.remedy.why),
        );
    }
    for remark in &advice.remarks {
        paragraph(out, remark);
    }
}

/// What to type.
fn how(out: &mut String, advice: &Advice, origin: &Origin) {
    if let Some(vendor) = origin.vendor {
        let lines = advice.options[1..]
            .iter()
            .filter(|option| matches!(option.remedy.change, Change::Bucket | Change::Shape));
        for option in lines {
            let _ = writeln!(out, "\n{}, in {}", option.remedy.words(), vendor.name());
            match router::write(vendor, &option.remedy.setting) {
                Some(line) => line.lines().for_each(|line| {
                    let _ = writeln!(out, "  {line}");
                }),
                None => {
                    let _ = writeln!(out, "  {}", cannot(vendor));
                }
            }
        }
    }
    if let Some(file) = gate_file::text(advice) {
        let _ = writeln!(out, "\nBC-PQP, in gate.toml");
        for line in file.lines() {
            let _ = writeln!(out, "{}", format!("  {line}").trim_end());
        }
    }
}

fn cannot(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nft => {
            "nftables cannot: its bucket holds a second of the rate at least, and it has no queue."
        }
        _ => "It cannot be written in one line: see the vendor's manual on class of service.",
    }
}

/// What was assumed, in sentences.
pub(crate) fn assumed(advice: &Advice, origin: &Origin) -> Vec<String> {
    let (situation, effort) = (&advice.situation, advice.effort);
    let mut notes = origin.assumed.clone();
    let layer = match situation.today.overhead {
        ETHERNET => "Ethernet headers count (layer 2)",
        _ => "IP packets count (layer 3)",
    };
    let (low, high) = situation.rtt;
    let users = match situation.users {
        1 => "one user".to_owned(),
        users => format!(
            "{users} users; the first has {} connections, each other one has one",
            situation.flows
        ),
    };
    let downloads = match situation.total() {
        1 => "1 backlogged download".to_owned(),
        total => format!("{total} backlogged downloads"),
    };
    notes.push(format!(
        "{downloads} of {users}, with round trips of {:.1} to {:.1} ms and {} in turn, over links of {} before the limit. {layer}.",
        low as f64 / 1e6,
        high as f64 / 1e6,
        situation.controls.join(", "),
        situation.link(),
    ));
    notes.push(format!(
        "For JOIN and STALLED one of them is a video of {} s with {}, sent as fast as TCP allows, which does \
         not change its quality. For 300 kB one of them is short transfers.",
        effort.video() as f64 / 1e9,
        situation.bitrate(),
    ));
    let most = advice.today().effect.runs.most();
    let more = match most > effort.seeds {
        true => format!(
            "; today's limit and the advised one up to {most} times, until it was known within 20 % what the change improves"
        ),
        false => String::new(),
    };
    notes.push(format!(
        "Simulated in virtual time with the lab's TCP: {} times {} s, from seed {} on{more}. Other traffic gives other numbers.",
        effort.seeds,
        effort.duration as f64 / 1e9,
        effort.seed,
    ));
    let error = |choice: &Choice| percent(Mean::of(&choice.effect.runs.slowest).error);
    let then = advice.chosen().map_or(String::new(), |chosen| {
        format!(", and {} with the advised one", error(chosen))
    });
    notes.push(match effort.seeds {
        1 => "One simulation does not tell how much of this is chance: more --seeds do.".to_owned(),
        _ => format!(
            "The standard error of SLOWEST is {} with today's limit{then}. More --seeds make it smaller.",
            error(advice.today()),
        ),
    });
    notes
}

/// Characters in a line of text.
const WIDTH: usize = 110;

/// A paragraph of a list.
fn paragraph(out: &mut String, text: &str) {
    let mut line = String::from("  -");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A difference of shares.
fn points(share: f64) -> String {
    format!("{:.1} points", 100.0 * share)
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 9.995 => format!("{s:.2}s"),
        s => format!("{s:.1}s"),
    }
}

fn rate(bits: f64) -> String {
    Rate::from_bits_per_second(bits.round().max(0.0) as u64).to_string()
}
