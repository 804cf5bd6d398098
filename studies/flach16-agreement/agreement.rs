//! Whether the detector `pd` says of every chunk what its authors' published code said.

use std::fmt;

use tidegate_trace::detect::pd;

use crate::lab::{Analysed, Chunk, Original, Run};

/// Below this share of chunks with the same verdict and code, in either run, there is no agreement.
pub const LEAST: f64 = 0.98;

/// How the two compare, over all chunks.
#[derive(Debug, Default)]
pub struct Agreement {
    /// Chunks that the published code judged.
    pub chunks: usize,
    /// Of these, those with as many data packets.
    pub data_packets: usize,
    /// With as many losses.
    pub losses: usize,
    /// Without and with the cut.
    pub runs: [RunAgreement; 2],
    /// Chunks that the published code did not judge.
    pub extra: usize,
    /// Of these, those with the same verdict and code in both runs if each is compared with the
    /// published segment that contains its packets; their numbers may differ.
    pub by_packets: Option<usize>,
    /// What differs, in words, by capture.
    pub differences: Vec<(String, Vec<String>)>,
}

/// How the two compare in one run: chunks with the same answer.
#[derive(Debug, Default, Clone, Copy)]
pub struct RunAgreement {
    /// Same verdict and same code.
    pub verdict_and_code: usize,
    /// Same rate, or none in either.
    pub rate: usize,
    /// Same burst, or none in either.
    pub burst: usize,
}

impl Agreement {
    /// Compares; `joined` takes the segments as the paper defines them, else as the published
    /// code does.
    pub fn of(all: &[Analysed], joined: bool) -> Self {
        let mut agreement = Self {
            by_packets: joined.then(|| all.iter().map(same_packets).sum()),
            ..Self::default()
        };
        for capture in all {
            let differences = agreement.capture(capture, joined);
            if !differences.is_empty() {
                let file = capture.case.file.clone();
                agreement.differences.push((file, differences));
            }
        }
        agreement
    }

    /// Whether both runs agree on enough chunks.
    pub fn holds(&self) -> bool {
        let least = self.chunks as f64 * LEAST;
        self.chunks > 0
            && self
                .runs
                .iter()
                .all(|run| run.verdict_and_code as f64 >= least)
    }

    fn capture(&mut self, capture: &Analysed, joined: bool) -> Vec<String> {
        let ours = if joined {
            &capture.joined
        } else {
            &capture.chunks
        };
        let mut differences = Vec::new();
        for (&segment, original) in &capture.case.original {
            self.chunks += 1;
            let Some(chunk) = ours.iter().find(|chunk| chunk.segment == segment) else {
                differences.push(format!("segment {segment}: no such segment"));
                continue;
            };
            let what = self.chunk(original, chunk);
            if !what.is_empty() {
                let why = if joined {
                    published_parts(capture, chunk)
                } else {
                    String::new()
                };
                differences.push(format!("segment {segment}{why}: {}", what.join("; ")));
            }
        }
        for chunk in ours {
            if !capture.case.original.contains_key(&chunk.segment) {
                self.extra += 1;
                differences.push(format!(
                    "segment {}: published without an answer; it has {} data packets, {} lost",
                    chunk.segment, chunk.metrics.data_packets, chunk.published_losses
                ));
            }
        }
        differences
    }

