//! The responses of a connection that are being sent, and which of them wait for the client.

use std::collections::BTreeMap;

use tokio::task::{self, AbortHandle};
use tokio::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Responses {
    /// Those that are being sent, by number.
    sending: BTreeMap<u64, Response>,
    /// Tasks of the streams of HTTP/2.
    streams: Vec<AbortHandle>,
    /// How many began.
    pub count: u64,
    /// Since when nothing is being sent.
    pub idle: Option<Instant>,
    /// What ended last was not sent to its end.
    pub cut: bool,
}

/// A response that is being sent.
#[derive(Debug, Clone, Copy)]
struct Response {
    /// Since when it waits for the client.
    since: Instant,
    /// Who sends it.
    task: Option<task::Id>,
}

impl Responses {
    pub fn new() -> Self {
        Self {
            sending: BTreeMap::new(),
            streams: Vec::new(),
            count: 0,
            idle: Some(Instant::now()),
            cut: false,
        }
    }

    /// A response begins, in this task; its number.
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

    /// A response does not wait for the client before this time.
    pub fn busy_until(&mut self, number: u64, time: Instant) {
        if let Some(response) = self.sending.get_mut(&number) {
            response.since = response.since.max(time);
        }
    }

    /// Whether the last response is not there as a whole.
    pub fn was_cut(&self) -> bool {
        self.cut || !self.sending.is_empty()
    }

    /// Since when the response waits that waits longest, if the socket moved at `progress`.
    pub fn waits_since(&self, progress: Instant) -> Option<Instant> {
        self.waiting(progress).map(|(since, _)| since).min()
    }

    /// A stream of HTTP/2 has this task.
    pub fn spawned(&mut self, task: AbortHandle) {
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
        // Its body goes with the task, but not at once; until then it is not to be found late again.
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

    /// Since when each response waits for the client, if the socket moved at this time; and who sends it.
    fn waiting(&self, progress: Instant) -> impl Iterator<Item = (Instant, Option<task::Id>)> {
        // What the socket takes is a response's only if no other one came after it: a stream that stalls is not kept by others.
        let alone =
            self.sending.len() == 1 && self.sending.contains_key(&self.count.wrapping_sub(1));
        let responses = self.sending.values();
        responses.map(move |response| match alone {
            true => (response.since.max(progress), response.task),
            false => (response.since, response.task),
        })
    }
}
