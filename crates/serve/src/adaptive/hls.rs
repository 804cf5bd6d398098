//! Playlists of HLS (RFC 8216).

use std::collections::HashMap;
use std::time::Duration;

use m3u8_rs::{
    AlternativeMedia, AlternativeMediaType, ByteRange, MasterPlaylist, MediaPlaylist, Playlist,
    VariantStream, parse_playlist_res,
};

use super::programme::{Part, Programme, ProgrammeError, Rendition, Room, Track};
use super::{Address, Manifest, Place, Size, Source, uri};
use crate::media::PLAUSIBLE;

/// Playlists that a multivariant playlist may name.
const MOST_PLAYLISTS: usize = 200;

pub(super) fn read(
    path: &str,
    text: &[u8],
    mut other: impl FnMut(&str) -> Option<Vec<u8>>,
) -> Option<Manifest> {
    let mut manifest = Manifest::default();
    match parse_playlist_res(text).ok()? {
        Playlist::MediaPlaylist(media) => {
            let track = manifest.track(Vec::new());
            add(&mut manifest, path, &media, track, None);
        }
        Playlist::MasterPlaylist(master) => {
            let mut media = |path: &str| match parse_playlist_res(&other(path)?) {
                Ok(Playlist::MediaPlaylist(media)) => Some(media),
                _ => None,
            };
            variants(&mut manifest, path, &master, &mut media);
            renditions(&mut manifest, path, &master.alternatives, &mut media);
        }
    }
    Some(manifest)
}

/// Adds the variants, which are one track. A multivariant playlist names the same playlist once for each group of audio, with bandwidths that
/// contain the audio. Which group a player takes is not known. So a playlist counts once, with the largest of them: a player that measures
/// against that one must be able to reach it.
fn variants(
    manifest: &mut Manifest,
    base: &str,
    master: &MasterPlaylist,
    media: &mut impl FnMut(&str) -> Option<MediaPlaylist>,
) {
    // Each with its path in the folder, or as it is written if it leads elsewhere.
    let mut all: Vec<(Result<String, &str>, u64)> = Vec::new();
    let variants = master.variants.iter().filter(|variant| !variant.is_i_frame);
    for variant in variants.take(MOST_PLAYLISTS) {
        let at = uri::resolve(base, &variant.uri).ok_or(&*variant.uri);
        match all.iter_mut().find(|(known, _)| *known == at) {
            Some((_, rate)) => *rate = variant.bandwidth.max(*rate),
            None => all.push((at, variant.bandwidth)),
        }
    }
    let track = manifest.track(all.iter().map(|(_, rate)| *rate).collect());
    for (path, rate) in all {
        if let Ok(path) = path
            && let Some(media) = media(&path)
        {
            // A bandwidth that cannot be says no more than none.
            let stated = Some(rate).filter(|rate| PLAUSIBLE.contains(rate));
            add(manifest, &path, &media, track, stated);
            covers(manifest, path);
        }
    }
}

/// Adds the renditions that have playlists of their own. Their rate is not stated, and those of a group are one track.
fn renditions(
    manifest: &mut Manifest,
    base: &str,
    renditions: &[AlternativeMedia],
    media: &mut impl FnMut(&str) -> Option<MediaPlaylist>,
) {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for rendition in renditions.iter().take(MOST_PLAYLISTS) {
        let path = rendition.uri.as_deref();
        let Some(path) = path.and_then(|reference| uri::resolve(base, reference)) else {
            continue;
        };
        let Some(media) = media(&path) else {
            continue;
        };
        let known = groups.iter().find(|group| group.0 == rendition.group_id);
        let track = match known {
            Some(group) => group.1,
            None => {
                let track = manifest.track(Vec::new());
                groups.push((&rendition.group_id, track));
                track
            }
        };
        add(manifest, &path, &media, track, None);
        covers(manifest, path);
    }
}

/// Notes that the manifest knows all segments of a playlist, if there was room for them.
fn covers(manifest: &mut Manifest, playlist: String) {
    if !manifest.is_full() {
        manifest.playlists.push(playlist);
    }
}

/// Adds the segments of a playlist, with the rate in bit/s that is stated for it.
fn add(
    manifest: &mut Manifest,
    path: &str,
    media: &MediaPlaylist,
    track: usize,
    stated: Option<u64>,
) {
    // Numbers of segments go on while a live playlist moves.
    let number = u32::try_from(media.media_sequence).unwrap_or(u32::MAX);
    let mut at = Duration::from_secs(media.target_duration).saturating_mul(number);
    let heads = heads(media);
    for segment in &media.segments {
        if manifest.is_full() {
            return;
        }
        let plays = Duration::try_from_secs_f32(segment.duration).unwrap_or_default();
        let begins = at;
        at = at.saturating_add(plays);
        let size = match stated {
            Some(rate) => Size::Rate(rate),
            None if segment.byte_range.is_none() && !plays.is_zero() => Size::Plays(plays),
            None => continue,
        };
        let place = match segment.byte_range {
            Some(_) => Place::ByOffset {
                head: heads.get(&*segment.uri).copied().unwrap_or(0),
            },
            None => Place::At(begins),
        };
        if let Some(path) = uri::resolve(path, &segment.uri) {
            manifest.list(path, track, size, Some(place));
        }
        let map = segment.map.as_ref().zip(stated);
        if let Some((map, rate)) = map
            && let Some(path) = uri::resolve(path, &map.uri)
        {
            manifest.list(path, track, Size::Rate(rate), None);
        }
    }
}

