//! A visit of a page: which objects the browser knows, and which have arrived.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use tidegate_limiter::Nanos;

use crate::page::{Host, Page};

/// Something that happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The browser is ready with a page whose objects have all arrived.
    Loaded,
    /// The browser knows of an object, and asks for it.
    Named(usize),
    /// A server has the response to a request that came over a connection, both by their indices.
    Ready {
        /// The connection.
        lane: usize,
        /// The object.
        object: usize,
    },
}

/// A visit.
#[derive(Debug)]
pub struct Visit {
    page: Page,
    start: Nanos,
    /// Bytes of each object that have arrived.
    arrived: Vec<u64>,
    complete: usize,
    /// The objects that each object names, those first that need the fewest of its bytes.
    named: Vec<VecDeque<usize>>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    /// Objects that wait for a connection, by host.
    queues: BTreeMap<Host, VecDeque<usize>>,
    /// Whether the browser works on what has arrived.
    loading: bool,
}

impl Visit {
    /// A visit that begins now.
    pub fn new(page: Page, start: Nanos) -> Self {
        let objects = page.objects();
        let mut named = vec![Vec::new(); objects.len()];
        let mut events = BinaryHeap::new();
        for (index, object) in objects.iter().enumerate() {
            match object.after {
                None => events.push(Reverse((start, Event::Named(index)))),
                Some(after) => named[after.object].push((after.bytes, index)),
            }
        }
        let sorted = |mut list: Vec<(u64, usize)>| {
            list.sort_unstable();
            list.into_iter().map(|(_, index)| index).collect()
        };
        Self {
            start,
            arrived: vec![0; objects.len()],
            complete: 0,
            named: named.into_iter().map(sorted).collect(),
            events,
            loading: false,
            queues: BTreeMap::new(),
            page,
        }
    }

    /// When the visit began.
    pub fn start(&self) -> Nanos {
        self.start
    }

    /// The page that is visited.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Bytes of an object.
    pub fn bytes(&self, object: usize) -> u64 {
        self.page.objects()[object].bytes
    }

    /// Bytes of the request for an object.
    pub fn request(&self, object: usize) -> u32 {
        self.page.objects()[object].request
    }

    /// When the next event is.
    pub fn next_event(&self) -> Option<Nanos> {
        self.events.peek().map(|Reverse((at, _))| *at)
    }

    /// The next event by now.
    pub fn take_event(&mut self, now: Nanos) -> Option<Event> {
        self.next_event().filter(|&at| at <= now)?;
        self.events.pop().map(|Reverse((_, event))| event)
    }

    /// A request has reached its server, which needs its time.
    pub fn is_ready_after(&mut self, now: Nanos, lane: usize, object: usize) {
        let at = now.saturating_add(self.page.objects()[object].wait);
        self.events
            .push(Reverse((at, Event::Ready { lane, object })));
    }

    /// An object waits for a connection to its host, which is returned.
    pub fn queue(&mut self, object: usize) -> Host {
        let host = self.page.objects()[object].host;
        self.queues.entry(host).or_default().push_back(object);
        host
    }

    /// The next object that waits for a connection to a host.
    pub fn dequeue(&mut self, host: Host) -> Option<usize> {
        self.queues.get_mut(&host)?.pop_front()
    }

    /// How many objects wait for a connection to a host.
    pub fn queued(&self, host: Host) -> usize {
        self.queues.get(&host).map_or(0, VecDeque::len)
    }

    /// Bytes of an object have arrived. Returns whether they were the last.
    pub fn arrived(&mut self, now: Nanos, object: usize, bytes: u64) -> bool {
        let had = self.arrived[object];
        self.arrived[object] += bytes;
        while let Some(&next) = self.named[object].front()
            && let Some(after) = self.page.objects()[next].after
            && after.bytes <= self.arrived[object]
        {
            self.named[object].pop_front();
            let at = now.saturating_add(after.delay);
            self.events.push(Reverse((at, Event::Named(next))));
        }
        let all = self.bytes(object);
        let is_complete = had < all && self.arrived[object] == all;
        self.complete += usize::from(is_complete);
        is_complete
    }

    /// All objects have arrived. Whether the browser is ready; otherwise it will be.
    pub fn is_loaded(&mut self, now: Nanos) -> bool {
        let work = self.page.work();
        if work > 0 && !self.loading {
            self.loading = true;
            self.events
                .push(Reverse((now.saturating_add(work), Event::Loaded)));
        }
        work == 0
    }

    /// Whether all objects have arrived.
    pub fn is_done(&self) -> bool {
        self.complete == self.arrived.len()
    }
}
