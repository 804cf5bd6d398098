//! Subscribers in CSV files: our own, or LibreQoS's ShapedDevices.csv.

use std::collections::HashMap;
use std::path::PathBuf;

use csv::StringRecord;
use tidegate_notation::{Mistake, Place, instead, quantity};

use super::keys::SUBSCRIBER;
use super::problem::Sink;
use super::roll::{Draft, Roll};
use crate::matches;
use crate::table::{Match, PerDirection};

/// A file that is being read.
struct Sheet<'a> {
    text: &'a str,
    /// Its number among those that are read.
    number: u32,
    sink: &'a Sink,
}

/// Reads the subscribers of a file, the last one of `files`. `plan` is for lines without a plan.
pub(super) fn read<'a>(
    files: &'a [(PathBuf, String)],
    plan: Option<&str>,
    sink: &'a Sink,
    roll: &mut Roll<'_>,
) {
    let file = files.len() - 1;
    let sheet = Sheet {
        text: &files[file].1,
        number: file as u32,
        sink,
    };
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        // Missing and surplus fields are reported below, with their places.
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(sheet.text.trim_start_matches('\u{feff}').as_bytes());
    let skipped = sheet.text.len() - sheet.text.trim_start_matches('\u{feff}').len();
    let mut records = reader.records().map(|record| {
        record.map_err(|error| {
            let byte = error
                .position()
                .map_or(0, |at| at.byte() as usize + skipped);
            sink.wrong(sheet.at(byte), format!("this is not CSV: {error}"));
        })
    });
    let Some(Ok(header)) = records.next() else {
        sink.wrong(sheet.at(0), "this file has no header line");
        return;
    };
    let records = records
        .map_while(Result::ok)
        .map(|record| Row::new(record, sheet.text, skipped));
    let header = Row::new(header, sheet.text, skipped);
    let named = |cell: &str| cell.trim().eq_ignore_ascii_case("Circuit ID");
    if header.record.iter().any(named) {
        shaped_devices(&sheet, &header, records, plan, roll);
    } else {
        by_keys(&sheet, &header, records, plan, roll);
    }
}

/// A line.
struct Row {
    record: StringRecord,
    /// Where it begins in the file.
    start: usize,
}

impl Row {
    /// A record of a text whose first `skipped` bytes the reader was not given.
    fn new(record: StringRecord, text: &str, skipped: usize) -> Self {
        let at = record.position();
        let mut start = at.map_or(0, |at| at.byte() as usize + skipped);
        // The reader counts comments and empty lines to the record that follows.
        let mut rest = text.get(start..).unwrap_or("");
        while let Some(end) = rest.find('\n') {
            let first = rest[..end].trim();
            if !first.is_empty() && !first.starts_with('#') {
                break;
            }
            (start, rest) = (start + end + 1, &rest[end + 1..]);
        }
        Self { record, start }
    }

    fn cell(&self, column: Option<usize>) -> &str {
        let cell = column.and_then(|column| self.record.get(column));
        cell.map_or("", str::trim)
    }
}

impl Sheet<'_> {
    fn at(&self, byte: usize) -> Place {
        let text = self.number;
        Place { text, byte }
    }

    /// Where a cell begins: the column's number says after how many commas outside of quotes. Only
    /// for messages.
    fn cell(&self, row: &Row, column: usize) -> Place {
        let start = row.start;
        let rest = self.text.get(start..).unwrap_or("");
        let (mut quoted, mut before) = (false, column);
        let mut at = start;
        for (offset, byte) in rest.bytes().enumerate() {
            if before == 0 {
                break;
            }
            match byte {
                b'"' => quoted = !quoted,
                b',' if !quoted => before -= 1,
                b'\n' if !quoted => break,
                _ => {}
            }
            at = start + offset + 1;
        }
        self.at(at)
    }

    /// Reports a mistake in a cell.
    fn wrong(&self, row: &Row, column: usize, message: impl Into<String>) {
        self.sink
            .add_with(|| (Mistake::new(self.cell(row, column), message), None));
    }

    /// The values of a cell, separated by any of these.
    fn values(
        &self,
        row: &Row,
        column: Option<usize>,
        between: &[char],
        read: fn(&str) -> Result<Match, String>,
        into: &mut Vec<(Match, Place)>,
    ) {
        let Some(column) = column else { return };
        for text in row.cell(Some(column)).split(between) {
            if text.trim().is_empty() {
                continue;
            }
            match read(text.trim()) {
                // Places of cells are computed only for messages.
                Ok(what) => into.push((what, self.place(row))),
                Err(message) => self.wrong(row, column, message),
            }
        }
    }

    /// Where a line is, cheaply.
    fn place(&self, row: &Row) -> Place {
        self.at(row.start)
    }

    fn rate(
        &self,
        row: &Row,
        column: Option<usize>,
        read: fn(&str) -> Result<u64, String>,
    ) -> Option<u64> {
        let text = row.cell(column);
        if text.is_empty() {
            return None;
        }
        let wrong = |message| self.wrong(row, column.unwrap_or(0), message);
        match read(text) {
            Ok(0) => wrong("a rate must be more than 0".to_owned()),
            Ok(rate) => return Some(rate),
            Err(message) => wrong(message),
        }
        None
    }
}

