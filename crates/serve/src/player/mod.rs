//! Viewers of videos, one or many: each fetches as a browser would, simulates a player's buffer, and reports what a
//! viewer would have seen.

mod adaptive;
mod addresses;
mod answer;
mod arrivals;
mod elsewhere;
mod error;
#[cfg(feature = "http3")]
mod http3;
#[cfg(not(feature = "http3"))]
#[path = "http3/absent.rs"]
mod http3;
mod screen;
mod tls;
mod transport;
mod viewed;
mod viewer;

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::Uri;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

pub use arrivals::{Arrivals, ArrivalsError};
pub use error::PlayError;
pub use screen::Patience;
pub use tidegate_limiter::pacing::playback::Viewing;
pub use tls::Trust;
pub use transport::{HttpVersion, Transport};
pub use viewed::{Ended, Player, Viewed};

/// Viewers, and when and from where they come.
#[derive(Debug)]
pub struct Audience {
    /// The videos: viewers take one URL after the other. At least one; see [`video_url`].
    pub urls: Vec<Uri>,
    /// Addresses of this machine that viewers connect from, one after the other; if empty, the kernel
    /// chooses.
    pub from: Vec<IpAddr>,
    /// The number of viewers.
    pub viewers: u32,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// Seed of random arrivals.
    pub seed: u64,
    /// How each of them watches.
    pub player: Player,
}

impl Audience {
    /// Lets all viewers watch, and returns what each saw, by number. When `leave` is done, all of them leave.
    /// Viewers who have not arrived yet are left out.
    ///
    /// # Panics
    /// If there is no URL.
    pub async fn watch(self, leave: impl Future<Output = ()>) -> Vec<Viewed> {
        let began = Instant::now();
        let (leaves, leaving) = watch::channel(false);
        let player = Arc::new(self.player);
        let mut viewers = JoinSet::new();
        let mut known: HashMap<Id, (usize, Uri)> = HashMap::new();
        let times = self.arrivals.times(self.viewers, self.seed);
        for (number, at) in times.into_iter().enumerate() {
            let url = self.urls[number % self.urls.len()].clone();
            let from = self.from.get(number % self.from.len().max(1)).copied();
            let (player, leaving) = (Arc::clone(&player), leaving.clone());
            let who = (number, url.clone());
            let task = viewers.spawn(async move {
                let mut early = leaving.clone();
                tokio::select! {
                    () = tokio::time::sleep_until(began + at) => {}
                    _ = early.wait_for(|&leave| leave) => return None,
                }
                Some(viewer::watch(number, (url, from), &player, began, leaving).await)
            });
            known.insert(task.id(), who);
        }
        let mut viewed = Vec::new();
        let mut leave = pin!(leave);
        let mut left = false;
        loop {
            tokio::select! {
                next = viewers.join_next_with_id() => match next {
                    Some(Ok((_, one))) => viewed.extend(one),
                    // One viewer's fault must not cost the results of all others.
                    Some(Err(error)) => {
                        let who = known.remove(&error.id());
                        viewed.extend(who.map(|(number, url)| Viewed {
                            ended: Err(PlayError::Fault(error.to_string())),
                            ..Viewed::nothing(number, &url)
                        }));
                    }
                    None => break,
                },
                () = &mut leave, if !left => {
                    left = true;
                    // This fails only if all viewers have left already.
                    let _ = leaves.send(true);
                }
            }
        }
        player.transport.finish().await;
        viewed.sort_by_key(|one| one.viewer);
        viewed
    }
}

/// The URL of a video, of HTTP or HTTPS with a host.
///
/// # Errors
/// If it is anything else.
pub fn video_url(url: &str) -> Result<Uri, PlayError> {
    let wrong = |problem: String| PlayError::Url {
        url: url.to_owned(),
        problem,
    };
    let uri: Uri = url
        .parse()
        .map_err(|error| wrong(format!("this is not a URL: {error}")))?;
    let (Some("http" | "https"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(wrong(
            "this is not the URL of a video: write http://HOST:PORT/PATH".into(),
        ));
    };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let Some(port) = authority.strip_prefix(host) else {
        return Err(wrong(
            "users and passwords in URLs are not supported".into(),
        ));
    };
    // One that is no port would be left out without a word.
    if !matches!(port, "" | ":") && uri.port_u16().is_none_or(|port| port == 0) {
        return Err(wrong(format!("{} is not a port", &port[1..])));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Pieces of 0 bytes are not allowed, and a viewer who is to fetch them panics.
    #[tokio::test]
    async fn a_viewer_that_panics_costs_no_results() {
        let second = Duration::from_secs(1);
        let audience = Audience {
            urls: vec![video_url("http://127.0.0.1:1/v.mp4").unwrap()],
            from: Vec::new(),
            viewers: 2,
            arrivals: Arrivals::Once,
            seed: 0,
            player: Player {
                transport: Transport::new(second, None, None).unwrap(),
                watch: None,
                buffer: second,
                range: Some(0),
                patience: Patience {
                    start: second,
                    restart: second,
                },
                start_up: second,
                rate: None,
            },
        };
        let viewed = audience.watch(std::future::pending()).await;
        let numbers: Vec<_> = viewed.iter().map(|one| one.viewer).collect();
        assert_eq!(numbers, [0, 1]);
        assert!(viewed.iter().all(Viewed::failed), "{viewed:?}");
    }

    #[test]
    fn only_http_urls_are_taken() {
        for right in ["http://[::1]:8080/v.mp4", "https://h/v.mp4"] {
            assert!(video_url(right).is_ok(), "{right}");
        }
        for right in ["http://h:65535/v", "http://h:/v"] {
            assert!(video_url(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "v.mp4",
            "/v.mp4",
            "ftp://h/v",
            "http://",
            "http://h:65617/v",
            "http://h:0/v",
            "http://user:pw@h/v",
        ] {
            assert!(video_url(wrong).is_err(), "{wrong}");
        }
    }
}
