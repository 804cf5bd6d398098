//! The settings of a connection.

use tidegate_limiter::{Ecn, Nanos, Rate};

use super::cc::Algorithm;
use crate::MILLISECOND;

/// How many segments may be sent while losses are repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Recovery {
    /// One for each delivered segment, two (slow start) only while no retransmission is lost
    /// [Flach16 §5.2.2]: Linux since 4.2, RFC 6937 with PRR-CRB first.
    #[default]
    Conservative,
    /// Two for each delivered segment whenever the window is below the threshold: Linux before 4.2,
    /// PRR-SSRB always.
    SlowStart,
    /// As QUIC, RFC 9002: losses are also found as QUIC finds them, probe timeouts take the place of retransmission
    /// timeouts, and the window is reduced at once.
    Quic,
}

/// How slow start ends before a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum SlowStart {
    /// As in Linux: CUBIC has HyStart, Reno has nothing.
    #[default]
    Linux,
    /// HyStart++, RFC 9406, with Reno and CUBIC.
    HyStartPlusPlus,
}

/// How a connection understands marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// The ECN field of its packets.
    pub(super) ect: Ecn,
    /// All of its packets have it, not only new data.
    pub(super) every: bool,
    /// The receiver echoes the state of each packet, RFC 8257 §3.2, not one mark until the sender answers it, RFC 3168
    /// §6.1.3.
    pub(super) each: bool,
    /// The receiver counts marked packets in each acknowledgement: accurate ECN, RFC 9768.
    pub(super) accurate: bool,
}

impl Marks {
    /// The counter of marked packets as a connection begins, RFC 9768 §3.2.1.
    pub(super) const FIRST: u64 = 5;
}

/// The settings of a connection; both ends have the same unless a field says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Largest payload of a segment in bytes.
    pub mss: u32,
    /// Segments that may be sent before the first acknowledgement, RFC 6928.
    pub initial_window: u32,
    /// The congestion control.
    pub algorithm: Algorithm,
    /// How slow start ends before a loss.
    pub slow_start: SlowStart,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// Spreads segments over the round trip, as Linux with fq does (2 cwnd/srtt in slow start, 1.2
    /// after). BBR always does.
    pub pacing: bool,
    /// Upper bound of the sending rate (bytes of IP packets), smooth: a rate limit at the sender. It does not bound the
    /// pacing rate, which may be higher.
    pub rate_limit: Option<Rate>,
    /// Segments from which on the window grows slowly, before anything is lost: Linux keeps it by
    /// destination (route metric `ssthresh`).
    pub slow_start_threshold: Option<u32>,
    /// Bytes that are kept until they are acknowledged; the application waits for space. `None`: without end.
    pub send_buffer: Option<u32>,
    /// Largest receive window in bytes.
    pub receive_window: u32,
    /// How fast the receiving application reads; `None`: at once.
    pub read_rate: Option<Rate>,
    /// Bytes that it reads at a time.
    pub read_block: u32,
    /// Selective acknowledgements with DSACK; without them, NewReno.
    pub sack: bool,
    /// Timestamps, RFC 7323.
    pub timestamps: bool,
    /// Explicit congestion notification, RFC 3168. DCTCP and Prague have it in any case.
    pub ecn: bool,
    /// RACK and tail loss probes, RFC 8985; without them, three duplicates.
    pub rack: bool,
    /// Forgets a window that was not used: starts slowly after an idle retransmission timeout, and
    /// shrinks the window towards what the application uses (RFC 2861, Linux
    /// `tcp_slow_start_after_idle`). Servers of video often turn it off.
    pub slow_start_after_idle: bool,
    /// Lower bound of the retransmission timeout.
    pub min_rto: Nanos,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Nanos,
    /// Joins duplicate acknowledgements for up to 1 ms, as Linux since 4.19. Without it, each
    /// segment behind a hole is answered at once, RFC 5681 §4.2.
    pub ack_compression: bool,
    /// The receiver's host merges segments in order that come within this time after one another, and TCP acknowledges them as one (generic
    /// receive offload); 0: it does not.
    pub gro: Nanos,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            algorithm: Algorithm::default(),
            slow_start: SlowStart::default(),
            recovery: Recovery::default(),
            pacing: false,
            rate_limit: None,
            slow_start_threshold: None,
            send_buffer: None,
            receive_window: 6 << 20,
            read_rate: None,
            read_block: 65_536,
            sack: true,
            timestamps: true,
            ecn: false,
            rack: true,
            slow_start_after_idle: true,
            min_rto: 200 * MILLISECOND,
            delayed_ack: 40 * MILLISECOND,
            ack_compression: true,
            gro: 0,
        }
    }
}

impl TcpConfig {
    /// How its connections understand marks, if they do.
    pub(super) fn marks(&self) -> Option<Marks> {
        let accurate = self.algorithm == Algorithm::Prague;
        let each = self.algorithm == Algorithm::Dctcp;
        (self.ecn || each || accurate).then_some(Marks {
            ect: if accurate { Ecn::Ect1 } else { Ecn::Ect0 },
            every: each || accurate,
            each,
            accurate,
        })
    }
}
