//! Responses of HTTP/1 that are taken from the library for HTTP when it has written their heads.
//!
//! The library writes a response's head, and then waits for a body that gives it nothing. So the server can let go of the library, with its
//! buffers, and send the file itself, by calls that move it from the page cache into the socket. For the next request the library begins
//! anew. If it has read more than that one request, it keeps the response.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONNECTION, HeaderMap, UPGRADE};
use hyper::{Method, Request, Version};

use super::body::Answer;
use super::payload::Payload;

/// The response of a connection that is behind its head.
#[derive(Debug, Default)]
pub(super) struct Behind(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// There was a request of HTTP/1.
    has_begun: bool,
    /// Requests that the library has read.
    requests: u64,
    /// A request had a body, of which a part may still come.
    had_body: bool,
    response: Option<Taken>,
    /// Whom to wake if the library keeps the response. It has encoded the head.
    waker: Option<Waker>,
    /// The head is in the socket.
    is_written: bool,
    /// The library keeps this response.
    is_kept: bool,
}

/// A response whose head is written.
#[derive(Debug)]
pub(super) struct Taken {
    pub answer: Box<Answer>,
    /// Whether its client may send another request.
    pub persists: bool,
}

/// The body that the library for HTTP gets.
#[derive(Debug)]
pub(super) enum Sent {
    Whole(Box<Answer>),
    Behind(Place),
}

/// The place of a response that is behind its head, and its length.
#[derive(Debug)]
pub(super) struct Place {
    behind: Arc<Behind>,
    length: u64,
}

impl Behind {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was a request of HTTP/1.
    pub fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// The library has read a request. Returns whether its client may send another one afterwards; `None` if its response cannot be taken.
    pub fn asked<B: Body>(&self, request: &Request<B>) -> Option<bool> {
        let has_body = !request.body().is_end_stream();
        let mut state = self.state();
        state.has_begun |= request.version() <= Version::HTTP_11;
        state.requests += 1;
        state.had_body |= has_body;
        let may = !state.had_body
            && request.version() <= Version::HTTP_11
            && request.method() == Method::GET
            && !request.headers().contains_key(UPGRADE);
        may.then(|| persists(request.version(), request.headers()))
    }

    /// The body for the library, which waits for its head to be written.
    pub fn hold(self: &Arc<Self>, answer: Box<Answer>, persists: bool) -> Sent {
        let length = answer.left();
        let mut state = self.state();
        state.response = Some(Taken { answer, persists });
        (state.is_written, state.is_kept) = (false, false);
        Sent::Behind(Place {
            behind: Arc::clone(self),
            length,
        })
    }

    /// Whether a body follows at once what is written now: a head.
    pub fn follows(&self) -> bool {
        let state = self.state();
        state.waker.is_some() && !state.is_written
    }

    /// The library has written everything that it had.
    pub fn flushed(&self) {
        let mut state = self.state();
        state.is_written = state.waker.is_some();
    }

    /// The response whose head is written, if the library has read this many requests, and nothing more. Otherwise it keeps the response,
    /// and `push` sends the head, which still waits for more.
    pub fn take(&self, read: impl FnOnce() -> Option<u64>, push: impl FnOnce()) -> Option<Taken> {
        if !self.state().is_written {
            return None;
        }
        let read = read();
        let mut state = self.state();
        state.is_written = false;
        let waker = state.waker.take();
        if read == Some(state.requests) {
            return state.response.take();
        }
        state.is_kept = true;
        drop(state);
        push();
        waker?.wake();
        None
    }

    /// The response, as soon as it is known that the library keeps it.
    fn poll(&self, cx: &Context<'_>) -> Poll<Box<Answer>> {
        let mut state = self.state();
        if state.is_kept
            && let Some(taken) = state.response.take()
        {
            return Poll::Ready(taken.answer);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn forget(&self) {
        let mut state = self.state();
        let given_up = state.response.take();
        state.waker = None;
        drop(state);
        drop(given_up);
    }
}

/// Whether a connection persists after a request (RFC 9112, section 9.3).
fn persists(version: Version, headers: &HeaderMap) -> bool {
    let has = |token: &str| {
        let values = headers.get_all(CONNECTION).iter();
        let mut tokens = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        tokens.any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    match version {
        Version::HTTP_11 => !has("close"),
        _ => has("keep-alive") && !has("close"),
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.behind.forget();
    }
}

impl Body for Sent {
    type Data = Payload;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Payload>>>> {
        let this = self.get_mut();
        if let Self::Behind(place) = this {
            let Poll::Ready(answer) = place.behind.poll(cx) else {
                return Poll::Pending;
            };
            *this = Self::Whole(answer);
        }
        match this {
            Self::Whole(answer) => Pin::new(&mut **answer).poll_frame(cx),
            Self::Behind(_) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(answer) if answer.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(answer) => answer.size_hint(),
            Self::Behind(place) => SizeHint::with_exact(place.length),
        }
    }
}
