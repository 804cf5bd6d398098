//! The model of `top`: rates between two readings, sorted and filtered, and the lines in view.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_gate::reading::{NodeStatus, Overview, Reading};
use tidegate_gate::table::{Counters, Direction, PerDirection};

use crate::cli::gate::SortTop;
use crate::gate::view::pair::PairJson;

/// Subscribers whose queues are read to sort by them: those with the highest rates.
const CANDIDATES: usize = 200;

/// The rates of one subscriber, or of all, in the last interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Bits per second that passed.
    pub down: f64,
    pub up: f64,
    /// Bits per second beyond the limit, in both directions.
    pub excess: f64,
    /// Packets per second beyond the limit.
    pub drops: f64,
    /// Packets per second that passed and were marked as congested.
    pub marks: f64,
    /// Packets per second that came.
    pub packets: f64,
}

impl Rates {
    fn between(now: PerDirection<Counters>, before: PerDirection<Counters>, seconds: f64) -> Self {
        let (down, up) = (now.down.since(before.down), now.up.since(before.up));
        let per = |count: u64| count as f64 / seconds;
        let drops = per(down.excess_packets) + per(up.excess_packets);
        Self {
            down: 8.0 * per(down.passed_bytes),
            up: 8.0 * per(up.passed_bytes),
            excess: 8.0 * (per(down.excess_bytes) + per(up.excess_bytes)),
            drops,
            marks: per(down.marked_packets) + per(up.marked_packets),
            packets: per(down.passed_packets) + per(up.passed_packets) + drops,
        }
    }

    fn add(&mut self, other: &Self) {
        self.down += other.down;
        self.up += other.up;
        self.excess += other.excess;
        self.drops += other.drops;
        self.marks += other.marks;
        self.packets += other.packets;
    }

    /// The share of packets that were beyond the limit.
    pub fn drop_share(&self) -> f64 {
        self.share(self.drops)
    }

    /// The share of packets that were marked.
    pub fn mark_share(&self) -> f64 {
        self.share(self.marks)
    }

    fn share(&self, packets: f64) -> f64 {
        if self.packets > 0.0 {
            packets / self.packets
        } else {
            0.0
        }
    }
}

/// The content of a subscriber's queues, in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Queues with bytes of packets in them: about as many flows send.
    pub active: u32,
    /// Bytes in all queues.
    pub length: u64,
    /// Magic bytes among these.
    pub magic: u64,
    /// Bytes that are saved of a boost to the subscriber, if it has one.
    pub saved: Option<u64>,
    /// What the subscriber's line feels, if flows are watched and it had TCP.
    pub feels: Option<Feels>,
}

impl Load {
    /// Adds a queue.
    pub fn add(&mut self, length: u64, magic: u64) {
        self.active += u32::from(length > magic);
        self.length = self.length.saturating_add(length);
        self.magic = self.magic.saturating_add(magic);
    }
}

/// What a line feels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feels {
    /// What 95 % of the latest round trips to the subscriber are not longer than, in nanoseconds.
    pub trip_ns: Option<u64>,
    /// 0 to 100.
    pub score: Option<f64>,
}

/// Everything that the screen shows.
pub struct Model {
    pub overview: Option<Overview>,
    /// The other gate of a pair.
    pub pair: Option<PairJson>,
    pub paused: bool,
    /// Whether keys go to the filter.
    pub typing: bool,
    /// Whether the list is of nodes of the network, not of subscribers.
    pub nodes: bool,
    pub filter: String,
    pub sort: SortTop,
    pub reversed: bool,
    pub interval: Duration,
    /// The last error, until a reading succeeds.
    pub message: Option<String>,
    /// Lines of the list, as drawn last.
    pub height: usize,
    /// The first line of the list that is shown.
    pub first: usize,
    /// The sums over all subscribers.
    pub total: Rates,
    /// Packets per second that no limiter saw.
    pub unlimited: f64,
    /// Whether flows are watched.
    pub watches: bool,
    reading: Option<Arc<Reading>>,
    rates: Vec<Rates>,
    /// Places in the roster: those that pass the filter, in order.
    order: Vec<usize>,
    loads: HashMap<usize, Load>,
}

