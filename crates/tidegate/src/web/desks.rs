//! The desks that answer pages: one for each page that is open.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_web::{Desk, Files, Reply};

use super::folders::Folders;
use super::key::Key;

/// Pages that are answered at a time. The one that asked longest ago loses its desk.
const MOST: usize = 8;

/// The desks of pages, by numbers that the pages chose.
pub struct Desks {
    pub folders: Arc<Folders>,
    pub key: Arc<Key>,
    /// The one that was asked last comes last.
    open: Mutex<Vec<(u64, Arc<Opened>)>>,
}

/// A desk, and how far it is with what it reads.
pub struct Opened {
    desk: Mutex<Desk<Served>>,
    reading: Arc<Reading>,
}

#[derive(Default)]
struct Reading {
    stop: AtomicBool,
    /// Bytes of the capture that is being read.
    done: AtomicU64,
}

impl Desks {
    pub fn new(folders: Folders, key: &Arc<Key>) -> Self {
        Self {
            folders: Arc::new(folders),
            key: Arc::clone(key),
            open: Mutex::default(),
        }
    }

    /// The desk of a page, which is opened with the first question.
    pub fn of(&self, page: u64) -> Arc<Opened> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let place = open.iter().position(|(number, _)| *number == page);
        let desk = match place {
            Some(place) => open.remove(place).1,
            None => Arc::new(Opened::new(Arc::clone(&self.folders))),
        };
        open.push((page, Arc::clone(&desk)));
        if open.len() > MOST {
            open.remove(0).1.stop();
        }
        desk
    }

    /// Ends what a page's desk does, and closes it.
    pub fn close(&self, page: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(number, desk)| {
            if *number == page {
                desk.stop();
            }
            *number != page
        });
    }

    /// How many bytes of a capture a page's desk has read.
    pub fn read(&self, page: u64) -> u64 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = open.iter().find(|(number, _)| *number == page);
        desk.map_or(0, |(_, desk)| desk.reading.done.load(Ordering::Relaxed))
    }
}

impl Opened {
    fn new(folders: Arc<Folders>) -> Self {
        let reading = Arc::new(Reading::default());
        let served = Served {
            folders,
            reading: Arc::clone(&reading),
        };
        Self {
            desk: Mutex::new(Desk::new(served)),
            reading,
        }
    }

    fn stop(&self) {
        self.reading.stop.store(true, Ordering::Relaxed);
    }

    /// Answers a question, when those before it are answered.
    ///
    /// # Errors
    /// What is wrong, as a sentence for people.
    pub fn answer(&self, question: &str) -> Result<Reply, String> {
        let desk = self.desk.lock();
        let mut desk = desk.map_err(|_| "the engine failed: load the page again".to_owned())?;
        if self.reading.stop.load(Ordering::Relaxed) {
            return Err(STOPPED.to_owned());
        }
        desk.answer(question)
    }
}

const STOPPED: &str = "stopped";

/// The captures of the folders.
struct Served {
    folders: Arc<Folders>,
    reading: Arc<Reading>,
}

impl Files for Served {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        let file = self.folders.capture(capture)?;
        self.reading.done.store(0, Ordering::Relaxed);
        Ok(Box::new(Counted {
            file,
            reading: Arc::clone(&self.reading),
        }))
    }
}

/// Counts the bytes of a file, and ends it when it is to stop.
struct Counted {
    file: File,
    reading: Arc<Reading>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.reading.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other(STOPPED));
        }
        let count = self.file.read(buffer)?;
        self.reading.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
