//! Web pages: a browser that visits one after the other, over several connections.
//!
//! Over HTTP/1.1 a connection has one request at a time, and a host up to a number of connections; browsers have six. Over
//! HTTP/2 all requests to a host share a connection, and the frames of responses take turns. A connection is opened when a
//! request finds none that is free. Addresses are known: there is no DNS.

mod visit;

use std::collections::VecDeque;

use tidegate_limiter::{Bytes, Nanos};

use self::visit::{Event, Visit};
use super::{Ends, Opening, Side};
use crate::outcome::{Completion, State};
use crate::page::Host;
use crate::plan::{Http, Pages, WebPlan};
use crate::random::{Owner, Random};
use crate::tcp::{Connection, Segment};

#[cfg(test)]
mod tests;

/// Bytes of a client's first message of TLS 1.3, as browsers send it.
const HELLO: u64 = 517;
/// Most payload of a frame of HTTP/2, and its header, RFC 9113 §4.
const FRAME: u64 = 16_384;
const FRAME_HEADER: u64 = 9;
/// Requests at a time on a connection of HTTP/2: the least that RFC 9113 §6.5.2 recommends to allow.
const STREAMS: usize = 100;
/// A server writes while fewer bytes than this are unsent, so that a later response soon has its turn.
const LOW_WATER: u64 = 2 * FRAME;

/// A browser, its connections, and their servers.
#[derive(Debug)]
pub struct Web {
    plan: WebPlan,
    opening: Opening,
    random: Random,
    /// When the next visit begins.
    next: Option<Nanos>,
    left: Option<u32>,
    visit: Option<Visit>,
    lanes: Vec<Lane>,
    /// Number of connections opened.
    opened: u32,
    /// Bytes and timeouts of connections that are closed.
    delivered: u64,
    timeouts: u64,
    /// The connection whose server did something last.
    latest: usize,
}

/// A connection of a visit.
#[derive(Debug)]
struct Lane {
    number: u32,
    host: Host,
    ends: Ends,
    /// Bytes that the server sends for TLS; 0 without it.
    handshake: u64,
    /// Whether the server's end and the client's may have something to send.
    touched: [bool; 2],
    /// The client has sent its first message of TLS, the server has answered it, the client has the answer.
    hello: bool,
    greeted: bool,
    ready: bool,
    /// The objects that were asked for and have not arrived.
    outstanding: usize,
    /// Requests that the server has not read, and where each ends in the client's stream.
    asked: VecDeque<(usize, u64)>,
    written: u64,
    /// Responses that the server writes, and what is left of each.
    active: VecDeque<(usize, u64)>,
    /// What the server has written and the client has not received: the object, its bytes, and those of the frame's header.
    frames: VecDeque<(usize, u64, u64)>,
    /// Bytes of these and earlier frames that the client has received.
    taken: u64,
}

/// What the two ends noticed.
#[derive(Debug, Default)]
pub struct Noticed {
    /// A round trip that a server measured.
    pub rtt: Option<Nanos>,
    /// A visit that ended.
    pub completion: Option<Completion>,
    /// The client's end got data that it did not have yet.
    pub came: bool,
}

impl Web {
    /// Visits from this time on.
    pub fn new(plan: WebPlan, start: Nanos, opening: Opening) -> Self {
        Self {
            random: Random::new(opening.seed, Owner::Application(opening.flow)),
            next: (plan.visits != Some(0)).then_some(start),
            left: plan.visits,
            visit: None,
            lanes: Vec::new(),
            opened: 0,
            delivered: 0,
            timeouts: 0,
            latest: 0,
            opening,
            plan,
        }
    }

    /// When a visit begins, or the browser or a server goes on by itself.
    pub fn next_application(&self) -> Option<Nanos> {
        match &self.visit {
            Some(visit) => visit.next_event(),
            None => self.next,
        }
    }

    /// What is due by now. Returns a visit that ended.
    pub fn on_application(&mut self, now: Nanos) -> Option<Completion> {
        if self.visit.is_none() {
            if self.next.is_none_or(|at| at > now) {
                return None;
            }
            self.next = None;
            let page = match &self.plan.page {
                Pages::Same(page) => page.clone(),
                Pages::Drawn(drawn) => drawn.page(&mut self.random),
            };
            self.visit = Some(Visit::new(page, now));
        }
        while let Some(event) = self.visit.as_mut().and_then(|visit| visit.take_event(now)) {
            match event {
                Event::Loaded => return self.end(now),
                Event::Named(object) => self.ask(now, object),
                Event::Ready { lane, object } => self.respond(now, lane, object),
            }
        }
        None
    }

    /// The browser knows of an object.
    fn ask(&mut self, now: Nanos, object: usize) {
        let Some(visit) = &mut self.visit else { return };
        let host = visit.queue(object);
        self.dispatch(now, host);
    }

