//! The rows of a capture that is being analysed.

use std::fs::{self, File};
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_store::JoinedWriter;
use tidegate_trace::rows::SegmentRow;

use crate::catalogue::Catalogue;
use crate::content::Content;
use crate::entry::{Entry, Held, Report};
use crate::error::{Error, VERSION};
use crate::hour::Hour;
use crate::network::{Network, Networks};
use crate::origin::Origin;
use crate::staged;

/// Rows that are kept in memory until they are written: about 2 kB each.
const KEPT: usize = 1 << 15;
/// Files of one capture: more means that its times are wrong.
const MOST_FILES: usize = 10_000;
/// What rows are sorted by inside a file: a query for a network skips the others.
const SORTED_BY: [&str; 2] = ["client_address", "start_s"];

/// A capture on its way into the dataset. Dropped without [`commit`](Self::commit), it leaves nothing behind.
pub struct Draft<'a> {
    catalogue: &'a Catalogue,
    /// What the rows are of, …
    content: Option<Content>,
    /// … if not of files.
    live: Option<String>,
    capture: Arc<str>,
    /// Its files so far, numbered.
    folder: PathBuf,
    partitions: Vec<String>,
    waiting: Vec<(SegmentRow, Origin)>,
    /// The network of the client before: rows of a client often come together.
    last: Option<(IpAddr, Arc<Network>)>,
    rows: u64,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(catalogue: &'a Catalogue, capture: String) -> Result<Self, Error> {
        let folder = catalogue.folder(&capture);
        staged::folder(&folder)?;
        Ok(Self {
            catalogue,
            content: None,
            live: None,
            capture: capture.into(),
            folder,
            partitions: Vec::new(),
            waiting: Vec::new(),
            last: None,
            rows: 0,
        })
    }

    /// Says which files the rows are of.
    pub(crate) fn of_files(mut self, content: Content) -> Self {
        self.content = Some(content);
        self
    }

    /// Says what the rows are of, where there are no files.
    pub(crate) fn of_live(mut self, name: &str) -> Self {
        self.live = Some(name.to_owned());
        self
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows, with the networks of their clients and the share of all flows that the capture holds.
    ///
    /// # Errors
    /// They cannot be written, or their times are spread too widely.
    pub fn add(
        &mut self,
        rows: impl IntoIterator<Item = SegmentRow>,
        networks: &Networks,
        sampled: f64,
    ) -> Result<(), Error> {
        for row in rows {
            let flow = &row.transfer.flow;
            let (client, server) = (flow.client.ip(), flow.server.ip());
            let network = match &self.last {
                Some((address, network)) if *address == client => Arc::clone(network),
                _ => Arc::new(networks.find(client)),
            };
            self.last = Some((client, Arc::clone(&network)));
            let origin = Origin {
                capture: Arc::clone(&self.capture),
                client,
                server,
                network,
                sampled,
            };
            self.waiting.push((row, origin));
            self.rows += 1;
            if self.waiting.len() >= KEPT {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Adds the capture to the dataset. From here on, a crash does not lose it. If one that holds it was added since the
    /// draft was begun, it is not added.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn commit(mut self, report: Report) -> Result<Option<Held>, Error> {
        self.write()?;
        let entry = Entry {
            id: self.capture.to_string(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pieces: Vec::new(),
            live: self.live.take(),
            report,
            rows: self.rows,
            partitions: std::mem::take(&mut self.partitions),
            replaces: Vec::new(),
        };
        let content = self.content.take();
        self.catalogue.commit(&self.folder, entry, content)
    }

    /// Writes the rows that wait: a file for each hour.
    fn write(&mut self) -> Result<(), Error> {
        let mut rows = std::mem::take(&mut self.waiting);
        let start = |row: &SegmentRow| row.transfer.metrics.first_sent;
        rows.sort_by_cached_key(|(row, origin)| {
            let (at, id) = (start(row), row.transfer.id);
            (Hour::of(at), octets(origin.client), at, id)
        });
        let hours = || rows.chunk_by(|(a, _), (b, _)| Hour::of(start(a)) == Hour::of(start(b)));
        if self.partitions.len() + hours().count() > MOST_FILES {
            return Err(Error::Times(MOST_FILES));
        }
        for rows in hours() {
            let Some((first, _)) = rows.first() else {
                continue;
            };
            let path = self.folder.join(self.partitions.len().to_string());
            let write = || {
                let out = BufWriter::new(File::create(&path)?);
                let version = VERSION.to_string();
                let notes = [
                    ("tidegate.schema", &version[..]),
                    ("tidegate.version", env!("CARGO_PKG_VERSION")),
                    ("tidegate.capture", &self.capture),
                ];
                let mut out = JoinedWriter::<_, SegmentRow, Origin>::new(out, &notes, &SORTED_BY)?;
                for (row, origin) in rows {
                    out.row(row, origin)?;
                }
                let out = out.finish()?.into_inner();
                out.map_err(|error| error.into_error())?.sync_all()
            };
            write().map_err(Error::at(&path))?;
            self.partitions.push(Hour::of(start(first)).to_string());
        }
        Ok(())
    }
}

/// In the order of the column, which compares bytes.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        self.catalogue.release(&self.capture);
    }
}
