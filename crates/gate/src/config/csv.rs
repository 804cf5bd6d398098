//! Subscribers in CSV files: our own, or LibreQoS's ShapedDevices.csv.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use csv::StringRecord;
use tidegate_notation::{Mistake, Place, instead, quantity};

use super::keys::SUBSCRIBER;
use super::node::Tree;
use super::problem::Sink;
use super::roll::{Draft, LIVE, Roll};
use crate::binding::{Binding, Mac};
use crate::matches;
use crate::table::{Match, PerDirection};

/// What an empty file may be.
pub(super) const EXAMPLE: &str = "\
name,down,up,addresses
ann,20mbit,5mbit,192.0.2.1";

/// A file that is being read.
struct Sheet<'a> {
    text: &'a str,
    /// Its number among those that are read.
    number: u32,
    sink: &'a Sink,
}

/// How a file's lines are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner<'p> {
    /// The plan of lines without a plan.
    pub plan: Option<&'p str>,
    /// Whether lines with mistakes are skipped.
    pub lenient: bool,
    /// Whether subscribers without addresses and tags get them live.
    pub live: bool,
}

/// Reads the subscribers of a file, the last one of `files`.
pub(super) fn read<'a>(
    files: &'a [(PathBuf, String)],
    manner: Manner<'_>,
    sink: &'a Sink,
    roll: &mut Roll<'_>,
) {
    let file = files.len() - 1;
    let sheet = Sheet {
        text: &files[file].1,
        number: file as u32,
        sink,
    };
    let skipped = sheet.text.len() - sheet.text.trim_start_matches('\u{feff}').len();
    let mut rows = Rows::new(&sheet, skipped);
    let Some(header) = rows.next() else {
        let message = "this file is empty: write a header that names the columns, and a line for each subscriber, such as";
        sink.empty(sheet.at(0), message, EXAMPLE);
        return;
    };
    let named = |cell: &str| cell.trim().eq_ignore_ascii_case("Circuit ID");
    if header.record.iter().any(named) {
        let Some(columns) = Columns::find(&sheet, &header) else {
            return;
        };
        sink.set_lenient(manner.lenient);
        shaped_devices(&sheet, &columns, rows, manner, roll);
    } else {
        let Some(columns) = keys(&sheet, &header) else {
            return;
        };
        sink.set_lenient(manner.lenient);
        by_keys(&sheet, &header, &columns, rows, manner, roll);
    }
    sink.set_lenient(false);
}

/// The lines of a file.
struct Rows<'a> {
    sheet: &'a Sheet<'a>,
    reader: csv::Reader<&'a [u8]>,
    /// Where the reader began.
    from: usize,
}

