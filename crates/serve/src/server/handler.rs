//! From a request to its answer.

use std::convert::Infallible;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{
    ACCEPT_RANGES, ALLOW, ALT_SVC, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, HOST, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
    SERVER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, Response, StatusCode, Uri, Version};

use super::body::Answer;
use super::cache;
use super::conditional::Outcome;
use super::connection::Connection;
use super::cors;
use super::disk::Wait;
use super::files::{NoFile, PAGE, ServedFile, Target, path_of};
use super::mime;
use super::pace::Pace;
use super::range::{self, Span, Wanted};
use super::request::Request;
use super::slots::{Slot, SlotKind};
use crate::percent;

/// Header with the connection's group, for players, where connections are split among several.
pub const GROUP: HeaderName = HeaderName::from_static("tidegate-group");

/// Header with the encoding rate of a file in bit/s, for players that find it out.
const RATE: HeaderName = HeaderName::from_static("tidegate-rate");

/// How a request comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// TCP without TLS. All requests are led to TLS if the server is to do so.
    Plain,
    /// TCP with TLS. The client learns that there is HTTP/3.
    Tls,
    Quic,
}

/// Answers a request.
pub(super) async fn answer<B>(
    connection: Arc<Connection>,
    request: hyper::Request<B>,
    entrance: Entrance,
) -> Result<Response<Answer>, Infallible> {
    let record = Request::of(&request);
    let shared = &connection.shared;
    let config = &shared.config;
    let head = request.method() == Method::HEAD;
    let reads = head || request.method() == Method::GET;
    let redirect = shared.redirect.filter(|_| entrance == Entrance::Plain);
    let mut response = if !has_host(&request) {
        text(&connection, record, StatusCode::BAD_REQUEST, head)
    // Others are not led: a client may make GET of a POST that it repeats (RFC 9110, section 15.4.2), and browsers follow no redirection of
    // a preflight request.
    } else if let Some(port) = redirect.filter(|_| reads) {
        match secure(&request, port) {
            Some(to) => moved(&connection, record, &to, head),
            None => text(&connection, record, StatusCode::BAD_REQUEST, head),
        }
    } else if reads {
        let asked = (request.uri(), request.headers());
        file(connection.clone(), record, asked, head).await
    } else if request.method() == Method::OPTIONS && !config.cors.is_empty() {
        let mut response = empty(&connection, record, StatusCode::NO_CONTENT);
        cors::describe(response.headers_mut());
        response
    } else {
        let mut response = text(&connection, record, StatusCode::METHOD_NOT_ALLOWED, head);
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        response
    };
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static("tidegate"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    cors::allow(&config.cors, request.headers(), headers);
    if entrance == Entrance::Tls
        && let Some(service) = &shared.alternative
    {
        headers.insert(ALT_SVC, service.clone());
    }
    if config.groups.len() > 1
        && let Ok(name) = HeaderValue::from_str(&connection.group().name)
    {
        headers.insert(GROUP, name);
    }
    Ok(response)
}

/// Whether a request names one host, as HTTP/1.1 demands, and its name may be one (RFC 9112, section 3.2).
fn has_host<B>(request: &hyper::Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (request.version(), hosts.next()) {
        (Version::HTTP_11, None) => false,
        (_, None) => true,
        (_, Some(host)) => hosts.next().is_none() && host.to_str().is_ok_and(is_host),
    }
}

/// Whether a text is a host, perhaps with a port. It is empty if the target has no authority (RFC 9110, section 7.2).
fn is_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return text.is_empty();
    };
    // Behind the host there is nothing, or a colon and digits (RFC 3986, section 3.2.3). What is before it is not the host's.
    let port = text.strip_prefix(authority.host());
    let port = port.map(|port| port.strip_prefix(':').unwrap_or(port));
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

