//! From what a manifest writes to a path in the served folder.

use std::borrow::Cow;

use hyper::Uri;

use super::Source;
use crate::percent;

/// Bytes of a path: the kernel opens no longer one.
pub(super) const LONGEST: usize = 4_096;

/// What a player asks a server for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Without a slash in front, and decoded.
    pub path: String,
    /// As it is written, without the question mark. The server of the files may need it, as with signed URLs.
    pub query: Option<String>,
}

/// The extension of a file's name.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    Some(name.rsplit_once('.')?.1)
}

/// Where a reference leads, seen from a file or a folder that ends in a slash (RFC 3986, section 5.2). `None` for
/// another server's, and for one that leads out of the folder.
pub(super) fn address(base: &str, reference: &str) -> Option<Address> {
    let path = resolve(base, reference)?;
    let (reference, _) = reference.split_once('#').unwrap_or((reference, ""));
    let query = reference.split_once('?').map(|(_, query)| query.to_owned());
    Some(Address { path, query })
}

impl Source<'_> {
    /// A reference in the manifest, as it is seen from its server: an absolute one to the same server is a path there.
    pub(super) fn seen<'a>(&self, reference: &'a str) -> Cow<'a, str> {
        let path = self.url.and_then(|url| on_server(url, reference));
        path.map_or(Cow::Borrowed(reference), Cow::Owned)
    }

    /// Where a reference in the manifest leads.
    pub(super) fn address(&self, reference: &str) -> Option<Address> {
        address(self.path, &self.seen(reference))
    }
}

/// The path and query of an absolute reference to the server of a URL.
fn on_server(url: &Uri, reference: &str) -> Option<String> {
    let scheme = url.scheme_str()?;
    let absolute: Uri = match reference.strip_prefix("//") {
        Some(_) => format!("{scheme}:{reference}").parse().ok()?,
        None => reference.parse().ok()?,
    };
    let port = |uri: &Uri| match (uri.port_u16(), scheme) {
        (Some(port), _) => port,
        (None, "https") => 443,
        (None, _) => 80,
    };
    let same = absolute.scheme_str() == Some(scheme)
        && absolute.host()?.eq_ignore_ascii_case(url.host()?)
        && port(&absolute) == port(url);
    same.then(|| {
        absolute
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned()
    })
}

/// The path that it leads to (RFC 3986, section 5.2.4).
pub(super) fn resolve(base: &str, reference: &str) -> Option<String> {
    let end = reference.find(['?', '#']).unwrap_or(reference.len());
    let reference = &reference[..end];
    let first = reference.split('/').next()?;
    if base.len() + reference.len() > LONGEST {
        return None;
    }
    if reference.starts_with("//") || first.contains(':') {
        return None;
    }
    let folder = match reference.strip_prefix('/') {
        Some(_) => "",
        None => base.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let parts = folder.split('/').filter(|part| !part.is_empty());
    let mut parts: Vec<String> = parts.map(str::to_owned).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            // The base is decoded already: a percent sign in a folder's name stands for itself.
            part => parts.push(String::from_utf8(percent::decoded(part)?).ok()?),
        }
    }
    let mut path = parts.join("/");
    if reference.ends_with('/') && !path.is_empty() {
        path.push('/');
    }
    Some(path)
}
