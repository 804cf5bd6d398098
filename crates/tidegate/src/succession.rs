//! Whether captures look like the pieces of one, as `tcpdump -G` and `-C` write them.

use std::path::Path;

use tidegate_trace::flow::Span;
use tidegate_trace::read::Nanos;

use crate::pipeline::Report;

/// A piece begins at most this long after the one before it ends.
const PAUSE: Nanos = 1_000_000_000;

/// The captures so far.
#[derive(Debug, Default)]
pub struct Succession {
    /// Their name without digits, if they have the same.
    name: Option<String>,
    differs: bool,
    spans: Vec<Span>,
}

impl Succession {
    /// Notes a capture. Tests of the network have similar names too, so that both name and time decide.
    pub fn capture(&mut self, report: &Report) {
        let Some(span) = report.counters.span.filter(|_| !self.differs) else {
            return;
        };
        let file = Path::new(&*report.name).file_name().unwrap_or_default();
        let mut name = file.to_string_lossy().into_owned();
        name.retain(|letter| !letter.is_ascii_digit());
        self.differs = *self.name.get_or_insert_with(|| name.clone()) != name;
        self.spans.push(span);
    }

    /// Whether each of several captures begins when another ends.
    pub fn is_one(&mut self) -> bool {
        self.spans.sort_by_key(|span| span.first);
        let follows = |pair: &[Span]| {
            (pair[0].last..=pair[0].last.saturating_add(PAUSE)).contains(&pair[1].first)
        };
        !self.differs && self.spans.len() > 1 && self.spans.windows(2).all(follows)
    }
}
