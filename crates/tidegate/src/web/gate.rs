//! Forwards what the page asks of a gate to the gate's API.
//!
//! The page keeps to the origin that it came from, and the gate's daemon, which has the rights to change the kernel's limits, serves no
//! page. Every program on this machine can reach a port on loopback, so requests must carry a key, which only the printed address has.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;

use super::key::{self, Key};

/// The gate gives up earlier.
const PATIENCE: Duration = Duration::from_secs(40);
/// No answer is longer, in bytes: ten thousand subscribers take less than a tenth of it.
const ANSWER: u64 = 64 << 20;
/// Most bytes of a request's body, as in the gate's API.
const BODY: usize = 16 << 10;

/// Where a gate's API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// On a socket of the file system.
    Unix(PathBuf),
    /// On a port of this machine.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "this is no address: write unix:/run/tidegate/api.sock or 127.0.0.1:9642, as `listen` of [api] in the \
             gate's file"
                .to_owned()
        })?;
        if !address.ip().to_canonical().is_loopback() {
            return Err(format!(
                "{address} is another machine, and the gate's API has no encryption: use `ssh -L` to bring its port \
                 to 127.0.0.1"
            ));
        }
        Ok(Self::Tcp(address))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// A gate that the page may ask.
pub struct Gate {
    address: Address,
    /// The token of the gate's API. The page never sees it.
    token: Option<String>,
    /// What the page's requests carry.
    key: Arc<Key>,
    /// Whether the page may change limits.
    change: bool,
    /// Whether the token may, once the gate has said so.
    allowed: OnceCell<bool>,
}

