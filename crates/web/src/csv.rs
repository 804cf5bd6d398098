//! Tables as text (RFC 4180).

use tidegate_table::Column;
pub use tidegate_table::csv::field;

/// Rows with the names of their columns above them.
pub fn of<R>(columns: &[Column<R>], rows: impl Iterator<Item = R>) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mut text = names.join(",");
    text.push('\n');
    for row in rows {
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                text.push(',');
            }
            text.push_str(&field(&(column.get)(&row).to_string()));
        }
        text.push('\n');
    }
    text
}
