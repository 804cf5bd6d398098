//! Media presentation descriptions of DASH (ISO/IEC 23009-1).

use std::rc::Rc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::{Manifest, Pattern, Place, Size, Step, uri};

/// Representations of a presentation.
const MOST_REPRESENTATIONS: usize = 1_000;
/// Elements around an element; a presentation needs three.
const MOST_LEVELS: usize = 8;

/// What an element hands down to those in it.
#[derive(Debug, Clone, Default)]
struct Level {
    base: String,
    /// Whether a `BaseURL` named the file.
    has_base: bool,
    media: Option<String>,
    first: Option<String>,
    /// Whether the segments are named, by a pattern or one by one.
    named: bool,
    timescale: Option<u64>,
    duration: Option<u64>,
    /// The time that a timeline has, and its segments.
    timeline: (u64, u64),
    listed: Rc<Vec<String>>,
}

/// A representation whose set is not complete.
struct Representation {
    id: String,
    rate: u64,
    level: Level,
}

pub(super) fn read(path: &str, text: &[u8]) -> Option<Manifest> {
    let text = std::str::from_utf8(text).ok()?;
    let mut reader = Reader::from_str(text);
    let mut manifest = Manifest::default();
    let mut levels = vec![Level {
        base: path.to_owned(),
        ..Level::default()
    }];
    let mut set: Vec<Representation> = Vec::new();
    let mut count = 0;
    let mut in_base = false;
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
                b"Period" | b"AdaptationSet" | b"Representation" if !empty => {
                    let below = level.clone();
                    levels.push(below);
                    if levels.len() > MOST_LEVELS {
                        return None;
                    }
                }
                b"BaseURL" => in_base = !empty,
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
                b"SegmentTimeline" => level.timeline = (0, 0),
                b"Initialization" => level.first = attribute(element, "sourceURL"),
                b"S" => level.timed(element),
                _ => {}
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
        match &event {
            Event::Text(text) if in_base => {
                let level = levels.last_mut()?;
                let reference = text.decode().ok()?;
                match uri::resolve(&level.base, reference.trim()) {
                    Some(base) => {
                        level.base = base;
                        level.has_base = true;
                    }
                    // On another server.
                    None => level.base = String::new(),
                }
            }
            Event::End(element) => match element.local_name().as_ref() {
                b"BaseURL" => in_base = false,
                b"Representation" => set.last_mut()?.level = levels.pop()?,
                b"AdaptationSet" => {
                    levels.pop()?;
                    manifest.add_set(std::mem::take(&mut set));
                }
                b"Period" => drop(levels.pop()?),
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
        if count > MOST_REPRESENTATIONS {
            return None;
        }
    }
    Some(manifest)
}

impl Level {
    fn times(&mut self, element: &BytesStart<'_>) {
        self.timescale = number(element, "timescale").or(self.timescale);
        self.duration = number(element, "duration").or(self.duration);
    }

    fn template(&mut self, element: &BytesStart<'_>) {
        self.named = true;
        self.times(element);
        self.media = attribute(element, "media").or(self.media.take());
        self.first = attribute(element, "initialization").or(self.first.take());
    }

    /// A line of a timeline: segments that last equally long.
    fn timed(&mut self, element: &BytesStart<'_>) {
        // A negative count stands for "until the next line".
        let repeated = number(element, "r").unwrap_or(0).saturating_add(1);
        let lasts = number(element, "d").unwrap_or(0);
        self.timeline.0 = (self.timeline.0).saturating_add(lasts.saturating_mul(repeated));
        self.timeline.1 = self.timeline.1.saturating_add(repeated);
    }

    /// How long a segment lasts: on average, where they differ.
    fn lasts(&self) -> Step {
        let (units, segments) = match (self.duration, self.timeline) {
            (Some(units), _) => (units, 1),
            (None, (time, segments)) => (time, segments),
        };
        let timescale = self.step().timescale.saturating_mul(segments.max(1));
        Step { units, timescale }
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
            if rate == 0 || level.base.is_empty() {
                continue;
            }
            let size = Size::Rate(rate);
            if !level.named {
                // One file with an index, of which players fetch ranges.
                if level.has_base {
                    self.list(level.base, track, size, Some(Place::ByOffset));
                }
                continue;
            }
            let named = |template: &str| filled(template, &id, rate);
            if let Some((path, "", _)) = level.first.as_deref().map(named).as_ref().map(parts)
                && let Some(path) = uri::resolve(&level.base, path)
            {
                self.list(path, track, size, None);
            }
            let lasts = level.lasts();
            for (i, media) in (0..).zip(&*level.listed) {
                if self.is_full() {
                    return;
                }
                if let Some(path) = uri::resolve(&level.base, media) {
                    self.list(path, track, size, lasts.times(i).map(Place::At));
                }
            }
            let Some((before, after, hole)) = level.media.as_deref().map(named) else {
                continue;
            };
            // The number stands in no part that the resolution of the path would change.
            let Some((before, after)) =
                uri::resolve(&level.base, &format!("{before}{MARK}{after}")).and_then(|path| {
                    let (before, after) = path.split_once(MARK)?;
                    Some((before.to_owned(), after.to_owned()))
                })
            else {
                continue;
            };
            let step = match hole {
                Some(Hole::Number) => lasts,
                Some(Hole::Time) => level.step(),
                None => continue,
            };
            if !self.has_room(before.len() + after.len()) {
                return;
            }
            self.patterns.push(Pattern {
                track,
                size,
                before,
                after,
                step,
            });
        }
    }
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
