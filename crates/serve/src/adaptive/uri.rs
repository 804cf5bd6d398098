//! From what a manifest writes to a path in the served folder.

/// Bytes of a path: the kernel opens no longer one.
pub(super) const LONGEST: usize = 4_096;

/// The extension of a file's name.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    Some(name.rsplit_once('.')?.1)
}

/// The path that a reference leads to, seen from a file or a folder that ends in a slash (RFC 3986, section 5.2.4). `None` for
/// another server's, and for one that leads out of the folder.
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
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let mut path = parts.join("/");
    if reference.ends_with('/') && !path.is_empty() {
        path.push('/');
    }
    decoded(&path)
}

/// Undoes percent-encoding.
fn decoded(path: &str) -> Option<String> {
    let bytes = crate::percent::decoded(path)?;
    String::from_utf8(bytes).ok()
}
