//! Which network an address is in: files in MaxMind's format, as MaxMind, IPinfo, DB-IP and others give them.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{MaxMindDbError, Reader};
use serde_json::Value;

/// What is known of an address's network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// The longest prefix of an answer, such as 192.0.2.0/24.
    pub prefix: Option<String>,
    /// The autonomous system's number.
    pub asn: Option<u32>,
    /// Its organisation.
    pub organisation: Option<String>,
    /// Two letters of ISO 3166.
    pub country: Option<String>,
    /// Two letters: AF, AN, AS, EU, NA, OC or SA.
    pub continent: Option<String>,
}

/// Tables of networks. What the first does not know, the next one is asked for.
#[derive(Default)]
pub struct Networks {
    tables: Vec<(PathBuf, Reader<Vec<u8>>)>,
}

impl Networks {
    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Reads a file in MaxMind's format and adds it.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged; the message names it.
    pub fn add(&mut self, path: &Path) -> Result<(), String> {
        let say = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
        let bytes = fs::read(path).map_err(|error| say(&error))?;
        let reader = Reader::from_source(bytes).map_err(|error| {
            say(&format_args!(
                "not a table of networks in MaxMind's format (MMDB): {error}"
            ))
        })?;
        self.tables.push((path.to_owned(), reader));
        Ok(())
    }

    /// What the tables know of an address. A table that is damaged there knows nothing.
    pub fn find(&self, address: IpAddr) -> Network {
        let address = address.to_canonical();
        let mut network = Network::default();
        let mut longest = 0;
        for (_, table) in &self.tables {
            let Ok(Some((record, length, prefix))) = record(table, address) else {
                continue;
            };
            fn fill<T>(place: &mut Option<T>, value: impl FnOnce() -> Option<T>) {
                if place.is_none() {
                    *place = value();
                }
            }
            fill(&mut network.asn, || asn(&record));
            fill(&mut network.organisation, || {
                text(
                    &record,
                    &[
                        "autonomous_system_organization",
                        "as_name",
                        "as_organization",
                        "organization",
                        "name",
                        "org",
                    ],
                )
            });
            fill(&mut network.country, || {
                code(&record, "country", "iso_code", &["country_code", "country"])
            });
            fill(&mut network.continent, || {
                code(
                    &record,
                    "continent",
                    "code",
                    &["continent_code", "continent"],
                )
            });
            if length >= longest {
                (longest, network.prefix) = (length, Some(prefix));
            }
        }
        network
    }
}

type Found = (Value, u8, String);

fn record(table: &Reader<Vec<u8>>, address: IpAddr) -> Result<Option<Found>, MaxMindDbError> {
    // A table of IPv4 alone answers a question for IPv6 with an error.
    let found = table.lookup(address)?;
    let Some(record) = found.decode::<Value>()? else {
        return Ok(None);
    };
    let network = found.network()?;
    // IPv4 is a part of IPv6 in these files: its prefixes count by their length in IPv4.
    Ok(Some((record, network.prefix(), network.to_string())))
}

/// The number is an integer in MaxMind's files, and text such as `AS64496` in those of IPinfo.
fn asn(record: &Value) -> Option<u32> {
    let number = |key: &str| match record.get(key)? {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.trim_start_matches("AS").parse().ok(),
        _ => None,
    };
    ["autonomous_system_number", "asn", "as_number"]
        .into_iter()
        .find_map(number)
}

/// The first of these fields that holds text.
fn text(record: &Value, keys: &[&str]) -> Option<String> {
    let value = |key: &&str| Some(record.get(key)?.as_str()?.to_owned());
    keys.iter().find_map(value).filter(|text| !text.is_empty())
}

/// A code of two letters: in a record inside the record, or under one of these keys.
fn code(record: &Value, inner: &str, key: &str, keys: &[&str]) -> Option<String> {
    let nested = record.get(inner).and_then(|inner| text(inner, &[key]));
    let is_code = |text: &String| text.len() == 2 && text.bytes().all(|b| b.is_ascii_uppercase());
    nested
        .or_else(|| {
            keys.iter()
                .find_map(|key| text(record, &[key]).filter(is_code))
        })
        .filter(is_code)
}
