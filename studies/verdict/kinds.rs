//! How often the kind of a managed queue is named, and how often that is right.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_lab::plan::QueueKind;
use tidegate_trace::detect::AqmKind;

/// By the queue's kind: how often each kind was named, or none.
#[derive(Debug, Default)]
pub struct Kinds(BTreeMap<&'static str, [usize; 4]>);

const NAMED: [Option<AqmKind>; 4] = [
    Some(AqmKind::Codel),
    Some(AqmKind::Pie),
    Some(AqmKind::Red),
    None,
];

impl Kinds {
    /// Counts a transfer that a managed queue limited and that is judged so.
    pub fn count(&mut self, queue: &QueueKind, named: Option<AqmKind>) {
        let queue = match queue {
            QueueKind::DropTail { .. } => "drop-tail",
            QueueKind::Red { .. } => "red",
            QueueKind::CoDel { .. } => "codel",
            QueueKind::Pie { .. } => "pie",
            QueueKind::FqCoDel { .. } => "fq-codel",
            QueueKind::DualPi2 { .. } => "dualpi2",
            QueueKind::Cake(_) => "cake",
        };
        let counts = self.0.entry(queue).or_default();
        for (kind, count) in NAMED.into_iter().zip(counts) {
            *count += usize::from(kind == named);
        }
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15}", "managed queue")?;
        for named in NAMED {
            write!(f, " {:>9}", named.map_or("not named", AqmKind::name))?;
        }
        writeln!(f)?;
        for (queue, counts) in &self.0 {
            let [codel, pie, red, none] = counts;
            writeln!(f, "{queue:<15} {codel:>9} {pie:>9} {red:>9} {none:>9}")?;
        }
        Ok(())
    }
}
