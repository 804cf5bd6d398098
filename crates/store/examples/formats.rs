//! Writes the same table in every format to a folder.
//!
//!     cargo run -p tidegate-store --example formats -- /tmp

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use tidegate_store::{Format, Writer};
use tidegate_table::{Column, Row, columns};

struct Square {
    number: u64,
}

impl Row for Square {
    const TITLE: &'static str = "a number";

    fn columns() -> &'static [Column<Self>] {
        columns! { Square;
            number: Integer [""] "The number." = |row| row.number;
            square: Integer [""] "Its square." = |row| row.number * row.number;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let rows: Vec<Square> = (0..10).map(|number| Square { number }).collect();
    for (name, format) in [
        ("squares.csv", Format::Csv),
        ("squares.json", Format::Json),
        ("squares.jsonl", Format::JsonLines),
        ("squares.parquet", Format::Parquet),
    ] {
        let mut writer = Writer::new::<Square>(File::create(folder.join(name))?, format)?;
        writer.rows(&rows)?;
        writer.finish()?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}
