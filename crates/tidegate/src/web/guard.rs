//! Which requests are answered: those to this machine by its name, and from no other page.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Scripts, styles and connections come from this server only. WebAssembly is compiled, but no text is run as a program.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
                      img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-cache"),
];

/// Refuses requests that name another host, such as one that was made to resolve to 127.0.0.1, and requests of other pages
/// (RFC 6454). Browsers send no origin for what another page embeds, but say by `Sec-Fetch-Site` that it is another page (W3C, Fetch
/// Metadata). A link on another page may lead here.
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
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_ours(headers: &HeaderMap, port: u16) -> bool {
    let is_host = |text: &str| {
        let (name, given) = match text.split_once(':') {
            Some((name, port)) => (name, port),
            // Browsers leave out the port that HTTP has anyway.
            None => (text, "80"),
        };
        let is_name = ["127.0.0.1", "localhost"]
            .iter()
            .any(|host| host.eq_ignore_ascii_case(name));
        is_name && given == port.to_string()
    };
    let only = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| value.to_str().unwrap_or(""));
        (first, values.next().is_none())
    };
    let (host, one_host) = only(header::HOST);
    let (origin, one_origin) = only(header::ORIGIN);
    let is_origin = |text: &str| text.strip_prefix("http://").is_some_and(is_host);
    let (site, one_site) = only(HeaderName::from_static("sec-fetch-site"));
    let (mode, one_mode) = only(HeaderName::from_static("sec-fetch-mode"));
    // Older browsers do not send it.
    let is_site = |text: &str| matches!(text, "same-origin" | "none") || mode == Some("navigate");
    one_host
        && one_origin
        && one_site
        && one_mode
        && host.is_some_and(is_host)
        && origin.is_none_or(is_origin)
        && site.is_none_or(is_site)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(host: &'static str, origin: Option<&'static str>, port: u16) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        is_ours(&headers, port)
    }

    #[test]
    fn the_port_of_http_may_be_left_out() {
        assert!(ours("127.0.0.1", None, 80));
        assert!(ours("localhost:80", Some("http://LOCALHOST"), 80));
        assert!(ours("localhost:8080", Some("http://127.0.0.1:8080"), 8080));
        assert!(!ours("localhost", None, 8080));
        assert!(!ours("localhost:8080", None, 80));
        assert!(!ours("localhost:", None, 80));
        assert!(!ours("localhost:080", None, 80));
        assert!(!ours("other.example", None, 80));
        assert!(!ours("localhost", Some("http://other.example"), 80));
    }
}