impl<'a> Rows<'a> {
    fn new(sheet: &'a Sheet<'a>, from: usize) -> Self {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            // Missing and surplus fields are reported below, with their places.
            .flexible(true)
            .comment(Some(b'#'))
            .from_reader(&sheet.text.as_bytes()[from..]);
        Self {
            sheet,
            reader,
            from,
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            let mut record = StringRecord::new();
            match self.reader.read_record(&mut record) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    let at = error.position().map_or(0, |at| at.byte() as usize);
                    let place = self.sheet.at(self.from + at);
                    let sink = self.sheet.sink;
                    sink.wrong(place, format!("this is not CSV: {error}"));
                    return None;
                }
            }
            let row = Row::new(record, self.sheet.text, self.from);
            let Some(column) = row.record.iter().position(|cell| cell.contains('\n')) else {
                return Some(row);
            };
            // A quote that is not closed would take in all lines up to the next quote.
            let message =
                "this field goes on in the next line: close its quote, or write it in one line";
            self.sheet.wrong(&row, column, message);
            self.sheet.sink.skip();
            let rest = self.sheet.text.get(row.start..).unwrap_or("");
            let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
            *self = Self::new(self.sheet, row.start + end);
        }
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

    /// Where a cell begins: the column's number says after how many commas outside of quotes.
    fn cell(&self, row: &Row, column: usize) -> Place {
        let start = row.start;
        // Most lines have no quotes. Then commas are all that the reader left out, and nothing is searched.
        let length = row.record.as_slice().len() + row.record.len().saturating_sub(1);
        let end = self.text.as_bytes().get(start + length);
        if matches!(end, None | Some(b'\n' | b'\r'))
            && let Some(cell) = row.record.range(column)
        {
            return self.at(start + cell.start + column);
        }
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

    /// Whether a line is skipped, as mistakes were found since there were this many.
    fn skips(&self, mistakes: usize) -> bool {
        self.sink.is_lenient() && self.sink.count() > mistakes
    }

    /// The values of a cell, separated by any of these.
    fn values<T>(
        &self,
        row: &Row,
        column: Option<usize>,
        between: &[char],
        read: fn(&str) -> Result<Vec<T>, String>,
        into: &mut Vec<(T, Place)>,
    ) {
        let Some(column) = column.filter(|_| !row.cell(column).is_empty()) else {
            return;
        };
        let place = self.cell(row, column);
        for text in row.cell(Some(column)).split(between) {
            if text.trim().is_empty() {
                continue;
            }
            match read(text.trim()) {
                Ok(found) => into.extend(found.into_iter().map(|what| (what, place))),
                Err(message) => self.wrong(row, column, message),
            }
        }
    }

    /// The value of a cell, if there is one.
    fn one<T>(
        &self,
        row: &Row,
        column: Option<usize>,
        read: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = row.cell(column);
        if text.is_empty() {
            return None;
        }
        let wrong = |message| self.wrong(row, column.unwrap_or(0), message);
        read(text).map_err(wrong).ok()
    }

    /// Where the value of a key is: its cell, or the line if the file has no such column.
    fn place(&self, row: &Row, column: Option<usize>) -> Place {
        column.map_or(self.at(row.start), |column| self.cell(row, column))
    }

    fn rate(
        &self,
        row: &Row,
        column: Option<usize>,
        read: fn(&str) -> Result<u64, String>,
    ) -> Option<u64> {
        let rate = self.one(row, column, read)?;
        if rate == 0 {
            self.wrong(row, column.unwrap_or(0), "a rate must be more than 0");
            return None;
        }
        Some(rate)
    }
}

/// The columns of Tidegate's form, by the keys of subscribers.
fn keys<'h>(sheet: &Sheet<'_>, header: &'h Row) -> Option<HashMap<&'h str, usize>> {
    let mut columns = HashMap::new();
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
        return None;
    }
    Some(columns)
}

/// Whether a cell says so.
fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a truth value: write true or false"))
}

/// Tidegate's form: the header names keys of subscribers.
fn by_keys(
    sheet: &Sheet<'_>,
    header: &Row,
    columns: &HashMap<&str, usize>,
    rows: Rows<'_>,
    manner: Manner<'_>,
    roll: &mut Roll<'_>,
) {
    let of = |key: &str| columns.get(key).copied();
    let between = [' ', ';', ',', '\t'];
    for row in rows {
        let mistakes = sheet.sink.count();
        if row.record.len() > header.record.len() {
            let (found, wanted) = (row.record.len(), header.record.len());
            let message = format!(
                "{found} fields, and the header has {wanted}: quote values that hold commas"
            );
            sheet.wrong(&row, wanted, message);
            sheet.sink.skip();
            continue;
        }
        let mut found = Vec::new();
        let live = row.cell(of("addresses")) == LIVE;
        for (key, read) in matches::KEYS {
            if live && key == "addresses" {
                continue;
            }
            sheet.values(&row, of(key), &between, read, &mut found);
        }
        let place = |key| sheet.place(&row, of(key));
        let mut users = Vec::new();
        let user = |user: &str| Ok(vec![user.to_owned()]);
        sheet.values(&row, of("users"), &between, user, &mut users);
        let named = row.cell(of("plan"));
        let rates = PerDirection::new(|way| sheet.rate(&row, of(way.name()), quantity::rate));
        let draft = Draft {
            name: row.cell(of("name")),
            plan: if named.is_empty() {
                manner.plan
            } else {
                Some(named)
            },
            parent: Some(row.cell(of("parent"))).filter(|parent| !parent.is_empty()),
            rates,
            live: live || manner.live && found.is_empty(),
            matches: found,
            unread: sheet.sink.count() > mistakes,
            users,
            suspended: sheet.one(&row, of("suspended"), truth).unwrap_or(false),
            place: place("name"),
            plan_place: place("plan"),
            parent_place: place("parent"),
            rate_places: PerDirection::new(|way| place(way.name())),
            from: Binding {
                port: Some(row.cell(of("from-port")).to_owned()).filter(|port| !port.is_empty()),
                mac: sheet.one(&row, of("from-mac"), Mac::read),
                tags: sheet.one(&row, of("from-vlan"), Binding::read_tags),
            },
            port_place: place("from-port"),
        };
        if sheet.skips(mistakes) || !roll.add(draft) {
            sheet.sink.skip();
        }
    }
}