/// The part of a node's capacity that passed lately.
pub fn used(node: &NodeStatus, direction: Direction) -> f64 {
    node.state[direction].rate as f64 / node.capacity[direction].max(1) as f64
}

/// A name that cannot move the cursor.
pub fn plain(name: &str) -> String {
    name.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

impl Model {
    pub fn new(sort: SortTop, filter: String) -> Self {
        Self {
            overview: None,
            pair: None,
            paused: false,
            typing: false,
            nodes: false,
            filter,
            sort,
            reversed: false,
            interval: Duration::from_secs(1),
            message: None,
            height: 1,
            first: 0,
            total: Rates::default(),
            unlimited: 0.0,
            watches: false,
            reading: None,
            rates: Vec::new(),
            order: Vec::new(),
            loads: HashMap::new(),
        }
    }

    /// Takes a reading, and compares it with the previous one.
    pub fn update(&mut self, reading: Arc<Reading>) {
        let last = self.reading.take();
        let elapsed = last.as_ref().map(|last| {
            let elapsed = reading.at.saturating_duration_since(last.at);
            elapsed.as_secs_f64().max(1e-3)
        });
        self.rates = (0..reading.counters.len())
            .map(|place| {
                let (Some(last), Some(seconds)) = (&last, elapsed) else {
                    return Rates::default();
                };
                // A new subscriber began at zero.
                let before = reading
                    .index_in(last, place)
                    .map_or_else(Default::default, |before| last.counters[before]);
                Rates::between(reading.counters[place], before, seconds)
            })
            .collect();
        self.total = Rates::default();
        for rates in &self.rates {
            self.total.add(rates);
        }
        let seen = |reading: &Reading| reading.unlimited.iter().map(|(_, n)| n).sum::<u64>();
        self.unlimited = match (&last, elapsed) {
            (Some(last), Some(seconds)) => {
                seen(&reading).saturating_sub(seen(last)) as f64 / seconds
            }
            _ => 0.0,
        };
        self.reading = Some(reading);
        self.loads.clear();
        self.arrange();
    }

    pub fn reading(&self) -> Option<&Arc<Reading>> {
        self.reading.as_ref()
    }

    /// Whether a subscriber had no packets in the last interval.
    pub fn is_idle(&self, place: usize) -> bool {
        self.rates[place].packets == 0.0
    }

    /// Filters and sorts again.
    fn arrange(&mut self) {
        let Some(reading) = &self.reading else {
            return;
        };
        let subscribers = &reading.roster.subscribers;
        let filter = self.filter.to_lowercase();
        self.order.clear();
        self.order.extend((0..subscribers.len()).filter(|&place| {
            filter.is_empty() || subscribers[place].name.to_lowercase().contains(&filter)
        }));
        let (rates, loads) = (&self.rates, &self.loads);
        let load = |place: usize| loads.get(&place).copied().unwrap_or_default();
        let most = |a: f64, b: f64| b.total_cmp(&a);
        let both = |place: usize| rates[place].down + rates[place].up;
        let by = self.sort;
        // The roster is sorted by name, so places are.
        self.order.sort_unstable_by(|&a, &b| {
            let first = match by {
                SortTop::Down => most(rates[a].down, rates[b].down),
                SortTop::Up => most(rates[a].up, rates[b].up),
                SortTop::Drops => most(rates[a].excess, rates[b].excess),
                SortTop::Active => load(b).active.cmp(&load(a).active),
                SortTop::Magic => load(b).magic.cmp(&load(a).magic),
                SortTop::Name => Ordering::Equal,
            };
            let first = match by {
                SortTop::Active | SortTop::Magic => first.then_with(|| most(both(a), both(b))),
                _ => first,
            };
            first.then(a.cmp(&b))
        });
        if self.reversed {
            self.order.reverse();
        }
        self.move_by(0);
    }

    /// Subscribers whose queues must be read: they are in view or sorted by their queues, and were
    /// not read yet.
    pub fn wanted(&self) -> Vec<usize> {
        let by_queues = matches!(self.sort, SortTop::Active | SortTop::Magic);
        let mut wanted: Vec<usize> = self.rows().map(|(place, ..)| place).collect();
        if by_queues && self.loads.is_empty() {
            let mut places = self.order.clone();
            let both = |place: usize| self.rates[place].down + self.rates[place].up;
            if places.len() > CANDIDATES {
                let order = |a: &usize, b: &usize| both(*b).total_cmp(&both(*a)).then(a.cmp(b));
                places.select_nth_unstable_by(CANDIDATES, order);
                places.truncate(CANDIDATES);
            }
            wanted.extend(places);
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|place| !self.loads.contains_key(place));
        wanted
    }

    /// Stores the queues of some subscribers.
    pub fn loaded(&mut self, loads: HashMap<usize, Load>) {
        self.loads.extend(loads);
        if matches!(self.sort, SortTop::Active | SortTop::Magic) {
            self.arrange();
        }
    }

    /// The lines in view: place in the roster, rates, and queues if they were read.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &Rates, Option<&Load>)> {
        let last = (self.first + self.height).min(self.order.len());
        self.order[self.first.min(last)..last]
            .iter()
            .map(|&place| (place, &self.rates[place], self.loads.get(&place)))
    }

    /// Nodes that pass the filter: those first that leave the least to their subscribers, then those with the highest part of
    /// their capacity in use.
    pub fn nodes(&self) -> Vec<&NodeStatus> {
        let filter = self.filter.to_lowercase();
        let all = self.overview.iter().flat_map(|overview| &overview.nodes);
        let mut nodes: Vec<_> = all
            .filter(|node| node.name.to_lowercase().contains(&filter))
            .collect();
        let least = |node: &NodeStatus| node.state.down.share.min(node.state.up.share);
        let most = |node: &NodeStatus| used(node, Direction::Down).max(used(node, Direction::Up));
        nodes.sort_by(|a, b| {
            let first = least(a).cmp(&least(b));
            first.then(most(b).total_cmp(&most(a)))
        });
        if self.reversed {
            nodes.reverse();
        }
        nodes
    }

    /// Shows nodes, or subscribers again.
    pub fn turn(&mut self) {
        self.nodes = !self.nodes;
        self.first = 0;
    }

    /// Number of subscribers that pass the filter.
    pub fn matched(&self) -> usize {
        self.order.len()
    }

    /// Sorts by this, or in the opposite order if it is sorted by this already.
    pub fn sort_by(&mut self, sort: SortTop) {
        self.reversed = self.sort == sort && !self.reversed;
        self.sort = sort;
        self.first = 0;
        self.arrange();
    }

    /// Moves the view, as far as there is anything.
    pub fn move_by(&mut self, lines: isize) {
        let all = match self.nodes {
            true => self.nodes().len(),
            false => self.order.len(),
        };
        let last = all.saturating_sub(self.height);
        self.first = self.first.saturating_add_signed(lines).min(last);
    }

    /// Sets the number of lines for the list.
    pub fn resize(&mut self, height: usize) {
        self.height = height.max(1);
        self.move_by(0);
    }

    pub fn type_in(&mut self, letter: char) {
        if self.filter.len() < 64 {
            self.filter.push(letter);
        }
        self.arrange();
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.arrange();
    }

    /// Ends the typing of the filter. The filter is kept or cleared.
    pub fn stop_typing(&mut self, keep: bool) {
        self.typing = false;
        if !keep {
            self.filter.clear();
            self.arrange();
        }
    }
}
