//! Media presentation descriptions of DASH (ISO/IEC 23009-1).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::programme::{Part, Programme, ProgrammeError, Rendition, Room, Track};
use super::timeline::{Line, Step, Times};
use super::{Manifest, Pattern, Place, Size, Source, uri};

/// Representations of a presentation.
const MOST_REPRESENTATIONS: usize = 1_000;
/// Elements around an element; a presentation needs three.
const MOST_LEVELS: usize = 8;

/// What an element hands down to those in it.
#[derive(Debug, Clone, Default)]
struct Level {
    /// `None`: it is on another server.
    base: Option<String>,
    /// Whether a `BaseURL` named the file, and whether one did so at this level.
    has_base: bool,
    has_own_base: bool,
    media: Option<String>,
    first: Option<String>,
    /// Whether the segments are named, by a pattern or one by one.
    named: bool,
    timescale: Option<u64>,
    duration: Option<u64>,
    lines: Arc<Vec<Line>>,
    first_number: Option<u64>,
    /// What it is: video, audio, text.
    kind: Option<String>,
    listed: Rc<Vec<String>>,
    /// The bytes of the file that initialize it, and those of its index: the first, and the one behind the last.
    starts: Option<(u64, u64)>,
    index: Option<(u64, u64)>,
}

/// A representation whose set is not complete.
struct Representation {
    id: String,
    rate: u64,
    level: Level,
}

/// What concerns all of a presentation.
#[derive(Debug, Default)]
struct Presentation {
    lasts: Option<Duration>,
    is_live: bool,
    periods: usize,
}

pub(super) fn read(path: &str, text: &[u8]) -> Option<Manifest> {
    let mut manifest = Manifest::default();
    parse(path.into(), text, |set| manifest.add_set(set))?;
    Some(manifest)
}

/// What a player of a presentation fetches.
pub(super) fn programme(
    source: Source<'_>,
    text: &[u8],
    mut room: Room,
) -> Result<Programme, ProgrammeError> {
    let mut sets = Vec::new();
    let all = parse(source, text, |set| sets.push(set)).ok_or(ProgrammeError::Unreadable)?;
    if all.is_live {
        return Err(ProgrammeError::Live);
    }
    if all.periods > 1 {
        return Err(ProgrammeError::Unsupported("several periods"));
    }
    let mut programme = Programme::default();
    // Of several languages a player chooses one: the first. Text is little, and is left out.
    let mut kinds = vec![Some("text".to_owned()), Some("image".to_owned())];
    for set in sets {
        let kind = set
            .first()
            .and_then(|representation| representation.level.kind.clone());
        if kind.is_some() && kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        let mut track = Track::default();
        for representation in set {
            let rendition = representation.rendition(source, all.lasts, &mut room)?;
            track.renditions.push(rendition);
        }
        programme.tracks.push(track);
    }
    Ok(programme)
}

