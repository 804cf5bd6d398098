//! What to do about a verdict, for each party.

use tidegate_limiter::{Rate, sizing};
use tidegate_trace::annotate::{Layer, Sent, TransferSummary};
use tidegate_trace::detect::cause::Course;
use tidegate_trace::detect::{Cause, Judgement};

use crate::account::Kept;
use crate::headline;
use crate::units::{bytes, rate};
use crate::words::{percent, time};

/// Who can do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Runs the network between the ends.
    Operator,
    /// Runs the server.
    Provider,
    /// Has the client.
    User,
}

impl Party {
    /// Every party.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Provider, Self::User];

    /// What it is called in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Provider => "content provider",
            Self::User => "user",
        }
    }

    /// Its name for programs; names are stable.
    pub fn key(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Provider => "provider",
            Self::User => "user",
        }
    }
}

/// What each party can do, a sentence or two each, in the order of [`Party::ALL`].
pub fn advice(kept: &Kept) -> Vec<(Party, String)> {
    let case = Case::of(kept);
    let mut given: Vec<(Party, String)> = Vec::new();
    for cause in causes(&kept.judgement) {
        case.of_cause(cause, &mut given);
    }
    if given
        .iter()
        .any(|(party, text)| *party == Party::Operator && text != NOT_THE_NETWORK)
    {
        given.retain(|(_, text)| text != NOT_THE_NETWORK);
    }
    given.sort_by_key(|(party, _)| Party::ALL.iter().position(|other| other == party));
    given.dedup();
    given
}

fn causes(judgement: &Judgement) -> Vec<Cause> {
    match judgement.cause {
        Cause::Mixed => {
            let parts = judgement.shares.iter();
            let parts = parts.filter(|part| part.share >= headline::PART);
            parts.map(|part| part.cause).collect()
        }
        cause => {
            let also = headline::also(judgement).map(|part| part.cause);
            std::iter::once(cause).chain(also).collect()
        }
    }
}

/// A server that limits its rate to this share of a policer's had no losses [Flach16 §5.2.1].
const BELOW_THE_POLICER: f64 = 0.95;
/// A bucket this many times larger or smaller than advised is worth a change; between the others it is as advised.
const LARGE: f64 = 4.0;
const LARGER: f64 = 1.25;
const SMALLER: f64 = 0.8;
const SMALL: f64 = 0.5;
/// Rates that differ by less than this share are about the same.
const ABOUT: f64 = 0.1;
/// A window that closes leaves less than this share of the most in flight on average.
const SELDOM: f64 = 0.5;

/// Four packets of Ethernet, in bytes. BBR keeps that many in flight at least, so a smaller window is no advice.
const FEW_PACKETS: u64 = 4 * 1500;

/// What the advice is computed from.
struct Case<'a> {
    kept: &'a Kept,
    transfer: &'a TransferSummary,
    judgement: &'a Judgement,
    course: Option<Course>,
    /// Who sent the data, and who received it.
    sender: Party,
    receiver: Party,
}

impl<'a> Case<'a> {
    fn of(kept: &'a Kept) -> Self {
        let (sender, receiver) = if kept.transfer.id.from_client {
            (Party::User, Party::Provider)
        } else {
            (Party::Provider, Party::User)
        };
        Self {
            kept,
            transfer: &kept.transfer,
            judgement: &kept.judgement,
            course: kept.findings().and_then(|findings| findings.course),
            sender,
            receiver,
        }
    }

