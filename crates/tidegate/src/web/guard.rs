//! Which requests are answered: those to this machine by its name, and from no other page.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Scripts, styles and connections come from this server only. WebAssembly is compiled, but no text is run as a program.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
                      img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HEADERS: &[(HeaderName, &str)] = &[
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

/// Refuses requests that name another host, such as one that was made to resolve to 127.0.0.1, and requests of other pages
/// (RFC 6454).
pub async fn guard(State(port): State<u16>, request: Request, next: Next) -> Response {
    let mut response = if is_ours(request.headers(), port) {
        next.run(request).await
    } else {
        let text =
            "this server answers only its page on this machine: open the address that it printed\n";
        (StatusCode::FORBIDDEN, text).into_response()
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name.clone(), HeaderValue::from_static(value));
    }
    response
}

fn is_ours(headers: &HeaderMap, port: u16) -> bool {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_host = |text: &str| hosts.iter().any(|host| host.eq_ignore_ascii_case(text));
    let only = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| value.to_str().unwrap_or(""));
        (first, values.next().is_none())
    };
    let (host, one_host) = only(header::HOST);
    let (origin, one_origin) = only(header::ORIGIN);
    let is_origin = |text: &str| text.strip_prefix("http://").is_some_and(is_host);
    one_host && one_origin && host.is_some_and(is_host) && origin.is_none_or(is_origin)
}
