//! How often the kind of a managed queue is told, and how often that is right.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_lab::plan::QueueKind;
use tidegate_trace::detect::AqmKind;

/// By the queue's kind: how often each kind was told, or none.
#[derive(Debug, Default)]
pub struct Kinds(BTreeMap<&'static str, [usize; 3]>);

const TOLD: [Option<AqmKind>; 3] = [Some(AqmKind::Codel), Some(AqmKind::Red), None];

impl Kinds {
    /// Counts a transfer that a managed queue limited and that is judged so.
    pub fn count(&mut self, queue: &QueueKind, told: Option<AqmKind>) {
        let queue = match queue {
            QueueKind::DropTail { .. } => "drop-tail",
            QueueKind::Red { .. } => "red",
            QueueKind::CoDel { .. } => "codel",
            QueueKind::Pie { .. } => "pie",
            QueueKind::FqCoDel { .. } => "fq-codel",
        };
        let counts = self.0.entry(queue).or_default();
        for (kind, count) in TOLD.into_iter().zip(counts) {
            *count += usize::from(kind == told);
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
        for told in TOLD {
            write!(f, " {:>9}", told.map_or("not told", AqmKind::name))?;
        }
        writeln!(f)?;
        for (queue, counts) in &self.0 {
            let [codel, red, none] = counts;
            writeln!(f, "{queue:<15} {codel:>9} {red:>9} {none:>9}")?;
        }
        Ok(())
    }
}