async fn file(
    connection: Arc<Connection>,
    record: Request,
    (uri, headers): (&Uri, &HeaderMap),
    head: bool,
) -> Response<Answer> {
    let target = uri.path();
    let shared = Arc::clone(&connection.shared);
    let list = shared.config.index;
    let path = match path_of(target) {
        Ok(path) => path,
        Err(missing) => return text(&connection, record, missing.status(), head),
    };
    let slot = match shared.slots.take(connection.address(), SlotKind::File) {
        Ok(slot) => slot,
        Err(reason) => {
            shared.metrics.refused(reason);
            return text(&connection, record, StatusCode::SERVICE_UNAVAILABLE, head);
        }
    };
    let (entry, name) = match shared.folder.find(&path, list, Wait::Never) {
        Err(NoFile::NotInMemory) => {
            let find = move || (shared.folder.find(&path, list, Wait::ForDisk), path);
            match tokio::task::spawn_blocking(find).await {
                Ok(found) => found,
                Err(_) => (Err(NoFile::Failed), PathBuf::new()),
            }
        }
        found => (found, path),
    };
    match entry {
        // A path with a slash at the end cannot name a file.
        Ok(Target::File(_)) if target.ends_with('/') => {
            text(&connection, record, StatusCode::NOT_FOUND, head)
        }
        Ok(Target::File(found)) => {
            let found = (*found, slot);
            send(connection, record, (uri, headers), found, &name, head)
        }
        Ok(Target::Folder(..) | Target::Page(_)) if !target.ends_with('/') => {
            // Leading slashes are removed: a client could read `//name` as another server's name.
            let query = uri
                .query()
                .map_or(String::new(), |query| format!("?{query}"));
            let to = format!("/{}/{query}", target.trim_start_matches('/'));
            moved(&connection, record, &to, head)
        }
        Ok(Target::Page(found)) => {
            let (found, name) = ((*found, slot), name.join(PAGE));
            send(connection, record, (uri, headers), found, &name, head)
        }
        Ok(Target::Folder(names, more)) => index(&connection, record, (&names, more), head),
        Err(missing) => text(&connection, record, missing.status(), head),
    }
}