/// A prefix of the family of its column. A list whose commas are not quoted shifts what follows.
fn family(text: &str, wanted: &str) -> Result<Vec<Match>, String> {
    let found = if text.contains(':') { "IPv6" } else { "IPv4" };
    match matches::addresses(text)? {
        _ if found != wanted => Err(format!(
            "'{text}' is {found} in a column of {wanted}: quote lists that hold commas"
        )),
        what => Ok(what),
    }
}

/// The columns of LibreQoS's form.
struct Columns {
    id: usize,
    /// The addresses of devices, which are users of RADIUS where they are none.
    mac: Option<usize>,
    ipv4: usize,
    ipv6: usize,
    down: usize,
    up: usize,
    /// The name of the node above, and its number.
    parent: Option<usize>,
    parent_id: Option<usize>,
    /// Number of columns.
    width: usize,
    /// The columns that the nodes' numbers have, behind the parent's name. LibreQoS reads lines from before it had
    /// them too, and its example is such a file.
    numbers: Range<usize>,
}

impl Columns {
    /// The name of the node that a line's circuit is below.
    fn parent<'r>(&self, row: &'r Row, nodes: &'r Tree<'_>) -> Option<&'r str> {
        let name = row.cell(self.parent);
        let without = row.record.len() + self.numbers.len() == self.width;
        match self.parent_id.filter(|_| name.is_empty() && !without) {
            Some(id) => nodes.named(row.cell(Some(id))),
            None => Some(name).filter(|name| !name.is_empty()),
        }
    }

    /// Where the values of a line are: circuit, addresses of both families, rates down and up, MAC address.
    fn of(&self, row: &Row) -> [Option<usize>; 6] {
        let without = row.record.len() + self.numbers.len() == self.width;
        let [id, ipv4, ipv6, down, up] =
            [self.id, self.ipv4, self.ipv6, self.down, self.up].map(Some);
        [id, ipv4, ipv6, down, up, self.mac].map(|column| {
            let column = column?;
            let moved = without && column >= self.numbers.end;
            Some(column - if moved { self.numbers.len() } else { 0 })
        })
    }

    fn find(sheet: &Sheet<'_>, header: &Row) -> Option<Self> {
        let find = |names: [&str; 2]| {
            let is = |cell: &str| {
                let mut names = names.iter();
                names.any(|name| cell.trim().eq_ignore_ascii_case(name))
            };
            let found = header.record.iter().position(is);
            if found.is_none() {
                let message = format!("the header has no column `{}`", names[0]);
                sheet.wrong(header, 0, message);
            }
            found
        };
        let all = [
            ["Circuit ID", "Circuit ID"],
            ["IPv4", "IPv4"],
            ["IPv6", "IPv6"],
            ["Download Max Mbps", "Download Max"],
            ["Upload Max Mbps", "Upload Max"],
        ];
        let [id, ipv4, ipv6, down, up] = all.map(find);
        let named = |name: &str| {
            let mut cells = header.record.iter();
            cells.position(|cell| cell.trim().eq_ignore_ascii_case(name))
        };
        let numbers = match (named("Parent Node ID"), named("Anchor Node ID")) {
            (Some(parent), Some(anchor)) if parent + 1 == anchor => parent..anchor + 1,
            _ => 0..0,
        };
        Some(Self {
            parent: named("Parent Node"),
            parent_id: named("Parent Node ID"),
            width: header.record.len(),
            numbers,
            id: id?,
            mac: named("MAC"),
            ipv4: ipv4?,
            ipv6: ipv6?,
            down: down?,
            up: up?,
        })
    }
}

