//! Documents a table from its declaration, as Markdown.
//!
//!     cargo run -p tidegate-table --example document

use tidegate_table::{Column, Row, columns, convert};

/// One run of a benchmark.
struct Run {
    name: &'static str,
    nanos: u64,
    packets: u64,
}

impl Row for Run {
    const TITLE: &'static str = "a run of a benchmark";

    fn columns() -> &'static [Column<Self>] {
        columns! { Run;
            name: Text [""] "The benchmark." = |run| run.name;
            time_s: Real ["s"] "How long it took." = |run| convert::seconds(run.nanos);
            packets: Integer ["packets"] "Packets that it processed." = |run| run.packets;
            rate: Real ["packets/s"] "Packets over time; missing if it took none." = |run| (run.nanos > 0).then(|| run.packets as f64 / convert::seconds(run.nanos));
        }
    }
}

fn main() {
    println!("A row is {}.\n", Run::TITLE);
    println!("| Column | Unit | Meaning |\n|---|---|---|");
    for column in Run::columns() {
        println!("| `{}` | {} | {} |", column.name, column.unit, column.doc);
    }
    let run = Run {
        name: "decode",
        nanos: 250_000_000,
        packets: 1_000_000,
    };
    println!();
    for column in Run::columns() {
        println!("{}: {:?}", column.name, (column.get)(&run));
    }
}