/// Leads to another address for good.
fn moved(connection: &Arc<Connection>, record: Request, to: &str, head: bool) -> Response<Answer> {
    let mut response = text(connection, record, StatusCode::MOVED_PERMANENTLY, head);
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// The same address with TLS at this port.
fn secure<B>(request: &hyper::Request<B>, port: u16) -> Option<String> {
    let named = request.headers().get(HOST).map(HeaderValue::to_str);
    // HTTP/2 names it in the address alone (RFC 9113, section 8.3.1).
    let named: Option<Authority> = named
        .and_then(Result::ok)
        .and_then(|name| name.parse().ok());
    let authority = request.uri().authority().cloned().or(named)?;
    let host = authority.host();
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", PathAndQuery::as_str);
    // The target `*` is no path.
    let path = Some(path).filter(|path| path.starts_with('/'))?;
    Some(match port {
        443 => format!("https://{host}{path}"),
        _ => format!("https://{host}:{port}{path}"),
    })
}

/// A file's answer, with what caches may do with it.
fn cached(mut response: Response<Answer>, path: &Path) -> Response<Answer> {
    let config = &response.body().connection().shared.config;
    let status = response.status();
    if let Some(control) = cache::control(&config.cache, path).cloned()
        && (status.is_success() || status == StatusCode::NOT_MODIFIED)
    {
        response.headers_mut().insert(CACHE_CONTROL, control);
    }
    response
}

fn send(
    connection: Arc<Connection>,
    mut record: Request,
    (uri, headers): (&Uri, &HeaderMap),
    (found, slot): (ServedFile, Slot),
    name: &Path,
    head: bool,
) -> Response<Answer> {
    let now = SystemTime::now();
    let outcome = found.validators.evaluate(headers);
    let wanted = match headers.get(RANGE).map(HeaderValue::to_str) {
        // Range is defined only for GET (RFC 9110, section 14.2).
        Some(Ok(range)) if !head && found.validators.range_holds(headers, now) => {
            range::wanted(range, found.length)
        }
        _ => Wanted::Whole,
    };
    let whole = Span {
        start: 0,
        end: found.length,
    };
    let (status, span) = match (outcome, wanted) {
        (Outcome::NotModified, _) => (StatusCode::NOT_MODIFIED, None),
        (Outcome::Failed, _) => (StatusCode::PRECONDITION_FAILED, None),
        (_, Wanted::Unsatisfiable) => (StatusCode::RANGE_NOT_SATISFIABLE, None),
        (_, Wanted::Part(span)) => (StatusCode::PARTIAL_CONTENT, Some(span)),
        (_, Wanted::Whole) => (StatusCode::OK, Some(whole)),
    };
    record.status = status;
    let rate = found.rate.filter(|_| span.is_some());
    let (length, total) = (found.length, span.map(|span| span.end - span.start));
    let answer = match span {
        Some(span) if !head => {
            let (shared, address) = (&connection.shared, connection.address());
            let asked = (uri, headers);
            let pace = Pace::of(&found, &shared.viewers, &shared.config, address, asked);
            Answer::video(connection, record, (found.file, slot), pace, span)
        }
        _ => Answer::bytes(connection, record, ""),
    };
    let validators = found.validators;
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(etag) = HeaderValue::from_str(&validators.etag) {
        headers.insert(ETAG, etag);
    }
    // Not later than the answer (RFC 9110, section 8.8.2.1).
    let modified = httpdate::fmt_http_date(validators.modified.min(now));
    if let Ok(modified) = HeaderValue::from_str(&modified) {
        headers.insert(LAST_MODIFIED, modified);
    }
    let content_range = match (status, span) {
        (StatusCode::RANGE_NOT_SATISFIABLE, _) => Some(format!("bytes */{length}")),
        (StatusCode::PARTIAL_CONTENT, Some(Span { start, end })) => {
            Some(format!("bytes {start}-{}/{length}", end - 1))
        }
        _ => None,
    };
    if let Some(range) = content_range
        && let Ok(range) = HeaderValue::from_str(&range)
    {
        headers.insert(CONTENT_RANGE, range);
    }
    if let Some(rate) = rate {
        headers.insert(RATE, rate.bits_per_second().into());
    }
    if let Some(total) = total {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime::of(name)));
        headers.insert(CONTENT_LENGTH, total.into());
    }
    cached(response, name)
}

/// A status, and nothing more.
fn empty(
    connection: &Arc<Connection>,
    mut record: Request,
    status: StatusCode,
) -> Response<Answer> {
    record.status = status;
    let mut response = Response::new(Answer::bytes(Arc::clone(connection), record, ""));
    *response.status_mut() = status;
    response
}

/// A status, in words.
fn text(
    connection: &Arc<Connection>,
    mut record: Request,
    status: StatusCode,
    head: bool,
) -> Response<Answer> {
    record.status = status;
    let words = format!("{status}\n");
    let mut response = short(connection, record, words, "text/plain; charset=utf-8", head);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let soon = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, soon);
    }
    response
}

fn index(
    connection: &Arc<Connection>,
    mut record: Request,
    (names, more): (&[String], usize),
    head: bool,
) -> Response<Answer> {
    record.status = StatusCode::OK;
    let mut page = "<!doctype html><meta charset=utf-8><title>Videos</title><ul>\n".to_owned();
    for name in names {
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "<li><a href=\"./{}\">{}</a>",
            percent::encoded(name),
            escaped(name)
        );
    }
    if more > 0 {
        let _ = writeln!(page, "<li>and {more} more");
    }
    page.push_str("</ul>\n");
    short(connection, record, page, "text/html; charset=utf-8", head)
}

fn short(
    connection: &Arc<Connection>,
    record: Request,
    content: String,
    kind: &'static str,
    head: bool,
) -> Response<Answer> {
    let (status, length) = (record.status, content.len());
    let content = if head { String::new() } else { content };
    let mut response = Response::new(Answer::bytes(Arc::clone(connection), record, content));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

impl NoFile {
    fn status(self) -> StatusCode {
        match self {
            Self::Bad => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed | Self::NotInMemory => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
