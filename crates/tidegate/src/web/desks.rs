//! The desks that answer pages: one for each page that is open.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate_web::{Desk, Files, Reply};

use super::folders::Folders;
use super::key::Key;

/// Pages that are answered at a time. The one that asked longest ago loses its desk.
const MOST: usize = 8;

/// The number of closed desks that are remembered, so that their pages get the answer [`LOST`].
const MOST_LOST: usize = 1000;

/// The answer to a page whose desk was closed.
pub const LOST: &str = "other pages took the place of this one, which `tidegate web` keeps for eight: open the captures again";

/// The desks of pages, by numbers that the pages chose.
pub struct Desks {
    pub folders: Arc<Folders>,
    pub key: Arc<Key>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The one that was asked last comes last.
    desks: Vec<(u64, Arc<Opened>)>,
    /// Pages whose desk another page got, the latest last.
    lost: VecDeque<u64>,
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
    /// Gone when nobody waits for the answer any more.
    asker: Mutex<Weak<()>>,
}

impl Desks {
    pub fn new(folders: Folders, key: &Arc<Key>) -> Self {
        Self {
            folders: Arc::new(folders),
            key: Arc::clone(key),
            open: Mutex::default(),
        }
    }

    /// The desk of a page, which is opened with the first question; none if another page got it.
    pub fn of(&self, page: u64) -> Option<Arc<Opened>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Open { desks, lost } = &mut *open;
        if lost.contains(&page) {
            return None;
        }
        let place = desks.iter().position(|(number, _)| *number == page);
        let desk = match place {
            Some(place) => desks.remove(place).1,
            None => Arc::new(Opened::new(Arc::clone(&self.folders))),
        };
        desks.push((page, Arc::clone(&desk)));
        if desks.len() > MOST {
            let (number, desk) = desks.remove(0);
            desk.stop();
            lost.push_back(number);
            if lost.len() > MOST_LOST {
                lost.pop_front();
            }
        }
        Some(desk)
    }

    /// Whether another page got a page's desk.
    pub fn is_lost(&self, page: u64) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.lost.contains(&page)
    }

    /// Ends what a page's desk does, and closes it.
    pub fn close(&self, page: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.desks.retain(|(number, desk)| {
            if *number == page {
                desk.stop();
            }
            *number != page
        });
    }

    /// How many bytes of a capture a page's desk has read.
    pub fn read(&self, page: u64) -> u64 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = open.desks.iter().find(|(number, _)| *number == page);
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

    /// Answers a question, when those before it are answered. A capture that is read for it is read no further once the asker
    /// is gone.
    ///
    /// # Errors
    /// What is wrong, as a sentence for people.
    pub fn answer(&self, question: &str, asker: &Weak<()>) -> Result<Reply, String> {
        let desk = self.desk.lock();
        let mut desk = desk.map_err(|_| "the engine failed: load the page again".to_owned())?;
        if self.reading.stop.load(Ordering::Relaxed) {
            return Err(STOPPED.to_owned());
        }
        let reading = &self.reading;
        *reading.asker.lock().unwrap_or_else(PoisonError::into_inner) = Weak::clone(asker);
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
        let asker = self.reading.asker.lock();
        Ok(Box::new(Counted {
            file,
            reading: Arc::clone(&self.reading),
            asker: Weak::clone(&asker.unwrap_or_else(PoisonError::into_inner)),
        }))
    }
}

/// Counts the bytes of a file, and ends it when it is to stop.
struct Counted {
    file: File,
    reading: Arc<Reading>,
    asker: Weak<()>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.reading.stop.load(Ordering::Relaxed) || self.asker.strong_count() == 0 {
            return Err(io::Error::other(STOPPED));
        }
        let count = self.file.read(buffer)?;
        self.reading.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_whose_desk_another_page_got_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = Folders::open(&[folder.path().to_owned()]).expect("folders");
        let key = Arc::new(Key::random().expect("a key"));
        let desks = Desks::new(folders, &key);
        let ask = |page: u64| desks.of(page).is_some();
        assert!((0..MOST as u64).all(ask));
        // One that left makes room.
        desks.close(7);
        assert!(ask(8) && ask(0) && !desks.is_lost(1));
        // The next one gets the desk of the page that asked longest ago.
        let evicted = desks.of(1).expect("a desk");
        assert!([0, 2, 3, 4, 5, 6, 8, 9].into_iter().all(ask));
        assert!(!ask(1) && desks.is_lost(1));
        let asker = Arc::new(());
        let answer = evicted.answer(r#"{"ask":"columns"}"#, &Arc::downgrade(&asker));
        assert!(answer.is_err());
        assert!([0, 2, 8, 9].into_iter().all(ask));
    }
}