/// Where in each file the initialization ends that is a part of it (`EXT-X-MAP` with a range: RFC 8216, section 4.3.2.5).
fn heads(media: &MediaPlaylist) -> HashMap<&str, u64> {
    let maps = media.segments.iter().filter_map(|one| one.map.as_ref());
    let heads = maps.filter_map(|map| {
        let (first, count) = span(map.byte_range.as_ref(), 0)?;
        (first == 0).then_some((&*map.uri, count))
    });
    heads.collect()
}

/// The variants that a player chooses from: those with the first one's audio.
fn played(master: &MasterPlaylist) -> impl Iterator<Item = &VariantStream> {
    let variants = || master.variants.iter().filter(|variant| !variant.is_i_frame);
    let audio = variants().next().and_then(|first| first.audio.clone());
    let same = move |variant: &&VariantStream| variant.audio == audio;
    variants().filter(same).take(MOST_PLAYLISTS)
}

/// The audio that belongs to them, if it has a playlist: the default one, or the first.
fn audio(master: &MasterPlaylist) -> Option<&str> {
    let group = played(master).next()?.audio.as_ref()?;
    let of_group = |rendition: &&AlternativeMedia| {
        rendition.media_type == AlternativeMediaType::Audio && rendition.group_id == *group
    };
    let mut all = master.alternatives.iter().filter(of_group);
    let first = all.clone().next();
    all.find(|rendition| rendition.default)
        .or(first)?
        .uri
        .as_deref()
}

/// The playlists that a player of a multivariant playlist reads.
pub(super) fn playlists(source: Source<'_>, text: &[u8]) -> Vec<Address> {
    let Ok(Playlist::MasterPlaylist(master)) = parse_playlist_res(text) else {
        return Vec::new();
    };
    let video = played(&master).map(|variant| &*variant.uri);
    let all = video.chain(audio(&master));
    all.filter_map(|reference| source.address(reference))
        .collect()
}

/// What a player of a playlist fetches.
pub(super) fn programme(
    source: Source<'_>,
    text: &[u8],
    mut other: impl FnMut(&Address) -> Option<Vec<u8>>,
    mut room: Room,
) -> Result<Programme, ProgrammeError> {
    let unreadable = |_| ProgrammeError::Unreadable;
    let master = match parse_playlist_res(text).map_err(unreadable)? {
        Playlist::MasterPlaylist(master) => master,
        Playlist::MediaPlaylist(media) => {
            let renditions = vec![rendition(source, &media, 0, &mut room)?];
            let tracks = vec![Track { renditions }];
            return Ok(Programme { tracks });
        }
    };
    let mut read = |reference: &str, rate: u64| {
        let address = source.address(reference).ok_or(ProgrammeError::Elsewhere)?;
        let text = other(&address).ok_or(ProgrammeError::Unreadable)?;
        match parse_playlist_res(&text) {
            Ok(Playlist::MediaPlaylist(media)) => {
                let path = &address.path;
                rendition(Source { path, ..source }, &media, rate, &mut room)
            }
            _ => Err(ProgrammeError::Unreadable),
        }
    };
    let mut programme = Programme::default();
    let mut video = Track::default();
    for variant in played(&master) {
        video
            .renditions
            .push(read(&variant.uri, variant.bandwidth)?);
    }
    programme.tracks.push(video);
    if let Some(reference) = audio(&master) {
        let renditions = vec![read(reference, 0)?];
        programme.tracks.push(Track { renditions });
    }
    Ok(programme)
}

fn rendition(
    source: Source<'_>,
    media: &MediaPlaylist,
    rate: u64,
    room: &mut Room,
) -> Result<Rendition, ProgrammeError> {
    if !media.end_list {
        return Err(ProgrammeError::Live);
    }
    let resolve = |reference: &str| source.address(reference).ok_or(ProgrammeError::Elsewhere);
    let mut rendition = Rendition {
        rate,
        ..Rendition::default()
    };
    if let Some(map) = media
        .segments
        .iter()
        .find_map(|segment| segment.map.as_ref())
    {
        rendition.first = Some(Part {
            range: span(map.byte_range.as_ref(), 0),
            ..Part::whole(resolve(&map.uri)?, Duration::ZERO)
        });
    }
    // A range without a beginning follows the last one (RFC 8216, section 4.3.2.2).
    let mut after = 0;
    for segment in &media.segments {
        let range = span(segment.byte_range.as_ref(), after);
        after = range.map_or(0, |(first, count)| first.saturating_add(count));
        let plays =
            Duration::try_from_secs_f32(segment.duration).map_err(|_| ProgrammeError::Duration)?;
        let address = resolve(&segment.uri)?;
        room.take(&address, plays)?;
        rendition.parts.push(Part {
            address,
            plays,
            range,
        });
    }
    Ok(rendition)
}

fn span(range: Option<&ByteRange>, after: u64) -> Option<(u64, u64)> {
    let range = range?;
    Some((range.offset.unwrap_or(after), range.length))
}
