//! One viewer: a connection, its requests, and the playback.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, LOCATION, RANGE};
use hyper::{Response, StatusCode, Uri};
use tidegate_limiter::Rate;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::adaptive::{self, Show};
use super::answer::Answer;
use super::elsewhere;
use super::error::PlayError;
use super::screen::Screen;
use super::transport::{Line, get};
use super::viewed::{Ended, Player, Viewed, note_answer};
use crate::adaptive::Manifest;

/// Watches a video until it has arrived, the viewer leaves, or something fails. `from` is an
/// address of this machine, if it matters.
pub async fn watch(
    number: usize,
    (url, from): (Uri, Option<IpAddr>),
    player: &Player,
    first: Instant,
    mut leaving: watch::Receiver<bool>,
) -> Viewed {
    let began = Instant::now();
    let mut screen = Screen::new(player.patience, player.start_up, player.rate, began);
    let mut show = Show::new(began);
    let is_adaptive = Manifest::is_named(url.path());
    let mut viewed = Viewed {
        arrived: began - first,
        ..Viewed::nothing(number, &url)
    };
    let patience = player.watch.unwrap_or(Duration::MAX);
    let fetching = async {
        match is_adaptive {
            true => adaptive::fetch(player, (&url, from), &mut show, &mut viewed).await,
            false => fetch(player, &url, from, &mut screen, &mut viewed).await,
        }
    };
    let ended = tokio::select! {
        result = timeout(patience, fetching) => match result {
            Ok(Ok(())) => Ok(Ended::Complete),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Ended::Left),
        },
        _ = leaving.wait_for(|&leave| leave) => Ok(Ended::Left),
    };
    // A viewer who received everything has finished at the last byte.
    let complete = matches!(ended, Ok(Ended::Complete));
    viewed.ended = ended;
    if is_adaptive {
        show.report(Instant::now(), complete, &mut viewed);
        return viewed;
    }
    let end = if complete {
        screen.last
    } else {
        Instant::now()
    };
    viewed.duration = end - began;
    viewed.bytes = screen.bytes;
    viewed.length = screen.length;
    viewed.rate = screen.rate;
    viewed.viewing = screen.viewing(end, complete);
    viewed.throttled = screen.throttled();
    viewed
}

async fn fetch(
    player: &Player,
    url: &Uri,
    from: Option<IpAddr>,
    screen: &mut Screen,
    viewed: &mut Viewed,
) -> Result<(), PlayError> {
    let mut line = Line::new(&player.transport, (url, from));
    loop {
        let mut request = get(url)?;
        if let Some(size) = player.range {
            let last = screen.bytes.saturating_add(size - 1);
            let range = format!("bytes={}-{last}", screen.bytes);
            if let Ok(range) = range.parse() {
                request.headers_mut().insert(RANGE, range);
            }
        }
        let response = line.send(request, &mut viewed.port).await?;
        note_answer(&response, viewed);
        let whole = check(&response, screen)?;
        receive(response, (player, url, from), screen).await?;
        if whole || screen.length.is_some_and(|length| screen.bytes >= length) {
            break;
        }
    }
    if screen.complete().is_err() {
        look_elsewhere((player, url, from), screen).await?;
    }
    Ok(())
}

/// Finds the rate that the beginning of the file does not give.
async fn look_elsewhere(
    (player, url, from): (&Player, &Uri, Option<IpAddr>),
    screen: &mut Screen,
) -> Result<(), PlayError> {
    let length = screen.length.ok_or(PlayError::UnknownRate)?;
    let head = screen.take_head();
    let found = elsewhere::rate(&player.transport, (url, from), length, head).await?;
    screen.begin(found.ok_or(PlayError::UnknownRate)?);
    Ok(())
}

/// Whether the response is the whole file.
fn check(response: &Response<Answer>, screen: &mut Screen) -> Result<bool, PlayError> {
    let answer = PlayError::Answer;
    let headers = response.headers();
    let text = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let stated = text(headers, "tidegate-rate").and_then(|rate| rate.parse().ok());
    screen.stated(stated.map(Rate::from_bits_per_second));
    match response.status() {
        StatusCode::OK if screen.bytes == 0 => {
            let length = text(headers, CONTENT_LENGTH.as_str());
            screen.length = length.and_then(|length| length.parse().ok());
            Ok(true)
        }
        StatusCode::PARTIAL_CONTENT => {
            // bytes FIRST-LAST/LENGTH
            let range = text(headers, CONTENT_RANGE.as_str()).unwrap_or_default();
            let (span, length) = range.rsplit_once('/').unwrap_or_default();
            let first = span
                .strip_prefix("bytes ")
                .and_then(|span| span.split('-').next());
            if first.and_then(|first| first.parse().ok()) != Some(screen.bytes) {
                return Err(answer(format!(
                    "the server sent another part of the file than was asked for: '{range}'"
                )));
            }
            let length = length.parse().ok();
            if screen.bytes > 0 && length != screen.length {
                return Err(answer("the file changed while it was fetched".into()));
            }
            screen.length = length;
            Ok(false)
        }
        status => {
            let to = text(headers, LOCATION.as_str()).filter(|_| status.is_redirection());
            let to = to.map_or_else(String::new, |to| format!(": the video is at {to}"));
            Err(answer(format!("the server answers {status}{to}")))
        }
    }
}

async fn receive(
    mut response: Response<Answer>,
    video: (&Player, &Uri, Option<IpAddr>),
    screen: &mut Screen,
) -> Result<(), PlayError> {
    let patience = video.0.transport.timeout();
    let before = screen.bytes;
    loop {
        let next = timeout(patience, response.frame()).await;
        let Some(frame) =
            next.map_err(|_| PlayError::Timeout("nothing arrived within the timeout"))?
        else {
            break;
        };
        if let Ok(data) = frame?.into_data() {
            match screen.arrived(&data) {
                Err(PlayError::UnknownRate) => look_elsewhere(video, screen).await?,
                arrived => arrived?,
            }
        }
    }
    if screen.bytes == before && screen.length != Some(before) {
        return Err(PlayError::Answer("the server sent nothing".into()));
    }
    Ok(())
}
