//! The responses of a connection that are being sent, and which of them wait for the client.

use std::collections::BTreeMap;

use tokio::task::{self, AbortHandle};
use tokio::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Responses {
    /// The responses that are being sent, by number.
    sending: BTreeMap<u64, Response>,
    /// Tasks of the streams of HTTP/2.
    streams: Vec<AbortHandle>,
    /// There was such a task.
    pub multiplexed: bool,
    /// The number of responses that began.
    pub count: u64,
    /// Requests whose responses did not begin yet.
    pub asked: u64,
    /// The time since when no response is being sent.
    pub idle: Option<Instant>,
    /// The last response was not sent to its end.
    pub cut: bool,
}

/// A response that is being sent.
#[derive(Debug, Clone, Copy)]
struct Response {
    /// The time since when it waits for the client.
    since: Instant,
    /// The task that sends it.
    task: Option<task::Id>,
}

impl Responses {
    pub fn new() -> Self {
        Self {
            sending: BTreeMap::new(),
            streams: Vec::new(),
            multiplexed: false,
            count: 0,
            asked: 0,
            idle: Some(Instant::now()),
            cut: false,
        }
    }

    /// A response begins, in this task. Returns its number.
    pub fn begin(&mut self) -> u64 {
        let number = self.count;
        self.count += 1;
        let response = Response {
            since: Instant::now(),
            task: task::try_id(),
        };
        self.sending.insert(number, response);
        self.idle = None;
        number
    }

    /// A response was sent to its end, or given up.
    pub fn end(&mut self, number: u64, sent: bool) {
        self.cut = !sent;
        self.sending.remove(&number);
        if self.sending.is_empty() {
            self.idle = Some(Instant::now());
        }
    }

    /// Gives up the memory of responses that ended.
    pub fn forget_ends(&mut self) {
        if self.sending.is_empty() {
            self.sending = BTreeMap::new();
        }
    }

    /// A response does not wait for the client until this time.
    pub fn busy_until(&mut self, number: u64, time: Instant) {
        if let Some(response) = self.sending.get_mut(&number) {
            response.since = response.since.max(time);
        }
    }

    /// Whether the last response is incomplete.
    pub fn was_cut(&self) -> bool {
        self.cut || !self.sending.is_empty()
    }

    /// The time since when a response waits for the client: the earliest, if the socket moved at
    /// `progress`.
    pub fn waits_since(&self, progress: Instant) -> Option<Instant> {
        self.waiting(progress).map(|(since, _)| since).min()
    }

    /// This task sends a stream of HTTP/2.
    pub fn spawned(&mut self, task: AbortHandle) {
        self.multiplexed = true;
        self.streams.retain(|task| !task.is_finished());
        self.streams.push(task);
    }

    /// Takes out the streams whose client took nothing for `limit`, if the socket moved at `progress`.
    pub fn take_stalled(&mut self, progress: Instant, limit: Duration) -> Vec<AbortHandle> {
        let now = Instant::now();
        let late = self
            .waiting(progress)
            .filter(|(since, _)| *since + limit <= now);
        let late: Vec<_> = late.filter_map(|(_, task)| task).collect();
        let stalled = |task: &AbortHandle| late.contains(&task.id()) && !task.is_finished();
        let stalled: Vec<_> = self.streams.extract_if(.., |task| stalled(task)).collect();
        // The task's body is dropped with it, but not at once. Until then it must not be found
        // again.
        let is_over = |response: &Response| {
            let over = |task: &AbortHandle| Some(task.id()) == response.task;
            stalled.iter().any(over)
        };
        self.sending.retain(|_, response| !is_over(response));
        if self.sending.is_empty() {
            self.idle = Some(now);
        }
        stalled
    }

    /// The time since when each response waits for the client, if the socket moved at this time, and the
    /// task that sends it.
    fn waiting(&self, progress: Instant) -> impl Iterator<Item = (Instant, Option<task::Id>)> {
        // Progress of the socket counts for a response only if no other response came after it. So other streams do not keep a
        // stalled stream alive.
        let alone =
            self.sending.len() == 1 && self.sending.contains_key(&self.count.wrapping_sub(1));
        let responses = self.sending.values();
        responses.map(move |response| match alone {
            true => (response.since.max(progress), response.task),
            false => (response.since, response.task),
        })
    }
}