    /// Sends requests to a host while connections are free, and opens connections for the others.
    fn dispatch(&mut self, now: Nanos, host: Host) {
        let (connections, requests) = match self.plan.http {
            Http::One { connections } => (connections.max(1) as usize, 1),
            Http::Two => (1, STREAMS),
        };
        let Some(visit) = &mut self.visit else { return };
        let mut lanes = self.lanes.iter_mut().filter(|lane| lane.host == host);
        while let Some(lane) = lanes.find(|lane| lane.ready && lane.outstanding < requests) {
            while lane.outstanding < requests
                && let Some(object) = visit.dequeue(host)
            {
                lane.send(now, object, visit.request(object));
            }
        }
        // Each request beyond those that opening connections will take gets a connection of its own.
        let of_host = || self.lanes.iter().filter(|lane| lane.host == host);
        let opening = of_host().filter(|lane| !lane.ready).count();
        let wanted = visit.queued(host).saturating_sub(opening);
        let room = connections.saturating_sub(of_host().count());
        let handshake = match host.plain {
            true => 0,
            false => self.plan.handshake.into(),
        };
        for _ in 0..wanted.min(room) {
            let (opening, number) = (&self.opening, self.opened);
            let lane = Lane::new(opening, number, host, handshake, now);
            self.lanes.push(lane);
            self.opened += 1;
        }
    }

    /// A server has what an object needs.
    fn respond(&mut self, now: Nanos, lane: usize, object: usize) {
        let (Some(visit), Some(connection)) = (&self.visit, self.lanes.get_mut(lane)) else {
            return;
        };
        self.latest = lane;
        let lane = connection;
        lane.active.push_back((object, visit.bytes(object)));
        lane.write(now, self.plan.http);
    }

    /// Whether a connection has not been closed.
    pub fn holds(&self, number: u32) -> bool {
        self.lane(number).is_some()
    }

    /// Connections are opened in the order of their numbers, and closed together.
    fn lane(&self, number: u32) -> Option<usize> {
        let first = self.lanes.first()?.number;
        let index = number.checked_sub(first)? as usize;
        (index < self.lanes.len()).then_some(index)
    }

    /// A segment has come to an end of a connection.
    pub fn on_segment(
        &mut self,
        now: Nanos,
        side: Side,
        number: u32,
        segment: &Segment,
    ) -> Noticed {
        let Some(index) = self.lane(number) else {
            return Noticed::default();
        };
        let lane = &mut self.lanes[index];
        lane.touched[side as usize] = true;
        let before = lane.ends.client.received();
        lane.ends.of(side).on_segment(now, segment);
        let came = lane.ends.client.received() > before;
        match side {
            Side::Server => {
                self.latest = index;
                self.on_server(now, index);
                Noticed {
                    rtt: self.lanes[index].ends.server.take_rtt(),
                    completion: None,
                    came,
                }
            }
            Side::Client => Noticed {
                rtt: None,
                completion: self.on_client(now, index),
                came,
            },
        }
    }

    fn on_server(&mut self, now: Nanos, index: usize) {
        let lane = &mut self.lanes[index];
        let hello = if lane.handshake > 0 { HELLO } else { 0 };
        if !lane.greeted && lane.ends.server.established() && lane.ends.server.received() >= hello {
            lane.greeted = true;
            lane.ends.server.write(now, Bytes::new(lane.handshake));
        }
        let received = lane.ends.server.received();
        while let Some(&(object, end)) = lane.asked.front()
            && received >= end
        {
            lane.asked.pop_front();
            if let Some(visit) = &mut self.visit {
                visit.is_ready_after(now, index, object);
            }
        }
        lane.write(now, self.plan.http);
    }

    fn on_client(&mut self, now: Nanos, index: usize) -> Option<Completion> {
        let (lane, visit) = (self.lanes.get_mut(index)?, self.visit.as_mut()?);
        if !lane.ends.client.established() {
            return None;
        }
        if !lane.hello {
            lane.hello = true;
            if lane.handshake > 0 {
                lane.written += HELLO;
                lane.ends.client.write(now, Bytes::new(HELLO));
            }
        }
        let received = lane.ends.client.received();
        let was = (lane.ready, lane.outstanding);
        lane.ready |= received >= lane.handshake;
        let mut new = received.saturating_sub(lane.handshake + lane.taken);
        lane.taken += new;
        while new > 0
            && let Some((object, bytes, header)) = lane.frames.front_mut()
        {
            let of_object = new.min(*bytes);
            let of_header = (new - of_object).min(*header);
            (*bytes, *header) = (*bytes - of_object, *header - of_header);
            new -= of_object + of_header;
            let is_complete = visit.arrived(now, *object, of_object);
            lane.outstanding -= usize::from(is_complete);
            if (*bytes, *header) == (0, 0) {
                lane.frames.pop_front();
            }
        }
        if visit.is_done() {
            return if visit.is_loaded(now) {
                self.end(now)
            } else {
                None
            };
        }
        let host = lane.host;
        if was != (lane.ready, lane.outstanding) {
            self.dispatch(now, host);
        }
        None
    }