/// Tidegate's own form: the header names keys of subscribers.
fn by_keys(
    sheet: &Sheet<'_>,
    header: &Row,
    rows: impl Iterator<Item = Row>,
    plan: Option<&str>,
    roll: &mut Roll<'_>,
) {
    let mut columns: HashMap<&str, usize> = HashMap::new();
    let known = || SUBSCRIBER.keys.iter().map(|key| key.name);
    for (number, cell) in header.record.iter().enumerate() {
        let cell = cell.trim();
        if !known().any(|key| key == cell) {
            let meant = instead(cell, known());
            let message = format!("unknown column `{cell}`{meant}");
            sheet.wrong(header, number, message);
        } else if columns.insert(cell, number).is_some() {
            let message = format!("there are two columns `{cell}`");
            sheet.wrong(header, number, message);
        }
    }
    if !columns.contains_key("name") {
        let message = "the header has no column `name`: it names the columns, such as \
            name,plan,addresses; a ShapedDevices.csv has a column `Circuit ID`";
        sheet.wrong(header, 0, message);
        return;
    }
    let of = |key: &str| columns.get(key).copied();
    let between = [' ', ';', ',', '\t'];
    for row in rows {
        if row.record.len() > header.record.len() {
            let (found, wanted) = (row.record.len(), header.record.len());
            let message = format!(
                "{found} fields, and the header has {wanted}: quote values that hold commas"
            );
            sheet.wrong(&row, wanted, message);
            continue;
        }
        let mut found = Vec::new();
        sheet.values(&row, of("addresses"), &between, matches::prefix, &mut found);
        sheet.values(&row, of("vlan"), &between, matches::vlan, &mut found);
        sheet.values(&row, of("qinq"), &between, matches::qinq, &mut found);
        sheet.values(&row, of("pppoe"), &between, matches::pppoe, &mut found);
        let place = sheet.place(&row);
        let named = row.cell(of("plan"));
        roll.add(Draft {
            name: row.cell(of("name")),
            plan: if named.is_empty() { plan } else { Some(named) },
            rates: PerDirection::new(|way| sheet.rate(&row, of(way.name()), quantity::rate)),
            matches: found,
            place,
            plan_place: place,
            rate_places: PerDirection::new(|_| place),
        });
    }
}

/// A prefix of the family of its column. A list whose commas are not quoted shifts what follows.
fn family(text: &str, wanted: &str) -> Result<Match, String> {
    let found = if text.contains(':') { "IPv6" } else { "IPv4" };
    match matches::prefix(text)? {
        _ if found != wanted => Err(format!(
            "'{text}' is {found} in a column of {wanted}: quote lists that hold commas"
        )),
        what => Ok(what),
    }
}

/// A circuit: the values that all of its devices share.
struct Circuit {
    name: String,
    rates: PerDirection<Option<u64>>,
    matches: Vec<(Match, Place)>,
    place: Place,
}

/// LibreQoS's form: a line for each device; the devices of a circuit share its limit. The rates are
/// those of the circuit's first device, as in LibreQoS; minimum rates have no effect here.
fn shaped_devices(
    sheet: &Sheet<'_>,
    header: &Row,
    rows: impl Iterator<Item = Row>,
    plan: Option<&str>,
    roll: &mut Roll<'_>,
) {
    let find = |names: [&str; 2]| {
        let is = |cell: &str| {
            names
                .iter()
                .any(|name| cell.trim().eq_ignore_ascii_case(name))
        };
        let found = header.record.iter().position(is);
        if found.is_none() {
            let message = format!("the header has no column `{}`", names[0]);
            sheet.wrong(header, 0, message);
        }
        found
    };
    let [id, ipv4, ipv6, down, up] = [
        ["Circuit ID", "Circuit ID"],
        ["IPv4", "IPv4"],
        ["IPv6", "IPv6"],
        ["Download Max Mbps", "Download Max"],
        ["Upload Max Mbps", "Upload Max"],
    ]
    .map(find);
    if [id, ipv4, ipv6, down, up].contains(&None) {
        return;
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut circuits: Vec<Circuit> = Vec::new();
    for row in rows {
        let name = row.cell(id);
        if name.is_empty() && row.record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        let rates = PerDirection {
            down: sheet.rate(&row, down, quantity::megabits),
            up: sheet.rate(&row, up, quantity::megabits),
        };
        for (rate, column) in [(rates.down, down), (rates.up, up)] {
            if rate.is_none() && row.cell(column).is_empty() {
                let message = format!("circuit `{name}` has no maximum rate here");
                sheet.wrong(&row, column.unwrap_or(0), message);
            }
        }
        let number = *numbers.entry(name.to_owned()).or_insert_with(|| {
            circuits.push(Circuit {
                name: name.to_owned(),
                rates,
                matches: Vec::new(),
                place: sheet.place(&row),
            });
            circuits.len() - 1
        });
        let into = &mut circuits[number].matches;
        let between = [',', ';', ' '];
        sheet.values(&row, ipv4, &between, |text| family(text, "IPv4"), into);
        sheet.values(&row, ipv6, &between, |text| family(text, "IPv6"), into);
    }
    for circuit in circuits {
        roll.add(Draft {
            name: &circuit.name,
            plan,
            rates: circuit.rates,
            matches: circuit.matches,
            place: circuit.place,
            plan_place: circuit.place,
            rate_places: PerDirection::new(|_| circuit.place),
        });
    }
}
