//! Web pages: objects, and what each of them waits for.

mod har;

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_limiter::Nanos;

use crate::random::{BoundedPareto, Random};

#[cfg(test)]
mod tests;

/// Most objects of a page.
pub const MOST_OBJECTS: usize = 10_000;
/// Most hosts of a page.
pub const MOST_HOSTS: usize = 1000;
/// Most bytes of an object.
pub const MOST_BYTES: u64 = 1 << 40;

/// A page: its objects, each after those that it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    objects: Arc<[Object]>,
    /// How long the browser works beside the network: before the first request, and after the last byte.
    work: Nanos,
}

/// An object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The host that it is fetched from.
    pub host: Host,
    /// Bytes of the request.
    pub request: u32,
    /// Bytes of the response, with its header.
    pub bytes: u64,
    /// How long the server takes until the first byte.
    pub wait: Nanos,
    /// What names the object to the browser; `None` for the page's address itself.
    pub after: Option<After>,
}

/// A host of a page: objects of the same one share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Host {
    /// Its number.
    pub number: u16,
    /// Whether connections to it are without TLS: `http://`.
    pub plain: bool,
}

/// When an object becomes known to the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// The object that names it, an index.
    pub object: usize,
    /// The bytes of that object that must have arrived.
    pub bytes: u64,
    /// From then until the browser asks for it: reading, running scripts.
    pub delay: Nanos,
}

impl Page {
    /// A page of these objects.
    ///
    /// # Errors
    /// If there is none or too many, they have too many hosts, or one waits for itself, a later one, or more bytes than that has.
    pub fn new(objects: Vec<Object>) -> Result<Self, String> {
        if objects.is_empty() || objects.len() > MOST_OBJECTS {
            return Err(format!(
                "a page has 1 to {MOST_OBJECTS} objects, not {}",
                objects.len()
            ));
        }
        let hosts: BTreeSet<Host> = objects.iter().map(|object| object.host).collect();
        if hosts.len() > MOST_HOSTS {
            return Err(format!(
                "a page has objects of at most {MOST_HOSTS} hosts, not {}",
                hosts.len()
            ));
        }
        for (index, object) in objects.iter().enumerate() {
            if !(1..=MOST_BYTES).contains(&object.bytes) || object.request == 0 {
                return Err(format!(
                    "object {index} and its request need bytes, at most {MOST_BYTES}"
                ));
            }
            if let Some(after) = object.after
                && (after.object >= index || after.bytes > objects[after.object].bytes)
            {
                return Err(format!(
                    "object {index} waits for {} bytes of object {}, which is not before it or smaller",
                    after.bytes, after.object
                ));
            }
        }
        Ok(Self {
            objects: objects.into(),
            work: 0,
        })
    }

    /// The page of an HTTP archive (HAR 1.2), as browsers write it: the first, if there are several.
    ///
    /// The format has no dependencies. An object waits for the one that its `_initiator` names, as Chromium writes it.
    /// Without that, it waits for the document if that was still arriving, or else for the object that was complete last
    /// before it was asked for. If it was asked for while that object arrived, it waits for the same share of its bytes.
    /// The time beyond is kept as the browser's work. A server took as long as the object waited longer
    /// than the quickest one of its host, which is taken for the round trip. Hosts differ by scheme, name and port. Objects that were asked for after the page's
    /// load event, came from the cache, or failed, are left out. The time from the page's beginning to its first request, and from
    /// the last byte to the load event, is work of the browser that ends the visit.
    ///
    /// # Errors
    /// If the text is not an archive, or no object is left.
    pub fn from_har(text: &str) -> Result<Self, String> {
        let (objects, work) = har::read(text)?;
        Ok(Self {
            work,
            ..Self::new(objects)?
        })
    }

    /// How long the browser works before the first request and after the last byte.
    pub fn work(&self) -> Nanos {
        self.work
    }

    /// The objects.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.objects
            .iter()
            .fold(0, |sum, object| sum.saturating_add(object.bytes))
    }
}

/// A kind of pages, of which each visit draws one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Objects of a page.
    pub objects: u32,
    /// Mean size of an object, of a bounded Pareto distribution.
    pub mean: f64,
    /// Its shape.
    pub shape: f64,
    /// Its largest size.
    pub max: f64,
    /// The share of objects that another object than the document names.
    pub nested: f64,
    /// Bytes of a request.
    pub request: u32,
}

impl Drawn {
    /// A page. The first object is the document. It names the others at random places, but for the nested ones,
    /// which wait for all of a random earlier object.
    pub(crate) fn page(&self, random: &mut Random) -> Page {
        let sizes = BoundedPareto::with_mean(self.mean, self.shape, self.max);
        let mut objects: Vec<Object> = Vec::new();
        for index in 0..self.objects.max(1) as usize {
            let after = (index > 0).then(|| {
                let (nested, place) = (random.chance(self.nested), random.uniform());
                let object = match nested && index > 1 {
                    true => 1 + (place * (index - 1) as f64) as usize,
                    false => 0,
                };
                let bytes = objects[object].bytes;
                After {
                    object,
                    bytes: match object {
                        0 => ((place * bytes as f64) as u64).max(1),
                        _ => bytes,
                    },
                    delay: 0,
                }
            });
            objects.push(Object {
                host: Host::default(),
                request: self.request,
                bytes: (sizes.sample(random) as u64).max(1),
                wait: 0,
                after,
            });
        }
        Page {
            objects: objects.into(),
            work: 0,
        }
    }
}