    /// The visit has ended: its connections are closed.
    fn end(&mut self, now: Nanos) -> Option<Completion> {
        let visit = self.visit.take()?;
        self.delivered = self.delivered();
        self.timeouts = self.timeouts();
        self.lanes.clear();
        self.latest = 0;
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.next = (self.left != Some(0)).then(|| now.saturating_add(self.plan.pause));
        Some(Completion {
            start: visit.start(),
            end: now,
            bytes: visit.page().bytes(),
        })
    }

    /// Timers of an end of the connections have fired. Returns whether data came to an application, or nothing if all were moved since.
    pub fn on_timeout(
        &mut self,
        now: Nanos,
        side: Side,
        completions: &mut Vec<Completion>,
    ) -> Option<bool> {
        let mut fired = None;
        // The end of a visit closes all connections.
        let mut index = 0;
        while let Some(lane) = self.lanes.get_mut(index) {
            if let Some(came) = lane.ends.of(side).on_due(now) {
                lane.touched[side as usize] = true;
                fired = Some(came || fired.unwrap_or(false));
                match side {
                    Side::Server => {
                        self.latest = index;
                        match came {
                            true => self.on_server(now, index),
                            false => lane.write(now, self.plan.http),
                        }
                    }
                    Side::Client if came => completions.extend(self.on_client(now, index)),
                    Side::Client => {}
                }
            }
            index += 1;
        }
        fired
    }

    /// When an end of a connection needs to act next.
    pub fn next_timeout(&mut self, side: Side) -> Option<Nanos> {
        let lanes = self.lanes.iter_mut();
        lanes
            .filter_map(|lane| lane.ends.of(side).next_timeout())
            .min()
    }

    /// Writes the next segment of an end of the connections. Returns the connection's number, if there is one.
    pub fn poll_transmit(&mut self, now: Nanos, side: Side, segment: &mut Segment) -> Option<u32> {
        for lane in &mut self.lanes {
            if lane.touched[side as usize] {
                if lane.ends.of(side).transmit(now, segment) {
                    return Some(lane.number);
                }
                lane.touched[side as usize] = false;
            }
        }
        None
    }

    /// Payload bytes that the browser received.
    pub fn delivered(&self) -> u64 {
        let open = self.lanes.iter().map(|lane| lane.ends.client.received());
        self.delivered + open.sum::<u64>()
    }

    /// Retransmission timeouts of the servers.
    pub fn timeouts(&self) -> u64 {
        let open = self.lanes.iter().map(|lane| timeouts(&lane.ends.server));
        self.timeouts + open.sum::<u64>()
    }

    /// The state of the connection whose server did something last.
    pub fn latest_state(&self, now: Nanos) -> Option<State> {
        self.lanes.get(self.latest)?.state(now)
    }

    /// The states of the servers' connections.
    pub fn states(&self, now: Nanos) -> impl Iterator<Item = State> {
        self.lanes.iter().filter_map(move |lane| lane.state(now))
    }

    /// When the visit that has not ended began.
    pub fn open(&self) -> Option<Nanos> {
        self.visit.as_ref().map(Visit::start)
    }

    /// Whether no visit will come.
    pub fn ended(&self) -> bool {
        self.visit.is_none() && self.next.is_none()
    }
}

impl Lane {
    /// A connection that the browser opens now.
    fn new(opening: &Opening, number: u32, host: Host, handshake: u64, now: Nanos) -> Self {
        Self {
            number,
            host,
            ends: opening.open(number, now),
            handshake,
            touched: [false, true],
            hello: false,
            greeted: false,
            ready: false,
            outstanding: 0,
            asked: VecDeque::new(),
            written: 0,
            active: VecDeque::new(),
            frames: VecDeque::new(),
            taken: 0,
        }
    }

    /// The browser asks for an object.
    fn send(&mut self, now: Nanos, object: usize, request: u32) {
        self.ends.client.write(now, Bytes::new(request.into()));
        self.written += u64::from(request);
        self.asked.push_back((object, self.written));
        self.outstanding += 1;
        self.touched[Side::Client as usize] = true;
    }

    /// The server writes its responses in turn, a frame of each.
    fn write(&mut self, now: Nanos, http: Http) {
        let header = match http {
            Http::One { .. } => 0,
            Http::Two => FRAME_HEADER,
        };
        while self.ends.server.unsent() < LOW_WATER
            && let Some((object, left)) = self.active.pop_front()
        {
            let bytes = left.min(FRAME);
            self.ends.server.write(now, Bytes::new(bytes + header));
            self.touched[Side::Server as usize] = true;
            self.frames.push_back((object, bytes, header));
            if left > bytes {
                self.active.push_back((object, left - bytes));
            }
        }
    }

    fn state(&self, now: Nanos) -> Option<State> {
        let server = &self.ends.server;
        server.established().then(|| State {
            at: now,
            connection: self.number,
            snapshot: server.snapshot(),
        })
    }
}

fn timeouts(server: &Connection) -> u64 {
    server.snapshot().counts.timeouts
}