    fn of_cause(&self, cause: Cause, given: &mut Vec<(Party, String)>) {
        let mut say = |party, text: &str| given.push((party, text.to_owned()));
        match cause {
            Cause::Policer => {
                if let Some(bucket) = self.bucket() {
                    say(Party::Operator, &bucket);
                }
                say(Party::Operator, &self.shape_instead());
                say(self.sender, &self.below_the_policer());
                say(
                    Party::User,
                    "The network sets this limit on purpose. A faulty line, Wi-Fi or computer does not \
                     look like this. Ask your operator whether it belongs to your plan.",
                );
            }
            Cause::Queue => {
                say(Party::Operator, &self.short_queue());
                say(self.sender, &self.small_window());
                say(
                    Party::User,
                    "This is what the line or the plan carries. Calls and games lag while such transfers \
                     run. If the queue is in your router, turn on its queue management (SQM).",
                );
            }
            Cause::Aqm if self.transfer.metrics.is_marked() => {
                say(
                    Party::Operator,
                    "The queue's management works: it marks packets (ECN).",
                );
                say(
                    Party::User,
                    "This is what the line carries; only more capacity makes it faster.",
                );
            }
            Cause::Aqm => {
                say(
                    Party::Operator,
                    "The queue's management works. Let it mark packets instead of dropping them (ECN).",
                );
                say(
                    self.sender,
                    "Turn on ECN, so that packets are marked instead of dropped.",
                );
                say(
                    Party::User,
                    "This is what the line carries; only more capacity makes it faster.",
                );
            }
            Cause::ShaperBurst => {
                say(
                    Party::Operator,
                    "Tell customers both rates. Manage the shaper's queue (CoDel), or make it shorter, so \
                     that the delay does not jump when the burst is used up.",
                );
                say(self.sender, &self.after_the_burst());
                say(
                    Party::User,
                    "A speed test that ends within the burst shows more than a long transfer gets.",
                );
            }
            Cause::RandomLoss => {
                say(
                    Party::Operator,
                    "Look for a faulty link: error counters of interfaces, cables, optics, radio quality.",
                );
                say(self.sender, &self.despite_losses());
                say(
                    Party::User,
                    "Compare Wi-Fi with a cable, and one access network with another.",
                );
            }
            Cause::ReceiveWindow if self.reads_slowly() => {
                say(Party::Operator, NOT_THE_NETWORK);
                say(
                    self.sender,
                    "Nothing on the sending side helps: the other side takes no more.",
                );
                say(self.receiver, &self.read_faster());
            }
            Cause::ReceiveWindow => {
                say(Party::Operator, NOT_THE_NETWORK);
                let nearer = self.take_or_serve();
                say(
                    Party::Provider,
                    &format!(
                        "{nearer} a place that is nearer: half the round trip gives twice the rate."
                    ),
                );
                say(self.receiver, &self.larger_buffer());
            }
            Cause::Application => {
                say(Party::Operator, NOT_THE_NETWORK);
                let (waits, plays) = match self.sender {
                    Party::Provider => (
                        "a disk, a database, another server, or the other side's next request. For streams \
                         that are sent as they are watched this is normal.",
                        "If this is a stream that plays well, nothing is wrong.",
                    ),
                    _ => (
                        "a disk, the processor, or the other side's next request. For calls and live \
                         streams, which are sent as they are made, this is normal.",
                        "If this is a stream that is sent as it is made, nothing is wrong.",
                    ),
                };
                say(
                    self.sender,
                    &format!("Look at what the application waits for: {waits}"),
                );
                say(self.receiver, plays);
            }
            Cause::Sender => {
                say(Party::Operator, NOT_THE_NETWORK);
                let text = match headline::repairs_slowly(self.judgement) {
                    true => SELECTIVE.to_owned(),
                    false => self.larger_send_buffer(),
                };
                say(self.sender, &text);
                say(self.receiver, self.no_faster_line());
            }
            Cause::RoundTrips => {
                say(Party::Operator, NOT_THE_NETWORK);
                let nearer = self.take_or_serve();
                say(
                    Party::Provider,
                    &format!(
                        "{nearer} a place that is nearer, keep connections open for the next transfer, and \
                         save round trips (TLS 1.3, HTTP/2 or HTTP/3)."
                    ),
                );
                say(
                    Party::User,
                    "A faster line does not help here: such short transfers take as long as the way there and back.",
                );
            }
            Cause::Mixed | Cause::Unclear => {
                say(
                    Party::Operator,
                    "Change nothing in the network on this evidence alone.",
                );
                say(
                    self.sender,
                    "Capture again: where the data is sent, both directions, all connections of the client, \
                     from their beginning, and for longer.",
                );
                say(
                    self.receiver,
                    "This capture does not tell whether your side slows the transfer down.",
                );
            }
        }
    }

