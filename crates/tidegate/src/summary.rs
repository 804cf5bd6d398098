//! Sums over all captures.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_trace::annotate::Layer;
use tidegate_trace::detect::pd::Code;
use tidegate_trace::detect::{COVERED, Cause, Cluster, rate_clusters};
use tidegate_trace::flow::Counters;
use tidegate_trace::read::PassedOver;

use crate::pipeline::Report;
use crate::transfers::{LOSSY, Transfers};
use crate::units::{count, percent, plural, rate};

/// Clusters that are listed for people.
const LISTED: usize = 10;

/// A share as a whole percentage.
fn share_of(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Sums over captures.
#[derive(Debug, Default)]
pub struct Summary {
    /// Only flows with one of these ports, if there are any.
    ports: Vec<u16>,
    captures: u64,
    /// Flows with these ports.
    flows: u64,
    /// The first capture with packets that have an earlier time than the one before, and how many captures have.
    backwards: Option<Arc<str>>,
    backward_captures: u64,
    failed: u64,
    segments: u64,
    transfers: Transfers,
    counters: Counters,
    passed_over: PassedOver,
}

impl Summary {
    /// Of the flows with one of these ports; of all flows without.
    pub fn of_ports(ports: &[u16]) -> Self {
        Self {
            ports: ports.to_vec(),
            ..Self::default()
        }
    }

    /// How many captures were read, to their end or not.
    pub fn captures(&self) -> u64 {
        self.captures
    }

    pub fn capture(&mut self, report: &Report) {
        self.captures += u64::from(report.begun);
        self.flows += report.flows;
        if report.counters.backwards > 0 {
            self.backward_captures += 1;
            self.backwards
                .get_or_insert_with(|| Arc::clone(&report.name));
        }
        self.segments += report.segments;
        self.transfers.add_all(&report.transfers);
        self.failed += u64::from(report.error.is_some());
        let (sum, more) = (&mut self.counters, &report.counters);
        sum.frames += more.frames;
        sum.tcp += more.tcp;
        sum.not_ip += more.not_ip;
        sum.not_tcp += more.not_tcp;
        sum.fragments += more.fragments;
        sum.cut += more.cut;
        sum.options_cut += more.options_cut;
        sum.sliced += more.sliced;
        sum.malformed += more.malformed;
        sum.backwards += more.backwards;
        sum.stepped_back += more.stepped_back;
        sum.flows += more.flows;
        sum.evicted += more.evicted;
        let (sum, more) = (&mut self.passed_over, &report.passed_over);
        sum.unsupported += more.unsupported;
        sum.malformed += more.malformed;
        sum.untimed += more.untimed;
        sum.dropped_by_capture = sum
            .dropped_by_capture
            .saturating_add(more.dropped_by_capture);
    }

    fn clusters(&self) -> Vec<Cluster> {
        rate_clusters(&self.transfers.rates, COVERED)
    }

    /// Prints the summary for people. Prints nothing if nothing could be read, since standard error
    /// says why.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if self.counters.frames == 0 && self.failed == self.captures {
            return Ok(());
        }
        let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
        writeln!(
            out,
            "{}, {}, {}",
            plural(self.captures, "capture", "captures"),
            self.flows_in_words(),
            plural(self.counters.frames, "packet", "packets"),
        )?;
        write!(
            out,
            "{} with data; {} lossy ({LOSSY} losses or more)",
            plural(self.segments, "segment", "segments"),
            self.transfers.lossy,
        )?;
        // `pd` judges lossy transfers only, and looks for policers only.
        if self.is_of_pd() {
            let of_these = match self.transfers.lossy {
                0 => String::new(),
                lossy => format!(" ({} of these)", share(self.transfers.policed, lossy)),
            };
            writeln!(out, "; {} policed{of_these}", self.transfers.policed)?;
        } else {
            writeln!(out)?;
            self.print_verdicts(out)?;
        }
        let clusters = self.clusters();
        if !clusters.is_empty() {
            let covered: usize = clusters.iter().map(|cluster| cluster.rates).sum();
            writeln!(
                out,
                "{} {} of the policing rates{}:",
                plural(
                    clusters.len() as u64,
                    "rate cluster (±5 %) covers",
                    "rate clusters (±5 %) cover"
                ),
                share(covered as u64, self.transfers.rates.len() as u64),
                match self.transfers.layer {
                    Some(Layer::Link) => " (on the link)",
                    Some(Layer::Ip) => " (of IP packets)",
                    Some(Layer::Payload) | None => "",
                },
            )?;
            let listed = clusters.len().min(LISTED);
            for cluster in &clusters[..listed] {
                writeln!(
                    out,
                    "  {:>12}  {}",
                    rate(cluster.centre_bps),
                    plural(cluster.rates as u64, "segment", "segments")
                )?;
            }
            if clusters.len() > LISTED {
                writeln!(out, "  and {} more", clusters.len() - LISTED)?;
            }
            self.print_rest(out, clusters.len(), covered)?;
        }
        // Captures often hold these, and nothing is left out for it.
        if self.counters.backwards > 0 {
            let packets = plural(self.counters.backwards, "packet", "packets");
            let first = match &self.backwards {
                Some(name) if self.captures > 1 => format!(", in {name}"),
                _ => String::new(),
            };
            let others = match self.backward_captures.saturating_sub(1) {
                0 => String::new(),
                others => format!(" and {}", plural(others, "other capture", "other captures")),
            };
            writeln!(
                out,
                "note: {packets} with an earlier time than the packet before{first}{others}"
            )?;
        }
        Ok(())
    }

    /// How many flows there are, and of these with the wanted ports.
    fn flows_in_words(&self) -> String {
        let all = plural(self.counters.flows, "flow", "flows");
        match &self.ports[..] {
            [] => all,
            ports => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                let ports = ports.join(" or ");
                match self.flows {
                    0 => format!("no flow with port {ports} among {all}"),
                    some => format!("{} of {all} with port {ports}", count(some)),
                }
            }
        }
    }

    /// Says that the list of clusters ends before it covers all, and what it leaves out.
    fn print_rest(&self, out: &mut impl Write, listed: usize, covered: usize) -> io::Result<()> {
        let rest = self.transfers.rates.len().saturating_sub(covered);
        let all = rate_clusters(&self.transfers.rates, 1.0);
        let Some(next) = all.get(listed).filter(|_| rest > 0) else {
            return Ok(());
        };
        writeln!(
            out,
            "  the list ends where {} are covered; of {} with other rates, {} near {}",
            share_of(COVERED),
            plural(rest as u64, "segment", "segments"),
            match next.rates {
                1 => "1 is".to_owned(),
                n => format!("{} are", count(n as u64)),
            },
            rate(next.centre_bps)
        )
    }

    /// Whether the detector was one that gives codes.
    fn is_of_pd(&self) -> bool {
        self.transfers.codes.iter().any(|&count| count > 0)
    }

    /// Prints how often each verdict was given, the most frequent first.
    fn print_verdicts(&self, out: &mut impl Write) -> io::Result<()> {
        let mut counts: Vec<(u64, Cause)> = Cause::ALL
            .into_iter()
            .map(|cause| (self.transfers.verdicts[cause as usize], cause))
            .filter(|&(count, _)| count > 0)
            .collect();
        counts.sort_by_key(|&(count, _)| Reverse(count));
        if counts.is_empty() {
            return Ok(());
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(number, cause)| format!("{} {cause}", count(*number)))
            .collect();
        // Each side's data of a segment has a verdict.
        let all = plural(
            self.transfers.verdicts.iter().sum(),
            "transfer",
            "transfers",
        );
        writeln!(out, "verdicts on {all}: {}", counts.join(", "))
    }

    /// Reports on standard error what the results lack, in every format.
    pub fn warn(&self) {
        let (counters, passed_over) = (&self.counters, &self.passed_over);
        let warnings = [
            (
                counters.cut,
                "too short to show a TCP header (capture with -s 128 or more)",
            ),
            (
                counters.options_cut,
                "with TCP options cut off (capture with -s 128 or more)",
            ),
            (
                counters.sliced,
                "cut by the mirror or tap: the capture says that they were whole, so their lengths are taken from their headers",
            ),
            (
                counters.stepped_back,
                "with a time that is a second or more before that of the packet before: the clock was set, or captures were mixed; rates and delays may be wrong",
            ),
            (
                counters.fragments,
                "left out as parts of fragmented IP packets",
            ),
            (
                counters.malformed + passed_over.malformed,
                "left out as malformed",
            ),
            (
                passed_over.untimed,
                "left out because they have no timestamp",
            ),
            (
                passed_over.dropped_by_capture,
                "dropped by the capturing system: losses may be missed or misjudged",
            ),
        ];
        for (number, what) in warnings.into_iter().filter(|&(number, _)| number > 0) {
            let packets = plural(number, "packet", "packets");
            eprintln!("tidegate: warning: {packets} {what}");
        }
        if self.counters.evicted > 0 {
            let flows = plural(self.counters.evicted, "flow", "flows");
            eprintln!(
                "tidegate: warning: {flows} dropped early: more were active at once than --max-flows allows"
            );
        }
    }

    /// The summary for programs.
    pub fn to_json(&self) -> Value {
        let codes: serde_json::Map<String, Value> = Code::ALL
            .iter()
            .map(|code| {
                let count = self.transfers.codes[usize::from(code.number())];
                (
                    code.number().to_string(),
                    json!({ "reason": code.reason(), "segments": count }),
                )
            })
            .collect();
        let verdicts: serde_json::Map<String, Value> = Cause::ALL
            .iter()
            .map(|&cause| {
                let count = self.transfers.verdicts[cause as usize];
                (cause.name().to_owned(), count.into())
            })
            .collect();
        let clusters: Vec<Value> = self
            .clusters()
            .iter()
            .map(|cluster| {
                json!({ "rate_bps": cluster.centre_bps.round() as u64, "segments": cluster.rates })
            })
            .collect();
        json!({
            "captures": self.captures,
            "captures_failed": self.failed,
            "flows": self.counters.flows,
            "flows_chosen": self.flows,
            "segments": self.segments,
            "segments_lossy": self.transfers.lossy,
            "segments_policed": self.transfers.policed,
            "verdicts": verdicts,
            "codes": codes,
            "rate_clusters": clusters,
            "rate_layer": self.transfers.layer.map(Layer::name),
            "data_packets": self.transfers.data_packets,
            "lost_packets": self.transfers.lost_packets,
            "packets": {
                "all": self.counters.frames,
                "tcp": self.counters.tcp,
                "not_ip": self.counters.not_ip,
                "not_tcp": self.counters.not_tcp,
                "fragments": self.counters.fragments,
                "cut": self.counters.cut,
                "options_cut": self.counters.options_cut,
                "cut_by_mirror": self.counters.sliced,
                "malformed": self.counters.malformed + self.passed_over.malformed,
                "time_backwards": self.counters.backwards,
                "unsupported_link": self.passed_over.unsupported,
                "without_time": self.passed_over.untimed,
                "dropped_by_capture": self.passed_over.dropped_by_capture,
            },
            "flows_evicted": self.counters.evicted,
        })
    }
}
