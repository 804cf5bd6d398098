//! Which part works next, and the packets that are handed from one part to another.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_limiter::Nanos;

use super::ends::Ends;
use super::middle::Middle;
use super::transit::Batch;
use crate::RunError;
use crate::observer::Observer;
use crate::sim::engine::check_packets;

/// How soon the thread of the caller asks the observer again while it waits for others.
const PATIENCE: Duration = Duration::from_millis(20);

/// The work of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// The elements work on this window.
    Middle(u64),
    /// The part with this number works on this window.
    Ends(usize, u64),
}

/// How far all parts are.
#[derive(Debug)]
struct Progress {
    /// Windows of the simulation.
    windows: u64,
    /// Windows that the middle has done, and whether it works.
    middle: (u64, bool),
    /// The same of the other parts.
    ends: Vec<(u64, bool)>,
    /// Packets that each part had under way when it worked last, the middle first.
    held: Vec<usize>,
    /// Nothing more is to be begun: a thread panicked, or the run failed.
    ended: bool,
}

impl Progress {
    /// Takes the next task that is ready.
    fn next(&mut self) -> Option<Task> {
        let (window, busy) = self.middle;
        // What reaches the elements in this window was sent before the window before it.
        let sent = |&(done, _): &(u64, bool)| done + 1 >= window;
        if !busy && window < self.windows && self.ends.iter().all(sent) {
            self.middle.1 = true;
            return Some(Task::Middle(window));
        }
        let ready = |&(_, &(done, busy)): &(usize, &(u64, bool))| !busy && done < window;
        let ends = self.ends.iter().enumerate().filter(ready);
        let (part, _) = ends.min_by_key(|(_, (done, _))| *done)?;
        let (done, busy) = &mut self.ends[part];
        *busy = true;
        Some(Task::Ends(part, *done))
    }

    /// Notes that a task is done, with the number of packets under way in its part.
    fn done(&mut self, task: Task, held: usize) {
        match task {
            Task::Middle(window) => {
                self.middle = (window + 1, false);
                self.held[0] = held;
            }
            Task::Ends(part, window) => {
                self.ends[part] = (window + 1, false);
                self.held[part + 1] = held;
            }
        }
    }

    /// Windows that all parts have done.
    fn least(&self) -> u64 {
        let ends = self.ends.iter().map(|&(done, _)| done);
        ends.chain([self.middle.0]).min().unwrap_or(0)
    }
}

/// Batches for a part, one for each window, and empty ones that go back.
#[derive(Debug, Default)]
struct Post {
    full: VecDeque<Batch>,
    empty: Vec<Batch>,
}

/// All parts at work.
#[derive(Debug)]
pub struct Schedule<'a> {
    shift: u32,
    duration: Nanos,
    progress: Mutex<Progress>,
    changed: Condvar,
    middle: Mutex<Middle<'a>>,
    ends: Vec<Mutex<Ends<'a>>>,
    /// From each part to the elements, and from the elements to each part.
    to_middle: Vec<Mutex<Post>>,
    to_ends: Vec<Mutex<Post>>,
}

/// A part that a thread left by a panic is not used again: all others end as well.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Schedule<'a> {
    /// Parts at time 0.
    pub fn new(middle: Middle<'a>, ends: Vec<Ends<'a>>, shift: u32, duration: Nanos) -> Self {
        let posts = || ends.iter().map(|_| Mutex::default()).collect();
        Self {
            shift,
            duration,
            progress: Mutex::new(Progress {
                windows: ((duration - 1) >> shift) + 1,
                middle: (0, false),
                ends: vec![(0, false); ends.len()],
                held: vec![0; ends.len() + 1],
                ended: false,
            }),
            changed: Condvar::new(),
            middle: Mutex::new(middle),
            to_middle: posts(),
            to_ends: posts(),
            ends: ends.into_iter().map(Mutex::new).collect(),
        }
    }

    /// Simulates to the end, on this thread and others.
    ///
    /// # Errors
    /// If the observer ends it, or packets pile up without end.
    pub fn run(
        self,
        observer: &mut dyn Observer,
        threads: usize,
    ) -> Result<(Middle<'a>, Vec<Ends<'a>>), RunError> {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| self.work());
            }
            let _end = End(&self);
            self.lead(observer)
        })?;
        let ends = self.ends.into_iter().map(into_inner).collect();
        Ok((into_inner(self.middle), ends))
    }

    /// Works, and asks the observer, until all is done.
    fn lead(&self, observer: &mut dyn Observer) -> Result<(), RunError> {
        loop {
            let mut progress = lock(&self.progress);
            let done = progress.least();
            check_packets(progress.held.iter().sum())?;
            if done == progress.windows || progress.ended {
                return Ok(());
            }
            let task = progress.next();
            if task.is_none() {
                let waited = self.changed.wait_timeout(progress, PATIENCE);
                drop(waited);
            } else {
                drop(progress);
            }
            if let Some(task) = task {
                self.perform(task);
            }
            if !observer.progress(self.until(done)) {
                return Err(RunError::Interrupted);
            }
        }
    }

    /// Works until all is done.
    fn work(&self) {
        let _end = End(self);
        let mut progress = lock(&self.progress);
        while !progress.ended && progress.least() < progress.windows {
            progress = match progress.next() {
                Some(task) => {
                    drop(progress);
                    self.perform(task);
                    lock(&self.progress)
                }
                None => {
                    let waited = self.changed.wait(progress);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// When this many windows end.
    fn until(&self, windows: u64) -> Nanos {
        self.duration.min(windows << self.shift)
    }

    fn perform(&self, task: Task) {
        let held = match task {
            Task::Middle(window) => self.middle(window),
            Task::Ends(part, window) => self.ends(part, window),
        };
        lock(&self.progress).done(task, held);
        self.changed.notify_all();
    }

    fn middle(&self, window: u64) -> usize {
        let mut middle = lock(&self.middle);
        let from: Vec<Batch> = match window {
            // Nothing arrives in the first two windows.
            0 | 1 => self.to_middle.iter().map(|_| Batch::default()).collect(),
            _ => {
                let posts = self.to_middle.iter();
                posts
                    .filter_map(|post| lock(post).full.pop_front())
                    .collect()
            }
        };
        let spare = |post: &Mutex<Post>| lock(post).empty.pop().unwrap_or_default();
        let mut to: Vec<Batch> = self.to_ends.iter().map(spare).collect();
        middle.run(self.until(window + 1), &from, &mut to);
        for (post, batch) in self.to_ends.iter().zip(to) {
            lock(post).full.push_back(batch);
        }
        for (post, batch) in self.to_middle.iter().zip(from) {
            lock(post).empty.push(batch);
        }
        middle.held()
    }

    fn ends(&self, part: usize, window: u64) -> usize {
        let mut ends = lock(&self.ends[part]);
        let arrivals = lock(&self.to_ends[part]).full.pop_front();
        let mut arrivals = arrivals.unwrap_or_default();
        let spare = lock(&self.to_middle[part]).empty.pop().unwrap_or_default();
        let sent = ends.run(self.until(window + 1), &arrivals, spare);
        let held = ends.held();
        lock(&self.to_middle[part]).full.push_back(sent);
        arrivals.clear();
        lock(&self.to_ends[part]).empty.push(arrivals);
        held
    }
}

/// Ends the work of all threads when it is dropped, also by a panic: no thread waits for one that is gone.
struct End<'a, 'b>(&'b Schedule<'a>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        let mut progress = lock(&self.0.progress);
        let done = progress.least() == progress.windows;
        progress.ended |= !done;
        drop(progress);
        self.0.changed.notify_all();
    }
}
