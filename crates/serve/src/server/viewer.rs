//! Who watches: requests of one viewer come by several connections.

use std::net::IpAddr;
use std::str::FromStr;

use hyper::Uri;
use hyper::header::{COOKIE, HeaderMap, HeaderName, USER_AGENT};

use crate::adaptive::Cmcd;

/// Where a request names its viewer's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionName {
    /// A cookie of this name.
    Cookie(String),
    /// A parameter of the query.
    Query(String),
    /// A header.
    Header(HeaderName),
}

/// A text that is no [`SessionName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no session: write cookie:NAME, query:NAME or header:NAME")]
pub struct SessionNameError(String);

impl FromStr for SessionName {
    type Err = SessionNameError;

    fn from_str(text: &str) -> Result<Self, SessionNameError> {
        let wrong = || SessionNameError(text.to_owned());
        let (place, name) = text.split_once(':').ok_or_else(wrong)?;
        // A header's name is a token, and so is a cookie's (RFC 6265, section 4.1.1).
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        match place {
            "cookie" => Ok(Self::Cookie(name.to_owned())),
            "query" => Ok(Self::Query(name.to_owned())),
            "header" => Ok(Self::Header(header)),
            _ => Err(wrong()),
        }
    }
}

impl SessionName {
    /// The session that a request names.
    fn read<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let named = |text: &'a str, separator: char, name: &str| {
            let mut pairs = text
                .split(separator)
                .filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(one, _)| one.trim() == name)?;
            Some(value.as_bytes())
        };
        match self {
            Self::Query(name) => named(uri.query()?, '&', name),
            Self::Header(name) => Some(headers.get(name)?.as_bytes()),
            Self::Cookie(name) => {
                let mut cookies = headers.get_all(COOKIE).iter();
                cookies.find_map(|line| named(line.to_str().ok()?, ';', name))
            }
        }
    }
}

/// What tells one viewer from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Viewer<'a> {
    /// The session that the player names.
    Player(&'a str),
    /// The session that [`SessionName`] names.
    Named(&'a [u8]),
    /// An address and a program.
    Program(IpAddr, &'a [u8]),
}

impl<'a> Viewer<'a> {
    pub fn of(
        address: IpAddr,
        (uri, headers): (&'a Uri, &'a HeaderMap),
        said: &'a Cmcd,
        name: Option<&SessionName>,
    ) -> Self {
        if let Some(session) = &said.session {
            return Self::Player(session);
        }
        match name.and_then(|name| name.read(uri, headers)) {
            Some(session) if !session.is_empty() => Self::Named(session),
            _ => {
                let program = headers.get(USER_AGENT);
                Self::Program(address, program.map_or(b"", |program| program.as_bytes()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_viewer_has_a_name_or_an_address() {
        let uri: Uri = "/a?x=1&s=asked".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; s=baked"));
        headers.insert("x-s", HeaderValue::from_static("headed"));
        headers.insert(USER_AGENT, HeaderValue::from_static("tv"));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mut said = Cmcd::default();
        for (name, viewer) in [
            ("cookie:s", Viewer::Named(b"baked")),
            ("query:s", Viewer::Named(b"asked")),
            ("header:X-S", Viewer::Named(b"headed")),
            ("query:none", Viewer::Program(address, b"tv")),
        ] {
            let name: SessionName = name.parse().unwrap();
            let of = Viewer::of(address, (&uri, &headers), &said, Some(&name));
            assert_eq!(of, viewer, "{name:?}");
        }
        said.session = Some("played".to_owned());
        let name = "query:s".parse().ok();
        let of = Viewer::of(address, (&uri, &headers), &said, name.as_ref());
        assert_eq!(of, Viewer::Player("played"));
        for wrong in ["", "s", "cookie:", "body:s", "header:a b"] {
            assert!(wrong.parse::<SessionName>().is_err(), "{wrong}");
        }
    }
}