    /// Counts what is the same, and returns what is not.
    fn chunk(&mut self, original: &Original, chunk: &Chunk) -> Vec<String> {
        let mut what = Vec::new();
        let mut same = |count: &mut usize, same: bool, say: &dyn Fn() -> String| {
            if same {
                *count += 1;
            } else {
                what.push(say());
            }
        };
        let (theirs, ours) = (original.data_packets, chunk.metrics.data_packets);
        same(&mut self.data_packets, theirs == ours, &|| {
            format!("data packets {ours}, published {theirs}")
        });
        let (theirs, ours) = (original.losses, chunk.published_losses);
        same(&mut self.losses, theirs == ours, &|| {
            format!("losses {ours}, published {theirs}")
        });
        let runs = [("", &chunk.pd.all), (" (cut 2)", &chunk.pd.cut)];
        for ((count, theirs), (run, ours)) in self.runs.iter_mut().zip(&original.runs).zip(runs) {
            let ours = as_run(ours);
            let verdict = (ours.policed, ours.code) == (theirs.policed, theirs.code);
            same(&mut count.verdict_and_code, verdict, &|| {
                format!("code{run} {}, published {}", ours.code, theirs.code)
            });
            let show =
                |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.0}"));
            same(
                &mut count.rate,
                close(ours.rate_bps, theirs.rate_bps),
                &|| {
                    let (ours, theirs) = (show(ours.rate_bps), show(theirs.rate_bps));
                    format!("rate{run} {ours}, published {theirs} bit/s")
                },
            );
            same(
                &mut count.burst,
                ours.burst_bytes == theirs.burst_bytes,
                &|| {
                    let burst = |run: &Run| show(run.burst_bytes.map(|bytes| bytes as f64));
                    format!("burst{run} {}, published {} B", burst(&ours), burst(theirs))
                },
            );
        }
        what
    }
}

fn as_run(run: &pd::Run) -> Run {
    Run {
        policed: run.is_policed(),
        code: run.code.number(),
        rate_bps: run.rate_bps,
        burst_bytes: run.burst_bytes,
    }
}

/// The published rate was printed in whole bits.
fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= (b.abs() * 1e-6).max(1.0),
        (None, None) => true,
        _ => false,
    }
}

/// In which published segments a chunk's packets are, where that is not the one of its number.
fn published_parts(capture: &Analysed, chunk: &Chunk) -> String {
    let parts: Vec<u32> = parts(capture, chunk).map(|part| part.segment).collect();
    if parts == [chunk.segment] {
        return String::new();
    }
    let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
    format!(" (published as {})", parts.join(" and "))
}

fn parts<'a>(capture: &'a Analysed, chunk: &'a Chunk) -> impl Iterator<Item = &'a Chunk> {
    let overlap = |part: &&Chunk| {
        part.packets.start < chunk.packets.end && chunk.packets.start < part.packets.end
    };
    capture.chunks.iter().filter(overlap)
}

/// How many of a capture's published answers hold for the joined chunk that has the packets.
fn same_packets(capture: &Analysed) -> usize {
    let agrees = |chunk: &Chunk, segment: u32| {
        let Some(original) = capture.case.original.get(&segment) else {
            return false;
        };
        let runs = [&chunk.pd.all, &chunk.pd.cut];
        runs.into_iter()
            .zip(&original.runs)
            .all(|(ours, theirs)| ours.code.number() == theirs.code)
    };
    let mut same = 0;
    for chunk in &capture.joined {
        same += parts(capture, chunk)
            .filter(|part| agrees(chunk, part.segment))
            .count();
    }
    same
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, what: &str, same: usize| {
            let percent = same as f64 / self.chunks.max(1) as f64 * 100.0;
            writeln!(
                f,
                "{what:<37} {same:>4} of {} {percent:>6.2} %",
                self.chunks
            )
        };
        line(f, "same number of data packets", self.data_packets)?;
        line(f, "same number of losses", self.losses)?;
        for (name, run) in ["first run", "second run (cut 2)"].iter().zip(&self.runs) {
            line(
                f,
                &format!("{name}: verdict and code"),
                run.verdict_and_code,
            )?;
            line(f, &format!("{name}: rate"), run.rate)?;
            line(f, &format!("{name}: burst"), run.burst)?;
        }
        if let Some(same) = self.by_packets {
            line(f, "both runs, compared by packets", same)?;
        }
        writeln!(
            f,
            "{:<37} {:>4}",
            "segments without a published answer", self.extra
        )?;
        if self.differences.is_empty() {
            return writeln!(f, "no differences");
        }
        writeln!(f, "differences in {} captures:", self.differences.len())?;
        for (file, lines) in &self.differences {
            writeln!(f, "  {file}")?;
            for line in lines {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
