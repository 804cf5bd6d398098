//! The rate of a video whose beginning does not give it, found as real players find it: by more requests, for the parts where the
//! headers lead. The headers of many MP4 files are at their end.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::header::RANGE;
use hyper::{StatusCode, Uri};
use tidegate_limiter::Rate;
use tokio::time::timeout;

use super::error::PlayError;
use super::transport::{Line, Transport, get};
use crate::media::{Media, Source};

/// Bytes of a part.
const PART: u64 = 64 << 10;
/// Parts that are fetched at most.
const MOST: usize = 16;

/// The parts of a file that are known.
struct Parts {
    length: u64,
    known: Vec<(u64, Vec<u8>)>,
    /// The first place that was read and is not known.
    missed: Cell<Option<u64>>,
}

impl Source for Parts {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = self.length.saturating_sub(offset).min(buffer.len() as u64);
        let wanted = usize::try_from(wanted).unwrap_or(buffer.len());
        for (start, bytes) in &self.known {
            let skipped = offset.checked_sub(*start);
            let rest = skipped.and_then(|skipped| bytes.get(usize::try_from(skipped).ok()?..));
            if let Some(rest) = rest.filter(|rest| rest.len() >= wanted) {
                buffer[..wanted].copy_from_slice(&rest[..wanted]);
                return Ok(wanted);
            }
        }
        self.missed.set(self.missed.get().or(Some(offset)));
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }
}

/// The rate of a file of this length, whose first bytes are `head`, if its headers give it anywhere.
pub(super) async fn rate(
    transport: &Transport,
    (url, from): (&Uri, Option<IpAddr>),
    length: u64,
    head: Vec<u8>,
) -> Result<Option<Rate>, PlayError> {
    let mut parts = Parts {
        length,
        known: vec![(0, head)],
        missed: Cell::new(None),
    };
    let mut line = Line::new(transport, (url, from));
    for _ in 0..MOST {
        if let Ok(media) = Media::probe(&parts) {
            return Ok(Some(media.rate()));
        }
        let Some(offset) = parts.missed.take() else {
            return Ok(None);
        };
        let Some(bytes) = part(transport.timeout(), &mut line, url, offset).await? else {
            return Ok(None);
        };
        parts.known.push((offset, bytes));
    }
    Ok(None)
}

/// The bytes from this place on; `None` if the server sends no parts.
async fn part(
    patience: Duration,
    line: &mut Line<'_>,
    url: &Uri,
    offset: u64,
) -> Result<Option<Vec<u8>>, PlayError> {
    let mut request = get(url)?;
    let range = format!("bytes={offset}-{}", offset.saturating_add(PART - 1));
    if let Ok(range) = range.parse() {
        request.headers_mut().insert(RANGE, range);
    }
    let response = line.send(request, &mut 0).await?;
    if response.status() != StatusCode::PARTIAL_CONTENT {
        return Ok(None);
    }
    let body = Limited::new(response.into_body(), PART as usize).collect();
    let body = timeout(patience, body).await;
    let body = body.map_err(|_| PlayError::Timeout("nothing arrived within the timeout"))?;
    Ok(body.ok().map(|body| body.to_bytes().to_vec()))
}