/// Reads a presentation, and hands on the representations of each set, which are one track.
fn parse(
    source: Source<'_>,
    text: &[u8],
    mut add_set: impl FnMut(Vec<Representation>),
) -> Option<Presentation> {
    let text = std::str::from_utf8(text).ok()?;
    let mut reader = Reader::from_str(text);
    let mut all = Presentation::default();
    let mut levels = vec![Level {
        base: Some(source.path.to_owned()),
        ..Level::default()
    }];
    let mut set: Vec<Representation> = Vec::new();
    let mut count = 0;
    // What a `BaseURL` has so far.
    let mut reference: Option<String> = None;
    loop {
        let event = reader.read_event().ok()?;
        let (element, empty) = match &event {
            Event::Start(element) => (Some(element), false),
            Event::Empty(element) => (Some(element), true),
            _ => (None, false),
        };
        if let Some(element) = element {
            let level = levels.last_mut()?;
            match element.local_name().as_ref() {
                b"MPD" => {
                    let lasts = attribute(element, "mediaPresentationDuration");
                    all.lasts = lasts.as_deref().and_then(duration);
                    all.is_live = attribute(element, "type").is_some_and(|kind| kind == "dynamic");
                }
                b"Period" => {
                    all.periods += 1;
                    // A single period lasts as long as the presentation, which need not say it then (ISO/IEC 23009-1, 5.3.2.1).
                    let lasts = attribute(element, "duration");
                    all.lasts = all.lasts.or(lasts.as_deref().and_then(duration));
                }
                _ => {}
            }
            match element.local_name().as_ref() {
                b"Period" | b"AdaptationSet" | b"Representation" if !empty => {
                    let below = Level {
                        has_own_base: false,
                        ..level.clone()
                    };
                    levels.push(below);
                    if levels.len() > MOST_LEVELS {
                        return None;
                    }
                }
                b"BaseURL" => reference = (!empty).then(String::new),
                b"SegmentTemplate" => level.template(element),
                b"SegmentList" => {
                    level.named = true;
                    level.times(element);
                    level.listed = Rc::default();
                }
                b"SegmentURL" => {
                    // A list that is handed down is complete.
                    if let Some(listed) = Rc::get_mut(&mut level.listed) {
                        listed.extend(attribute(element, "media"));
                    }
                }
                b"SegmentTimeline" => {
                    level.lines = Arc::default();
                }
                b"SegmentBase" => level.index = range(element, "indexRange").or(level.index),
                b"Initialization" => {
                    level.first = attribute(element, "sourceURL");
                    level.starts = range(element, "range");
                }
                b"S" => level.timed(element),
                _ => {}
            }
            if matches!(
                element.local_name().as_ref(),
                b"AdaptationSet" | b"Representation"
            ) {
                let level = levels.last_mut()?;
                let named = attribute(element, "contentType").or(attribute(element, "mimeType"));
                let kind = named.and_then(|kind| Some(kind.split('/').next()?.to_owned()));
                level.kind = level.kind.take().or(kind);
            }
            if element.local_name().as_ref() == b"Representation" {
                count += 1;
                set.push(Representation {
                    id: attribute(element, "id").unwrap_or_default(),
                    rate: number(element, "bandwidth").unwrap_or(0),
                    level: levels.last()?.clone(),
                });
            }
        }
        match (&event, &mut reference) {
            (Event::Text(text), Some(reference)) => reference.push_str(&text.decode().ok()?),
            (Event::CData(text), Some(reference)) => reference.push_str(&text.decode().ok()?),
            (Event::GeneralRef(entity), Some(reference)) => {
                match entity.resolve_char_ref().ok()? {
                    Some(character) => reference.push(character),
                    None => {
                        let name = entity.decode().ok()?;
                        reference.push_str(resolve_predefined_entity(&name)?);
                    }
                }
            }
            (Event::End(element), reference) => match element.local_name().as_ref() {
                b"BaseURL" => {
                    let reference = reference.take()?;
                    let (level, above) = levels.split_last_mut()?;
                    let above = above
                        .last()
                        .map_or(Some(source.path), |above| above.base.as_deref());
                    level.rebase(above, &source.seen(reference.trim()));
                }
                b"Representation" => set.last_mut()?.level = levels.pop()?,
                b"AdaptationSet" => {
                    levels.pop()?;
                    add_set(std::mem::take(&mut set));
                }
                b"Period" => drop(levels.pop()?),
                _ => {}
            },
            (Event::Eof, _) => break,
            _ => {}
        }
        if count > MOST_REPRESENTATIONS {
            return None;
        }
    }
    Some(all)
}

impl Level {
    /// Takes a `BaseURL`, as it is seen from the level above. Several at one level are alternatives (ISO/IEC 23009-1, 5.6.5): the first
    /// one that leads to this server counts.
    fn rebase(&mut self, above: Option<&str>, reference: &str) {
        if self.has_own_base && self.base.is_some() {
            return;
        }
        self.base = above.and_then(|above| uri::resolve(above, reference));
        self.has_own_base = true;
        self.has_base |= self.base.is_some();
    }

    fn times(&mut self, element: &BytesStart<'_>) {
        self.timescale = number(element, "timescale").or(self.timescale);
        self.duration = number(element, "duration").or(self.duration);
        self.first_number = number(element, "startNumber").or(self.first_number);
    }

    fn template(&mut self, element: &BytesStart<'_>) {
        self.named = true;
        self.times(element);
        self.media = attribute(element, "media").or(self.media.take());
        self.first = attribute(element, "initialization").or(self.first.take());
    }

    /// A line of a timeline: segments that last equally long.
    fn timed(&mut self, element: &BytesStart<'_>) {
        // A timeline that is handed down is complete.
        if let Some(lines) = Arc::get_mut(&mut self.lines) {
            let repeated = attribute(element, "r").and_then(|count| count.parse().ok());
            lines.push(Line {
                begins: number(element, "t"),
                lasts: number(element, "d").unwrap_or(0),
                repeated: repeated.unwrap_or(0),
            });
        }
    }

