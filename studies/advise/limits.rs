//! The ten limits: five of the papers and articles, five as routers have them.

use anyhow::{Result, bail};
use tidegate_advise::router::{self, Limit};
use tidegate_advise::setting::{Kind, Setting};
use tidegate_advise::situation::Situation;
use tidegate_lab::MILLISECOND;

/// A limit and whom it serves.
pub struct Case {
    pub name: &'static str,
    /// As a router writes it.
    pub line: &'static str,
    /// Round trips in milliseconds.
    pub rtt: (u64, u64),
    pub flows: usize,
    pub users: usize,
    pub controls: &'static [&'static str],
}

pub const LIMITS: [Case; 10] = [
    // [Flach16, table 5]: the smallest bucket, which rebuffers most of the small ones.
    Case {
        name: "Flach16, table 5",
        line: "police cir 500k bc 8000",
        rtt: (20, 100),
        flows: 1,
        users: 1,
        controls: &["cubic"],
    },
    // [Flach16, table 6]: the largest bucket; two connections of a player.
    Case {
        name: "Flach16, table 6",
        line: "police cir 500k bc 2m",
        rtt: (20, 100),
        flows: 2,
        users: 1,
        controls: &["cubic"],
    },
    // [Flach16, figure 13].
    Case {
        name: "Flach16, figure 13",
        line: "police cir 1.5m bc 8000",
        rtt: (20, 100),
        flows: 2,
        users: 1,
        controls: &["cubic"],
    },
    // Policer or shaper: four streams of Compound TCP, which the article compares with Reno.
    Case {
        name: "policer or shaper",
        line: "police 20000000",
        rtt: (10, 40),
        flows: 4,
        users: 1,
        controls: &["reno"],
    },
    // The case study: one transfer, round trip 73 ms.
    Case {
        name: "case study",
        line: "police cir 300m bc 50000",
        rtt: (70, 76),
        flows: 1,
        users: 1,
        controls: &["cubic"],
    },
    Case {
        name: "IOS",
        line: "police cir 10m bc 32000 conform-action transmit exceed-action drop",
        rtt: (20, 100),
        flows: 4,
        users: 1,
        controls: &["cubic", "bbr"],
    },
    Case {
        name: "Junos",
        line: "if-exceeding { bandwidth-limit 50m; burst-size-limit 15k; } then discard;",
        rtt: (10, 60),
        flows: 4,
        users: 1,
        controls: &["cubic"],
    },
    Case {
        name: "tc police",
        line: "tc filter add dev eth0 ingress matchall action police rate 100mbit burst 128k conform-exceed drop",
        rtt: (5, 40),
        flows: 6,
        users: 1,
        controls: &["cubic", "bbr", "reno"],
    },
    Case {
        name: "nftables",
        line: "limit rate over 1250 kbytes/second burst 32 kbytes drop",
        rtt: (20, 80),
        flows: 6,
        users: 4,
        controls: &["cubic"],
    },
    Case {
        name: "tc tbf",
        line: "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 400ms",
        rtt: (20, 100),
        flows: 4,
        users: 1,
        controls: &["cubic", "bbr"],
    },
];

impl Case {
    /// What is asked about it.
    pub fn situation(&self) -> Result<Situation> {
        let reading = router::read(self.line)?;
        let kind = match reading.limit {
            Limit::Policer { burst: Some(burst) } => Kind::Policer { burst },
            Limit::Shaper {
                queue: Some(queue),
                burst,
            } => Kind::Shaper { queue, burst },
            _ => bail!("{}: the line leaves a size open", self.name),
        };
        Ok(Situation {
            today: Setting {
                rate: reading.rate,
                kind,
                overhead: reading.overhead,
            },
            rtt: (self.rtt.0 * MILLISECOND, self.rtt.1 * MILLISECOND),
            flows: self.flows,
            users: self.users,
            controls: self.controls.iter().map(|&name| name.to_owned()).collect(),
            video: None,
            link: None,
        })
    }
}
