//! Which requests are allowed: those with the token, or on loopback those that are not from a web
//! page.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::Refusal;

/// Fewest characters of a token: a shorter one could be guessed.
const LEAST: usize = 16;

/// Checks that not every user can read a file with a secret.
pub fn private(path: &Path, what: &str) -> anyhow::Result<()> {
    let place = || format!("cannot read the {what} file {}", path.display());
    let mode = fs::metadata(path).with_context(place)?.mode();
    if mode & 0o007 != 0 {
        anyhow::bail!(
            "every user can read the {what} file {} (mode {:o}): run `chmod 600` on it",
            path.display(),
            mode & 0o777
        );
    }
    Ok(())
}

/// The secret that requests must carry.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Reads a file that holds only the token, and that not every user can read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("cannot read the token file {}", path.display());
        private(path, "token")?;
        let text = fs::read_to_string(path).with_context(place)?;
        let token = text.trim();
        let sound = token.len() >= LEAST && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !sound {
            anyhow::bail!(
                "the token file {} must hold one word of at least {LEAST} characters, such as \
                 `openssl rand -hex 32` prints",
                path.display()
            );
        }
        Ok(Self(token.into()))
    }

    /// The secret itself, for requests to another gate.
    pub fn secret(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// Whether a request carries it. The time of the comparison reveals only the length.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION);
        let Some((scheme, given)) = value
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        let given = given.trim_start().as_bytes();
        scheme.eq_ignore_ascii_case("bearer") && bool::from(given.ct_eq(self.0.as_bytes()))
    }
}

/// Which requests are allowed.
#[derive(Clone)]
pub enum Access {
    /// All requests: the file system decides who can open the Unix socket.
    Anybody,
    /// Requests from this machine, except those of web pages in a browser. A page that names this
    /// address, or whose host name was made to resolve to it, must not change limits (RFC 9110
    /// section 4.2.2, RFC 6454).
    Local,
    /// Requests with this token, and those with the second one that change nothing.
    Token(Token, Option<Token>),
}

/// A router that answers only allowed requests.
pub fn guarded(router: Router, access: Access) -> Router {
    router.layer(from_fn_with_state(access, guard))
}

async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let refusal = match &access {
        Access::Anybody => None,
        Access::Local => from_a_page(request.headers()).then(|| {
            Refusal::new(
                StatusCode::FORBIDDEN,
                "web pages may not use this address: configure `token`, and send it".into(),
            )
        }),
        Access::Token(token, reader) => {
            let headers = request.headers();
            let reads = reader.as_ref().is_some_and(|reader| reader.is_in(headers));
            if token.is_in(headers) || (reads && request.method() == Method::GET) {
                None
            } else if reads {
                let text = "this token may only read: send the token that may also change limits";
                Some(Refusal::new(StatusCode::FORBIDDEN, text.into()))
            } else {
                let text =
                    "the token is missing or wrong: send the header `Authorization: Bearer TOKEN`";
                Some(Refusal::new(StatusCode::UNAUTHORIZED, text.into()))
            }
        }
    };
    match refusal {
        None => next.run(request).await,
        Some(refusal) => {
            let peer = request.extensions().get::<super::Peer>();
            let peer = peer.map_or("-", |peer| &peer.0);
            let (status, path) = (refusal.status.as_u16(), request.uri().path());
            tracing::warn!(peer, path, status, "refused");
            refusal.into_response()
        }
    }
}

/// Whether a browser sent this for a web page: it names the page's origin, or the host is not local.
fn from_a_page(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let local = name.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    headers.contains_key(header::ORIGIN) || !local
}
