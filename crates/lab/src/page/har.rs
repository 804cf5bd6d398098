//! Objects from an HTTP archive: <http://www.softwareishard.com/blog/har-12-spec/>.

use std::collections::HashMap;

use serde_json::Value;
use tidegate_limiter::Nanos;

use super::{After, Host, MOST_BYTES, MOST_OBJECTS, Object};

/// The request of an archive that has no sizes of requests.
const REQUEST: u64 = 400;

/// The numbers of hosts, by whether they are without TLS, and by name and port.
type Hosts = HashMap<(bool, String), u16>;

/// An entry that was fetched from the network. Times are in milliseconds.
struct Entry<'a> {
    url: &'a str,
    initiator: Option<&'a str>,
    host: Host,
    redirects: bool,
    start: f64,
    /// When the first byte arrived, and the last.
    first: f64,
    end: f64,
    wait: f64,
    request: u64,
    bytes: u64,
}

/// The objects of the first page, and how long the browser works beside them.
pub fn read(text: &str) -> Result<(Vec<Object>, Nanos), String> {
    let archive: Value =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let log = &archive["log"];
    let all = log["entries"]
        .as_array()
        .ok_or("not an HTTP archive: it has no log.entries")?;
    let page = &log["pages"][0];
    let mut hosts = Hosts::new();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for value in all {
        let other =
            |id: &Value| !id.is_null() && !value["pageref"].is_null() && value["pageref"] != *id;
        if other(&page["id"]) {
            continue;
        }
        if let Some(entry) = entry(value, &mut hosts)? {
            entries.push(entry);
        }
        if entries.len() > MOST_OBJECTS {
            return Err(format!("more than {MOST_OBJECTS} objects"));
        }
    }
    entries.sort_by(|a, b| a.start.total_cmp(&b.start));
    if let Some(loaded) = loaded(page) {
        // HAR 1.2, `pageTimings`: it counts from the page's beginning, which may be long before the first request.
        let first = entries.first().map(|entry| entry.start);
        let loaded_at = began(page).or(first).unwrap_or(0.0) + loaded;
        entries.retain(|entry| entry.start <= loaded_at);
    }
    if entries.is_empty() {
        return Err("no object of it came from the network".to_owned());
    }
    let mut quickest: HashMap<Host, f64> = HashMap::new();
    for entry in &entries {
        let least = quickest.entry(entry.host).or_insert(entry.wait);
        *least = least.min(entry.wait);
    }
    let objects = entries.iter().enumerate().map(|(index, entry)| Object {
        host: entry.host,
        request: u32::try_from(entry.request).unwrap_or(u32::MAX).max(1),
        bytes: entry.bytes,
        wait: nanos(entry.wait - quickest[&entry.host]),
        after: after(&entries[..index], entry),
    });
    Ok((objects.collect(), nanos(work(page, &entries))))
}

/// When the page began, if the archive says it.
fn began(page: &Value) -> Option<f64> {
    page["startedDateTime"].as_str().and_then(milliseconds)
}

/// The milliseconds from the page's beginning to its load event.
fn loaded(page: &Value) -> Option<f64> {
    let loaded = page["pageTimings"]["onLoad"].as_f64();
    loaded.filter(|&at| at > 0.0)
}

