//! Playlists of HLS (RFC 8216).

use std::time::Duration;

use m3u8_rs::{AlternativeMedia, MasterPlaylist, MediaPlaylist, Playlist, parse_playlist_res};

use super::{Manifest, Place, Size, uri};

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
            let mut media = |reference: &str| {
                let path = uri::resolve(path, reference)?;
                let Ok(Playlist::MediaPlaylist(media)) = parse_playlist_res(&other(&path)?) else {
                    return None;
                };
                Some((path, media))
            };
            variants(&mut manifest, &master, &mut media);
            renditions(&mut manifest, &master.alternatives, &mut media);
        }
    }
    Some(manifest)
}

/// Adds the variants, which are one track.
fn variants(
    manifest: &mut Manifest,
    master: &MasterPlaylist,
    media: &mut impl FnMut(&str) -> Option<(String, MediaPlaylist)>,
) {
    let variants = || {
        let all = master.variants.iter().filter(|variant| !variant.is_i_frame);
        all.take(MOST_PLAYLISTS)
    };
    let track = manifest.track(variants().map(|variant| variant.bandwidth).collect());
    for variant in variants() {
        if let Some((path, media)) = media(&variant.uri) {
            add(manifest, &path, &media, track, Some(variant.bandwidth));
        }
    }
}

/// Adds the renditions that have playlists of their own. Their rate is not stated, and those of a group are one track.
fn renditions(
    manifest: &mut Manifest,
    renditions: &[AlternativeMedia],
    media: &mut impl FnMut(&str) -> Option<(String, MediaPlaylist)>,
) {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for rendition in renditions.iter().take(MOST_PLAYLISTS) {
        let Some((path, media)) = rendition.uri.as_deref().and_then(&mut *media) else {
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
            Some(_) => Place::ByOffset,
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