    /// What a provider does at a place, as the beginning of a sentence.
    fn take_or_serve(&self) -> &'static str {
        match self.sender {
            Party::Provider => "Serve from",
            _ => "Take uploads at",
        }
    }

    /// The limiter's rate at a layer, in bit/s.
    fn limit(&self, layer: Layer) -> Option<f64> {
        let limit = self.judgement.limit?;
        let tally = &self.transfer.tally;
        Some(tally.convert(limit.rate_bps.value, limit.layer, layer))
    }

    /// The path's round-trip time without queues, in nanoseconds.
    fn base(&self) -> Option<u64> {
        let course = self.course.map(|course| (course.base * 1e9) as u64);
        course.or(self.transfer.metrics.rtt.map(|rtt| rtt.min))
    }

    fn limiter_rate(&self) -> Option<Rate> {
        let rate = self.limit(Layer::Link)?;
        Some(Rate::from_bits_per_second(rate.round() as u64))
    }

    /// Whether the policer's bucket suits its rate [Flach16 §5.1.1].
    fn bucket(&self) -> Option<String> {
        let (limit, base) = (self.limiter_rate()?, self.base()?);
        let depth = self.judgement.limit?.depth_bytes?.value;
        let advised = sizing::policer_burst(limit, base);
        let advice = bytes(advised);
        let depth_text = bytes(depth as u64);
        let times = depth / advised as f64;
        Some(if (LARGER..=LARGE).contains(&times) {
            format!(
                "The bucket is larger than needed: {depth_text}, where about {advice} is enough for this rate \
                 and round trip. TCP exceeds {limit} for a while before the first drop, and then loses more \
                 packets at once."
            )
        } else if (SMALL..SMALLER).contains(&times) {
            format!(
                "The bucket is rather small: {depth_text}, where about {advice} suits this rate and round \
                 trip. TCP may stay below {limit}."
            )
        } else if times > LARGE {
            format!(
                "A smaller bucket: {depth_text} let TCP run far above {limit} before the first drop, and \
                 then many packets are lost at once. About {advice} is enough for this round trip."
            )
        } else if times < SMALL {
            format!(
                "A larger bucket: {depth_text} drop even short bursts, and TCP does not reach {limit}. \
                 About {advice} suits this round trip."
            )
        } else {
            format!("The bucket's size suits this rate and round trip ({depth_text}).")
        })
    }

    fn shape_instead(&self) -> String {
        let queue = self.limiter_rate().zip(self.base());
        let queue = queue.map_or(String::new(), |(limit, base)| {
            format!(" of about {}", bytes(sizing::policer_burst(limit, base)))
        });
        format!(
            "Shaping instead of policing: a short queue{queue} at the same rate delays what a policer drops. \
             `tidegate gate` limits without either."
        )
    }

    /// [Flach16 §5.2.1, §5.2.2].
    fn below_the_policer(&self) -> String {
        let Some(limit) = self.limit(Layer::Payload) else {
            return "Pace the packets over the round trip: bursts are what a policer drops."
                .to_owned();
        };
        let together = match self.judgement.shared {
            Some(true) => " in all connections together",
            _ => "",
        };
        let share = percent(BELOW_THE_POLICER);
        if let Some([low, _]) = headline::wide(self.transfer, self.judgement, Layer::Payload) {
            return format!(
                "The limit is not known well. Begin with {} of payload on this path{together} ({share} of the \
                 lower end), pace the packets, and raise the rate as long as next to nothing is lost.",
                rate(BELOW_THE_POLICER * low)
            );
        }
        let advised = BELOW_THE_POLICER * limit;
        let bitrate = match self.sender {
            Party::Provider => " Choose a video bitrate below that.",
            _ => "",
        };
        format!(
            "Send at most {} of payload on this path{together} ({share} of the limit), and pace the packets. {}\
             {bitrate}",
            rate(advised),
            self.at_that_rate(advised)
        )
    }

    /// What becomes of the transfer at the advised rate of payload in bit/s.
    fn at_that_rate(&self, advised: f64) -> String {
        let got = self.transfer.metrics.goodput_bps();
        // The rate is that of all connections: what this one gets of it is not known.
        let Some(got) = got.filter(|_| self.judgement.shared != Some(true)) else {
            return "Then next to nothing is lost.".to_owned();
        };
        let becomes = match got / advised {
            times if times < 1.0 - ABOUT => "faster",
            times if times <= 1.0 + ABOUT => "about as fast",
            _ => "slower",
        };
        format!(
            "Then next to nothing is lost, and the transfer is {becomes}: it got {}.",
            rate(got)
        )
    }

    fn short_queue(&self) -> String {
        let median = self.transfer.metrics.rtt.map(|rtt| rtt.median);
        let waited = median.zip(self.base());
        let waited = waited.map(|(median, base)| median.saturating_sub(base));
        // Where half of the packets met no queue, the median says nothing of it.
        let waited = waited.filter(|waited| *waited > 0);
        let waited = waited.map_or(String::new(), |waited| {
            format!(" Now it adds {}.", time(waited))
        });
        let room = self.limiter_rate().zip(self.base());
        let room = room.map_or(String::new(), |(limit, base)| {
            format!(" (about {})", bytes(sizing::bdp(limit, base)))
        });
        // A queue of less than a few packets would drop some of every burst.
        let bound = match self.window() {
            Some(window) if window < FEW_PACKETS => String::new(),
            _ => format!(", or bound it to a round trip's worth{room}"),
        };
        format!(
            "Nothing is broken. If the delay matters, manage the queue (CoDel, PIE, fq_codel){bound}; \
             the rate stays the same.{waited}"
        )
    }

    /// The bytes of a round trip at the limit, or at what it got.
    fn window(&self) -> Option<u64> {
        let limit = self.limit(Layer::Payload);
        let limit = limit.or(self.transfer.metrics.goodput_bps())?;
        Some((limit / 8.0 * self.base()? as f64 / 1e9) as u64)
    }

    /// A window of one round trip at the rate fills the link and not its queue [Trickle §3].
    fn small_window(&self) -> String {
        if self.sender == Party::User {
            return "An upload that fills the queue delays all else on the line. Limit its rate in the application, or \
                    use a congestion control that heeds delay (BBR)."
                .to_owned();
        }
        match self.window() {
            Some(window) if window < FEW_PACKETS => {
                "The round trip is so short that a few packets fill this path, so a smaller window cannot empty the \
                 queue. Send a little below its rate, or use a congestion control that heeds delay (BBR)."
                    .to_owned()
            }
            Some(window) => format!(
                "A window of about {} fills this path and leaves the queue empty: bound it (`tidegate serve` \
                 does), or use a congestion control that heeds delay (BBR).",
                bytes(window)
            ),
            None => {
                "Bound the window, or use a congestion control that heeds delay (BBR).".to_owned()
            }
        }
    }

    /// [Flach16 §5.1.2].
    fn after_the_burst(&self) -> String {
        if self.sender == Party::User {
            return "Long uploads get the lower rate. Pace at that rate.".to_owned();
        }
        let rate = self.limit(Layer::Payload).map_or_else(
            || "the lower rate".to_owned(),
            |limit| format!("the lower rate ({} of payload)", rate(limit)),
        );
        format!(
            "Choose a video bitrate for {rate}, not for the burst: players that start with the burst's run dry \
             later. Pace at that rate."
        )
    }

    /// What loss allows a window that is halved for each: 1.22 segments / (RTT · √p), Mathis et al.
    /// 1997.
    fn despite_losses(&self) -> String {
        let metrics = &self.transfer.metrics;
        let (loss, mss) = (metrics.loss_rate(), f64::from(self.transfer.mss));
        let bound = self.base().filter(|&base| base > 0 && loss > 0.0);
        let bound = bound.map_or(String::new(), |base| {
            let bound = 1.22 * mss * 8e9 / base as f64 / loss.sqrt();
            format!(
                " With {} of loss, a window that is halved for each loss allows about {} here.",
                percent(loss),
                rate(bound)
            )
        });
        let nearer = match self.sender {
            Party::Provider => ", or a nearer server",
            _ => "",
        };
        format!(
            "Use a congestion control that does not take every loss for congestion (BBR){nearer}.{bound}"
        )
    }

    /// Whether the window closed because the application left data in the buffer: far less was in flight on
    /// average than at most, and the most early. A window that only grows has the most at the end.
    fn reads_slowly(&self) -> bool {
        let metrics = &self.transfer.metrics;
        let rtt = metrics.rtt.map_or(0, |rtt| rtt.median) as f64 / 1e9;
        let average = metrics.goodput_bps().unwrap_or(0.0) / 8.0 * rtt;
        let sent = &self.kept.sent;
        let most = |half: &[Sent]| half.iter().map(|packet| packet.in_flight).max();
        let (early, late) = sent.split_at(sent.len() / 2);
        average < SELDOM * f64::from(metrics.max_in_flight) && most(early) > most(late)
    }

    fn read_faster(&self) -> String {
        let got = self.transfer.metrics.goodput_bps();
        let got = got.map_or(String::new(), |got| format!(" It read {}.", rate(got)));
        format!(
            "Look at the application that receives: it reads more slowly than data comes, so the buffer fills up \
             and the window closes.{got} Look for what it waits for: a disk, the processor, a limit of its \
             rate. A larger buffer does not help. For a player with a full buffer this is normal."
        )
    }

    fn larger_buffer(&self) -> String {
        let window = bytes(u64::from(self.transfer.metrics.max_in_flight));
        format!(
            "Give the receiving side a larger buffer: its window of {window} is all that may be on the way in \
             a round trip. On Linux raise net.ipv4.tcp_rmem, and let the application not set SO_RCVBUF."
        )
    }

    fn no_faster_line(&self) -> &'static str {
        match self.receiver {
            Party::User => "A faster line does not help here: the other side does not send faster.",
            _ => "More capacity does not help here: the other side does not send faster.",
        }
    }

    fn larger_send_buffer(&self) -> String {
        let flight = bytes(u64::from(self.transfer.metrics.max_in_flight));
        format!(
            "Look at the sending side's buffer (SO_SNDBUF, net.ipv4.tcp_wmem), its pacing and its rate limits: \
             it never had more than {flight} on the way, although more would have fit."
        )
    }
}

/// RFC 2018, and RFC 6582 §3.2 for what happens without.
const SELECTIVE: &str = "Turn on selective acknowledgements (SACK) at both ends (net.ipv4.tcp_sack on Linux), and make \
     sure that nothing on the path removes the option: with them TCP repairs all losses of a round trip at once.";

const NOT_THE_NETWORK: &str = "Nothing in the network limits this transfer.";