/// The browser's milliseconds from the page's beginning to the first request, and from the last byte to the load event.
fn work(page: &Value, entries: &[Entry<'_>]) -> f64 {
    let (Some(began), Some(loaded)) = (began(page), loaded(page)) else {
        return 0.0;
    };
    let requested = entries.iter().map(|entry| entry.start);
    let first = requested.fold(f64::INFINITY, f64::min);
    let last = entries.iter().map(|entry| entry.end).fold(began, f64::max);
    (first - began).max(0.0) + (began + loaded - last).max(0.0)
}

/// What an entry waited for, among those before it.
fn after(before: &[Entry<'_>], entry: &Entry<'_>) -> Option<After> {
    let named = entry
        .initiator
        .and_then(|url| before.iter().rposition(|other| other.url == url));
    let object = named.or_else(|| {
        let complete = |other: &Entry<'_>| other.end <= entry.start;
        let document = before.iter().position(|other| !other.redirects);
        let last = (0..before.len())
            .filter(|&index| complete(&before[index]))
            .max_by(|&a, &b| before[a].end.total_cmp(&before[b].end));
        let arriving = document.filter(|&index| !complete(&before[index]));
        arriving.or(last).or((!before.is_empty()).then_some(0))
    })?;
    let other = &before[object];
    let share = match entry.start < other.end {
        true => ((entry.start - other.first) / (other.end - other.first).max(1e-3)).clamp(0.0, 1.0),
        false => 1.0,
    };
    Some(After {
        object,
        bytes: ((share * other.bytes as f64) as u64).clamp(1, other.bytes),
        delay: nanos(entry.start - other.end),
    })
}

/// An entry, unless it came from the cache or failed.
fn entry<'a>(value: &'a Value, hosts: &mut Hosts) -> Result<Option<Entry<'a>>, String> {
    let (request, response) = (&value["request"], &value["response"]);
    let url = request["url"].as_str().ok_or("an entry has no URL")?;
    let Some((plain, name)) = host(url) else {
        return Ok(None);
    };
    let size = |of: &Value, key: &str| of[key].as_f64().filter(|&size| size > 0.0).unwrap_or(0.0);
    let transferred = size(response, "_transferSize");
    let bytes = match transferred > 0.0 {
        true => transferred,
        false => size(response, "headersSize") + size(response, "bodySize"),
    };
    let status = response["status"].as_i64().unwrap_or(0);
    let cached = value["_fromCache"].is_string() || value["_servedFromCache"] == true;
    if bytes < 1.0 || status <= 0 || cached {
        return Ok(None);
    }
    let started = value["startedDateTime"].as_str();
    let start = started
        .and_then(milliseconds)
        .ok_or_else(|| format!("{url}: `startedDateTime` is not a time of ISO 8601"))?;
    let time = |key: &str| value["timings"][key].as_f64().filter(|&time| time > 0.0);
    let receive = time("receive").unwrap_or(0.0);
    let whole = value["time"].as_f64().filter(|&time| time > 0.0);
    // `connect` includes `ssl`. Playwright writes a sum of both as the time, so the parts are added here, if there are any before `wait`.
    let parts = ["blocked", "dns", "connect", "send", "wait", "receive"];
    let sum: f64 = parts.into_iter().filter_map(time).sum();
    let counts_twice = time("ssl").is_some() && sum > 0.0;
    let lasted = whole.map_or(
        receive,
        |whole| if counts_twice { whole.min(sum) } else { whole },
    );
    let end = start + lasted;
    let number = u16::try_from(hosts.len()).map_err(|_| "too many hosts")?;
    let number = *hosts.entry((plain, name)).or_insert(number);
    let asked = size(request, "headersSize") + size(request, "bodySize");
    Ok(Some(Entry {
        url,
        initiator: initiator(&value["_initiator"]),
        host: Host { number, plain },
        redirects: (300..400).contains(&status),
        start,
        first: (end - receive).max(start),
        end,
        wait: time("wait").unwrap_or(0.0),
        request: if asked > 0.0 { asked as u64 } else { REQUEST },
        bytes: (bytes as u64).min(MOST_BYTES),
    }))
}

/// The host of an address of HTTP: whether it is without TLS, and its name and port as RFC 3986 §6.2 normalises them.
fn host(url: &str) -> Option<(bool, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let (plain, port) = match scheme.to_ascii_lowercase().as_str() {
        "https" => (false, ":443"),
        "http" => (true, ":80"),
        _ => return None,
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = host.strip_suffix(port).unwrap_or(host);
    Some((plain, host.to_ascii_lowercase()))
}

/// The address of what asked for an object: a document, or the script on top of the stack.
fn initiator(value: &Value) -> Option<&str> {
    let mut stack = &value["stack"];
    for _ in 0..16 {
        if let Some(url) = stack["callFrames"][0]["url"]
            .as_str()
            .filter(|url| !url.is_empty())
        {
            return Some(url);
        }
        stack = &stack["parent"];
    }
    value["url"].as_str()
}

/// A time such as 2026-11-24T08:00:00.123Z in milliseconds since 1970.
fn milliseconds(text: &str) -> Option<f64> {
    let number =
        |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok().filter(|&n| n >= 0);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let rest = text.get(17..)?;
    let zone = rest.find(['Z', '+', '-'])?;
    let second: f64 = rest[..zone]
        .parse()
        .ok()
        .filter(|s: &f64| (0.0..61.0).contains(s))?;
    let offset = match rest[zone..].split_at(1) {
        ("Z", _) => 0,
        (sign, zone) => {
            let (hours, minutes) = (zone.get(0..2)?, zone.get(zone.len().checked_sub(2)?..)?);
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    // Days from the civil date, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let minutes = (days * 24 + hour) * 60 + minute - offset;
    Some(minutes as f64 * 60_000.0 + second * 1000.0)
}

/// Milliseconds as nanoseconds; negative ones are 0.
fn nanos(milliseconds: f64) -> Nanos {
    (milliseconds.clamp(0.0, 1e9) * 1e6) as Nanos
}