    /// When each segment begins, and how long it lasts, in units of the timescale: of at most this many. `all` is how long
    /// all of them play.
    fn times_of_all(&self, all: Option<Duration>, most: usize) -> Vec<(u64, u64)> {
        let scale = self.step().timescale;
        let end = all.map(|all| all.as_nanos().saturating_mul(scale.into()) / 1_000_000_000);
        let end = end.map_or(0, |end| u64::try_from(end).unwrap_or(u64::MAX));
        let repeated = match self.listed.len() {
            0 => -1,
            count => i64::try_from(count - 1).unwrap_or(i64::MAX),
        };
        let alike = [Line {
            begins: None,
            lasts: self.duration.unwrap_or(0),
            repeated,
        }];
        let lines = match self.duration {
            Some(_) => &alike[..],
            None => &self.lines[..],
        };
        let (mut times, mut at) = (Vec::new(), 0);
        for (i, line) in lines.iter().enumerate() {
            at = line.begins.unwrap_or(at);
            let until = lines.get(i + 1).and_then(|next| next.begins).unwrap_or(end);
            let mut left = u64::try_from(line.repeated).map_or(u64::MAX, |more| more + 1);
            // The end need not be a whole number of segments: what is missing is less than a thousandth of one then.
            while left > 0 && line.lasts > 0 && times.len() < most {
                if line.repeated < 0 && at.saturating_add(line.lasts / 1_000) >= until {
                    break;
                }
                times.push((at, line.lasts));
                at = at.saturating_add(line.lasts);
                left -= 1;
            }
        }
        times
    }

    /// What tells the time of a segment by its number.
    fn numbers(&self) -> Times {
        let unit = self.step();
        match self.duration {
            None if !self.lines.is_empty() => Times::Timeline {
                lines: Arc::clone(&self.lines),
                first: self.first_number(),
                unit,
            },
            lasts => Times::Alike(Step {
                units: lasts.unwrap_or(0),
                ..unit
            }),
        }
    }

    /// The number of the first segment (ISO/IEC 23009-1, 5.3.9.5.3).
    fn first_number(&self) -> u64 {
        self.first_number.unwrap_or(1)
    }

    /// Bytes at the beginning of a file that are no video. Without a range of its own the initialization is all before the index.
    fn head(&self) -> u64 {
        match (self.starts, self.index) {
            (None, None) => 0,
            (None, Some((_, end))) => end,
            (Some((0, end)), Some((index, behind))) if index <= end => behind.max(end),
            (Some((0, end)), _) => end,
            (Some(_), _) => 0,
        }
    }

    /// A unit of its times.
    fn step(&self) -> Step {
        Step {
            units: 1,
            timescale: self.timescale.unwrap_or(1).max(1),
        }
    }
}

impl Manifest {
    /// Adds the representations of a set, which are one track.
    fn add_set(&mut self, set: Vec<Representation>) {
        let rates = set.iter().map(|representation| representation.rate);
        let track = self.track(rates.collect());
        for Representation { id, rate, level } in set {
            let Some(base) = level.base.as_deref().filter(|_| rate > 0) else {
                continue;
            };
            let size = Size::Rate(rate);
            if !level.named {
                // One file with an index, of which players fetch ranges.
                if level.has_base {
                    let place = Place::ByOffset { head: level.head() };
                    self.list(base.to_owned(), track, size, Some(place));
                }
                continue;
            }
            let named = |template: &str| filled(template, &id, rate);
            if let Some((path, "", _)) = level.first.as_deref().map(named).as_ref().map(parts)
                && let Some(path) = uri::resolve(base, path)
            {
                self.list(path, track, size, None);
            }
            let numbers = level.numbers();
            for (i, media) in (0..).zip(&*level.listed) {
                if self.is_full() {
                    return;
                }
                if let Some(path) = uri::resolve(base, media) {
                    self.list(
                        path,
                        track,
                        size,
                        numbers
                            .at(level.first_number().saturating_add(i))
                            .map(Place::At),
                    );
                }
            }
            let Some((before, after, hole)) = level.media.as_deref().map(named) else {
                continue;
            };
            // The number stands in no part that the resolution of the path would change.
            let Some((before, after)) = uri::resolve(base, &format!("{before}{MARK}{after}"))
                .and_then(|path| {
                    let (before, after) = path.split_once(MARK)?;
                    Some((before.to_owned(), after.to_owned()))
                })
            else {
                continue;
            };
            let times = match hole {
                Some(Hole::Number) => numbers,
                Some(Hole::Time) => Times::Alike(level.step()),
                None => continue,
            };
            let last = self.patterns.last().map(|pattern| &pattern.times);
            let weight = times.weight(last);
            if !self.has_room(before.len() + after.len() + weight) {
                return;
            }
            self.patterns.push(Pattern {
                track,
                size,
                before,
                after,
                times,
            });
        }
    }
}