/// A circuit: the values that all of its devices share.
struct Circuit {
    name: String,
    parent: Option<String>,
    rates: PerDirection<Option<u64>>,
    matches: Vec<(Match, Place)>,
    unread: bool,
    users: Vec<(String, Place)>,
    place: Place,
    parent_place: Place,
    rate_places: PerDirection<Place>,
}

/// LibreQoS's form: a line for each device; the devices of a circuit share its limit. The rates are
/// those of the circuit's first device, as in LibreQoS; minimum rates have no effect here.
fn shaped_devices(
    sheet: &Sheet<'_>,
    columns: &Columns,
    rows: Rows<'_>,
    manner: Manner<'_>,
    roll: &mut Roll<'_>,
) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut circuits: Vec<Circuit> = Vec::new();
    for row in rows {
        let [id, ipv4, ipv6, down, up, mac] = columns.of(&row);
        let name = row.cell(id);
        if name.is_empty() && row.record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        let mistakes = sheet.sink.count();
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
        let mut found = Vec::new();
        let between = [',', ';', ' '];
        sheet.values(
            &row,
            ipv4,
            &between,
            |text| family(text, "IPv4"),
            &mut found,
        );
        sheet.values(
            &row,
            ipv6,
            &between,
            |text| family(text, "IPv6"),
            &mut found,
        );
        if sheet.skips(mistakes) {
            sheet.sink.skip();
            continue;
        }
        let number = *numbers.entry(name.to_owned()).or_insert_with(|| {
            circuits.push(Circuit {
                name: name.to_owned(),
                // Files without nodes often name some.
                parent: match roll.nodes().nodes.is_empty() {
                    true => None,
                    false => columns.parent(&row, roll.nodes()).map(str::to_owned),
                },
                rates,
                matches: Vec::new(),
                unread: false,
                users: Vec::new(),
                place: sheet.place(&row, id),
                parent_place: sheet.place(&row, columns.parent),
                rate_places: PerDirection { down, up }.map(|way| sheet.place(&row, way)),
            });
            circuits.len() - 1
        });
        let user = row.cell(mac);
        if manner.live && found.is_empty() && !user.is_empty() && Mac::read(user).is_err() {
            let user = (user.to_owned(), sheet.place(&row, mac));
            circuits[number].users.push(user);
        }
        circuits[number].matches.append(&mut found);
        circuits[number].unread |= sheet.sink.count() > mistakes;
    }
    for circuit in circuits {
        let draft = Draft {
            name: &circuit.name,
            plan: manner.plan,
            parent: circuit.parent.as_deref(),
            rates: circuit.rates,
            live: manner.live && circuit.matches.is_empty(),
            matches: circuit.matches,
            unread: circuit.unread,
            users: circuit.users,
            suspended: false,
            place: circuit.place,
            plan_place: circuit.place,
            parent_place: circuit.parent_place,
            rate_places: circuit.rate_places,
            from: Binding::default(),
            port_place: circuit.place,
        };
        if !roll.add(draft) {
            sheet.sink.skip();
        }
    }
}