impl Gate {
    /// A gate whose API listens at an address.
    ///
    /// # Errors
    /// The token cannot be read.
    pub fn new(
        address: Address,
        token: Option<&Path>,
        key: Arc<Key>,
        change: bool,
    ) -> anyhow::Result<Self> {
        let token = token.map(|path| {
            let text = fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            let word = text.trim();
            if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
                bail!("{}: a token is one word", path.display());
            }
            Ok(word.to_owned())
        });
        Ok(Self {
            address,
            token: token.transpose()?,
            key,
            change,
            allowed: OnceCell::new(),
        })
    }

    /// What the page may do, and why it may not do more.
    async fn access(&self) -> Value {
        let allowed = || async {
            // The gate refuses every method but GET to a token that only reads, and answers this one to others with 405.
            let asked = self.answer(&Method::OPTIONS, "/v1/status", &[]).await;
            match asked.status() {
                StatusCode::FORBIDDEN => Ok(false),
                status if status.is_server_error() => Err(()),
                _ => Ok(true),
            }
        };
        let why = if !self.change {
            "start `tidegate web` with `--gate-change`"
        } else if self.allowed.get_or_try_init(allowed).await == Ok(&false) {
            "start `tidegate web` with a token that may also change limits: this one only reads"
        } else {
            return json!({ "change": true });
        };
        json!({ "change": false, "why": why })
    }

    async fn answer(&self, method: &Method, path: &str, body: &[u8]) -> Response {
        let exchanged = tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await;
        let exchanged = exchanged.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match exchanged {
            Ok((status, body)) => {
                (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => refused(
                StatusCode::BAD_GATEWAY,
                &format!(
                    "the gate's API at {} does not answer ({error}): is `tidegate gate run` running, with `[api]` in \
                     its file, and may this user open the socket?",
                    self.address
                ),
            ),
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> io::Result<(StatusCode, Vec<u8>)> {
        // HTTP/1.0: the answer ends with the connection.
        let mut request = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n");
        if let Some(token) = &self.token {
            request.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if !body.is_empty() {
            request.push_str("Content-Type: application/json\r\n");
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let request = [request.as_bytes(), body].concat();
        let answer = match &self.address {
            Address::Unix(path) => ask(UnixStream::connect(path).await?, &request).await?,
            Address::Tcp(address) => ask(TcpStream::connect(address).await?, &request).await?,
        };
        parsed(answer).ok_or_else(|| io::Error::other("it sent something that is not HTTP"))
    }
}

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The status and the body of an answer.
fn parsed(mut answer: Vec<u8>) -> Option<(StatusCode, Vec<u8>)> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n")?;
    let status = answer[..end].split(|byte| *byte == b' ').nth(1)?;
    let status = StatusCode::from_bytes(status).ok()?;
    answer.drain(..end + 4);
    Some((status, answer))
}

fn refused(status: StatusCode, why: &str) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        json!({ "error": why }).to_string(),
    )
        .into_response()
}

/// What the page may ask, below `/gate`.
pub fn router(gate: Gate) -> Router {
    Router::new()
        .route("/gate/{*path}", any(forward))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(Arc::new(gate))
}

async fn forward(
    State(gate): State<Arc<Gate>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !gate.key.is_in(&headers) {
        return refused(StatusCode::UNAUTHORIZED, key::MISSING);
    }
    let path = uri.path_and_query().map_or("", |whole| whole.as_str());
    let path = path.strip_prefix("/gate").unwrap_or_default();
    match wanted(&method, path) {
        Some(Wanted::Access) => axum::Json(gate.access().await).into_response(),
        Some(Wanted::Change) if !gate.change => refused(
            StatusCode::FORBIDDEN,
            "this page only shows the gate: start `tidegate web` with --gate-change to change limits",
        ),
        Some(Wanted::State | Wanted::Change) => gate.answer(&method, path, &body).await,
        None => refused(StatusCode::NOT_FOUND, "the page has no use for this path"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// What the page may do.
    Access,
    /// What the gate does.
    State,
    /// Another limit.
    Change,
}

/// What a request is for, of those that the page makes. The control socket would also end the daemon.
fn wanted(method: &Method, path: &str) -> Option<Wanted> {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let rest = path.strip_prefix("/v1/subscribers/");
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    match (method.as_str(), path, rest) {
        ("GET", "/access", _) => Some(Wanted::Access),
        ("GET", "/v1/status" | "/v1/subscribers" | "/v1/events", _) => Some(Wanted::State),
        ("GET", _, Some(rest)) if is_name(rest.strip_suffix("/flows").unwrap_or(rest)) => {
            Some(Wanted::State)
        }
        ("PATCH", _, Some(name)) if is_name(name) => Some(Wanted::Change),
        ("DELETE", _, Some(rest)) => {
            let name = rest.strip_suffix("/set")?;
            is_name(name).then_some(Wanted::Change)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_little() {
        let of = |method: &str, path: &str| wanted(&method.parse().expect("a method"), path);
        assert_eq!(of("GET", "/v1/subscribers?limit=5"), Some(Wanted::State));
        assert_eq!(of("GET", "/v1/events?limit=5"), Some(Wanted::State));
        assert_eq!(of("GET", "/v1/subscribers/a%2Fb"), Some(Wanted::State));
        assert_eq!(
            of("GET", "/v1/subscribers/alice/flows?limit=5"),
            Some(Wanted::State)
        );
        assert_eq!(of("PATCH", "/v1/subscribers/alice"), Some(Wanted::Change));
        assert_eq!(
            of("DELETE", "/v1/subscribers/alice/set"),
            Some(Wanted::Change)
        );
        for (method, path) in [
            ("POST", "/v1/stop"),
            ("POST", "/v1/reload"),
            ("GET", "/metrics"),
            ("PATCH", "/v1/subscribers/"),
            ("PATCH", "/v1/subscribers/../stop"),
            ("PATCH", "/v1/subscribers/alice/flows"),
            ("GET", "/v1/subscribers/a/b/flows"),
            ("DELETE", "/v1/subscribers/alice"),
        ] {
            assert_eq!(of(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn gates_are_on_this_machine() {
        let of = |text: &str| text.parse::<Address>();
        assert_eq!(
            of("unix:/run/x").map(|at| at.to_string()),
            Ok("unix:/run/x".into())
        );
        assert!(of("127.0.0.1:9642").is_ok() && of("[::1]:9642").is_ok());
        assert!(
            of("192.0.2.1:9642")
                .expect_err("refused")
                .contains("ssh -L")
        );
        assert!(of("gate").expect_err("refused").contains("no address"));
    }

    #[test]
    fn answers_are_taken_apart() {
        let parse = |text: &str| parsed(text.as_bytes().to_vec());
        let found = parse("HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nbody");
        assert_eq!(found, Some((StatusCode::NOT_FOUND, b"body".to_vec())));
        for text in ["", "HTTP/1.0 200", "x\r\n\r\n", "HTTP/1.0 abc\r\n\r\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