impl Representation {
    /// What a player fetches of it. `all` is how long it plays, if that is known.
    fn rendition(
        self,
        source: Source<'_>,
        all: Option<Duration>,
        room: &mut Room,
    ) -> Result<Rendition, ProgrammeError> {
        let Self { id, rate, level } = self;
        if !level.named {
            return Err(ProgrammeError::Unsupported(
                "representations in one file with an index",
            ));
        }
        let base = level.base.as_deref().ok_or(ProgrammeError::Elsewhere)?;
        let source = Source {
            path: base,
            ..source
        };
        let address = |reference: &str| source.address(reference).ok_or(ProgrammeError::Elsewhere);
        let first = match &level.first {
            Some(template) => {
                let (before, after, _) = filled(template, &id, rate);
                Some(address(&format!("{before}{after}"))?)
            }
            None => None,
        };
        let step = level.step();
        let mut rendition = Rendition {
            rate,
            first: first.map(|address| Part::whole(address, Duration::ZERO)),
            parts: Vec::new(),
        };
        let times = level.times_of_all(all, room.segments + 1);
        for (i, (begins, lasts)) in (0..).zip(&times) {
            let address = match (&level.media, level.listed.get(i as usize)) {
                (_, Some(listed)) => address(listed)?,
                (Some(template), None) => {
                    let number = level.first_number().saturating_add(i);
                    address(&numbered(template, &id, rate, (number, *begins)))?
                }
                // The list ends.
                (None, None) => break,
            };
            let plays = step.times(*lasts).unwrap_or(Duration::MAX);
            room.take(&address, plays)?;
            rendition.parts.push(Part::whole(address, plays));
        }
        Ok(rendition)
    }
}

/// A template with a segment's number or time filled in, with zeros in front as it demands.
fn numbered(template: &str, id: &str, rate: u64, (number, time): (u64, u64)) -> String {
    let (before, after, hole) = filled(template, id, rate);
    let value = match hole {
        Some(Hole::Number) => number,
        Some(Hole::Time) => time,
        None => return before + &after,
    };
    let widths = template.split('$').skip(1).step_by(2);
    let width = widths
        .filter(|part| part.starts_with("Number") || part.starts_with("Time"))
        .find_map(|part| {
            part.split_once("%0")?
                .1
                .strip_suffix('d')?
                .parse::<usize>()
                .ok()
        });
    format!(
        "{before}{value:0width$}{after}",
        width = width.unwrap_or(0).min(20)
    )
}

/// A duration as XML writes it, such as `PT1H2M3.5S`. Years and months, which have no fixed length, are not read.
fn duration(text: &str) -> Option<Duration> {
    let (days, time) = text
        .strip_prefix('P')?
        .split_once('T')
        .unwrap_or((&text[1..], ""));
    let (mut seconds, mut number) = (0.0, String::new());
    for (part, units) in [
        (days, &[('D', 86_400.0)][..]),
        (time, &[('H', 3_600.0), ('M', 60.0), ('S', 1.0)]),
    ] {
        for character in part.chars() {
            if character.is_ascii_digit() || character == '.' {
                number.push(character);
                continue;
            }
            let (_, unit) = units.iter().find(|(name, _)| *name == character)?;
            seconds += number.parse::<f64>().ok()? * unit;
            number.clear();
        }
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Stands for the number in a path that is resolved: no path holds it.
const MARK: char = '\u{1}';

/// What a template leaves open.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hole {
    Number,
    Time,
}

fn parts((before, after, hole): &(String, String, Option<Hole>)) -> (&str, &str, Option<Hole>) {
    (before, after, *hole)
}

/// Fills a template in (ISO/IEC 23009-1, 5.3.9.4.4): what stands before its number or time, and behind it.
fn filled(template: &str, id: &str, rate: u64) -> (String, String, Option<Hole>) {
    let (mut before, mut after, mut hole) = (String::new(), String::new(), None);
    for (i, part) in template.split('$').enumerate() {
        let out = if hole.is_some() {
            &mut after
        } else {
            &mut before
        };
        if i % 2 == 0 {
            out.push_str(part);
            continue;
        }
        // A width such as %05d only adds zeros.
        match part.split('%').next().unwrap_or("") {
            "" => out.push('$'),
            "RepresentationID" => out.push_str(id),
            "Bandwidth" => out.push_str(&rate.to_string()),
            "Number" => hole = Some(Hole::Number),
            "Time" => hole = Some(Hole::Time),
            _ => {}
        }
    }
    (before, after, hole)
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    (value.len() <= uri::LONGEST).then(|| value.into_owned())
}

fn number(element: &BytesStart<'_>, name: &str) -> Option<u64> {
    attribute(element, name)?.parse().ok()
}

/// A range of bytes, `FIRST-LAST`: the first, and the one behind the last.
fn range(element: &BytesStart<'_>, name: &str) -> Option<(u64, u64)> {
    let range = attribute(element, name)?;
    let (first, last) = range.split_once('-')?;
    Some((
        first.parse().ok()?,
        last.parse::<u64>().ok()?.checked_add(1)?,
    ))
}
