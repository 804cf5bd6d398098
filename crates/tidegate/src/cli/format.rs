//! Formats of rows.

use std::path::Path;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people to read
    Table,
    /// One array of objects
    Json,
    /// One object in each line
    Jsonl,
    /// With a header line
    Csv,
    /// Apache Parquet, for --output or a pipe
    Parquet,
}

impl Format {
    /// The format that was asked for, or the one that the ending of the output's name says, or a table.
    pub fn of(asked: Option<Self>, output: Option<&Path>) -> Self {
        asked
            .or_else(|| Self::ending(output?))
            .unwrap_or(Self::Table)
    }

    fn ending(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match &ending[..] {
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_output_counts_unless_a_format_is_named() {
        let of = |asked, path: &str| Format::of(asked, Some(Path::new(path)));
        assert_eq!(of(None, "a/rows.csv"), Format::Csv);
        assert_eq!(of(None, "rows.JSONL"), Format::Jsonl);
        assert_eq!(of(None, "rows.parquet"), Format::Parquet);
        assert_eq!(of(None, "rows.txt"), Format::Table);
        assert_eq!(of(None, "csv"), Format::Table);
        assert_eq!(of(Some(Format::Table), "rows.csv"), Format::Table);
        assert_eq!(Format::of(None, None), Format::Table);
    }
}
