//! What passes a shell, window by window: for tables, and for the terminal's title.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tidegate_lab::plan::ElementKind;
use tidegate_limiter::LimiterConfig;
use tidegate_testbed::link::{LinkPlan, LinkReport};
use tidegate_testbed::shell::{Shell, ShellWindowRow};

use crate::units::{bytes, percent, plural, rate};

/// Width of the windows.
const WINDOW: Duration = Duration::from_millis(250);
/// The title changes after as many.
const WINDOWS_OF_TITLE: usize = 4;
/// Most windows of a table: 11 days, both directions, and 500 MB.
const MOST: usize = 8_000_000;

/// What is said when captures can no longer be written. The reasons follow when the shell ends.
fn failure(captures: usize) -> String {
    let captures = plural(captures as u64, "capture", "captures");
    format!(
        "{captures} can no longer be written, and will not have the packets from now on: the disk may be full"
    )
}

/// Asks a shell for its counts, again and again.
pub struct Monitor {
    /// Whether to show them in the terminal's title.
    title: bool,
    /// Whether to keep them for a table.
    table: bool,
    /// Which elements, in the order of the plan, keep packets in a queue; down and up.
    waiting: [Vec<bool>; 2],
}

impl Monitor {
    pub fn new(plan: &LinkPlan, title: bool, table: bool) -> Self {
        let waits = |kind: &ElementKind| match kind {
            ElementKind::Limiter { config, .. } => matches!(config, LimiterConfig::Shaper(_)),
            kind => kind.queue().is_some(),
        };
        Self {
            title,
            table,
            waiting: [&plan.forward, &plan.back].map(|way| way.iter().map(waits).collect()),
        }
    }

    /// The windows of both directions for the table, until the other end is gone.
    pub fn run(&self, shell: &Shell, stopped: &Receiver<()>) -> Vec<ShellWindowRow> {
        let begin = Instant::now();
        let (mut rows, mut last, mut end) = (Vec::new(), LinkReport::default(), 0);
        // Those that the title does not show yet.
        let mut latest = Vec::new();
        let mut failed = 0;
        if self.title {
            // xterm keeps the title on a stack.
            write("\x1b[22;2t");
        }
        loop {
            let over = !matches!(stopped.recv_timeout(WINDOW), Err(RecvTimeoutError::Timeout));
            // A link that has failed is reported at the end.
            let Ok(report) = shell.report() else {
                break;
            };
            if report.failed_captures > failed {
                failed = report.failed_captures;
                eprintln!("tidegate: {}", failure(failed));
            }
            let now = begin.elapsed().as_nanos() as u64;
            let windows = [0, 1].map(|way| self.window(way, &last, &report, (end, now)));
            if self.title {
                latest.extend(windows.clone());
                if latest.len() >= 2 * WINDOWS_OF_TITLE {
                    write(&format!("\x1b]2;{}\x07", title(&latest)));
                    latest.clear();
                }
            }
            if self.table && rows.len() < MOST {
                rows.extend(windows);
            }
            (last, end) = (report, now);
            if over {
                break;
            }
        }
        if self.title {
            write("\x1b[23;2t");
        }
        rows
    }

    /// The window between two reports.
    fn window(
        &self,
        way: usize,
        before: &LinkReport,
        now: &LinkReport,
        (begin, end): (u64, u64),
    ) -> ShellWindowRow {
        let first = if way == 0 { 0 } else { self.waiting[0].len() };
        let elements = now.elements.iter().skip(first);
        let queues = elements
            .zip(&self.waiting[way])
            .filter(|(_, waits)| **waits);
        let queued =
            queues.flat_map(|(element, _)| element.samples.iter().flat_map(|one| &one.queues));
        ShellWindowRow {
            end,
            length: end - begin,
            down: way == 0,
            packets: now.packets[way] - before.packets[way],
            passed: now.passed[way] - before.passed[way],
            bytes: now.bytes[way] - before.bytes[way],
            dropped: now.dropped[way] - before.dropped[way],
            queue: queued.sum(),
        }
    }
}

/// Rate, drops and queue of both directions, in a line.
fn title(rows: &[ShellWindowRow]) -> String {
    let way = |down: bool| {
        let rows = || rows.iter().filter(|row| row.down == down);
        let sum = |of: fn(&ShellWindowRow) -> u64| rows().map(of).sum::<u64>();
        let (sent, time) = (sum(|row| row.bytes), sum(|row| row.length).max(1));
        let (dropped, packets) = (sum(|row| row.dropped), sum(|row| row.packets).max(1));
        let queue = rows().next_back().map_or(0, |row| row.queue);
        format!(
            "{} {}, {} dropped, {} queued",
            if down { "down" } else { "up" },
            rate(sent as f64 * 8e9 / time as f64),
            percent(dropped as f64 / packets as f64),
            bytes(queue),
        )
    };
    format!("{} | {}", way(true), way(false))
}

/// Writes to the terminal at once. If it is gone, nobody sees a title.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_lab::outcome::{ElementOutcome, Sample};

    #[test]
    fn a_window_is_the_difference_of_two_reports() {
        let link = ElementKind::Link {
            rate: tidegate_limiter::Rate::from_bits_per_second(1_000_000),
            queue: tidegate_lab::plan::QueueKind::DropTail {
                bytes: None,
                packets: Some(9),
            },
        };
        let delay = ElementKind::Delay {
            delay: 1,
            jitter: 0,
        };
        let plan = LinkPlan {
            forward: vec![delay, link.clone()],
            back: vec![link],
            ..LinkPlan::default()
        };
        let element = |queues| ElementOutcome {
            samples: vec![Sample {
                queues,
                ..Sample::default()
            }],
            ..ElementOutcome::default()
        };
        let before = LinkReport {
            packets: [10, 5],
            passed: [8, 5],
            bytes: [8000, 500],
            dropped: [1, 0],
            ..LinkReport::default()
        };
        let now = LinkReport {
            packets: [20, 9],
            passed: [16, 9],
            bytes: [133_000, 900],
            dropped: [3, 0],
            elements: vec![element(vec![7]), element(vec![3000]), element(vec![40, 2])],
            ..LinkReport::default()
        };
        let monitor = Monitor::new(&plan, false, true);
        let second = 1_000_000_000;
        let rows = [0, 1].map(|way| monitor.window(way, &before, &now, (second, 2 * second)));
        assert_eq!(
            (rows[0].packets, rows[0].passed, rows[0].dropped),
            (10, 8, 2)
        );
        assert_eq!((rows[0].queue, rows[1].queue), (3000, 42));
        let wanted = "down 1.00 Mbit/s, 20.0% dropped, 3.00 kB queued | up 3.20 kbit/s, 0.0% dropped, 42 B queued";
        assert_eq!(title(&rows), wanted);
    }
}
