//! What limits in the middle of the site: the gate's schemes, and what the kernel brings.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tidegate_limiter::Scheme;
use tidegate_testbed::namespace::Namespace;

/// A limiter before its rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// `tidegate gate` with this scheme.
    Gate(Scheme),
    /// Token bucket with one queue.
    Tbf,
    /// A class for each flow, which borrow from each other.
    Htb,
    /// `nft limit`.
    Nft,
}

/// All of them, with their names in the table.
pub const MEANS: [(&str, Means); 6] = [
    ("gate, bc-pqp", Means::Gate(Scheme::BcPqp)),
    ("gate, pqp", Means::Gate(Scheme::Pqp)),
    ("gate, policer", Means::Gate(Scheme::Policer)),
    ("nft policer", Means::Nft),
    ("tbf", Means::Tbf),
    ("htb, class a flow", Means::Htb),
];

/// What a limiter is set to.
pub struct Settings<'a> {
    /// Bits per second of frames with Ethernet headers.
    pub rate: u64,
    /// Bytes: a policer's bucket, a shaper's queue.
    pub bytes: u64,
    /// Last bytes of the client's addresses, 192.0.2.0/24: each is a flow with a queue of its own.
    pub hosts: &'a [u8],
    /// The program.
    pub tidegate: &'a Path,
}

impl Means {
    /// Installs it on the way to the client. What is returned is to be kept as long as it is to
    /// limit.
    ///
    /// # Errors
    /// Rights or programs are missing, or the system refuses it.
    pub fn install(self, middle: &Namespace, set: &Settings<'_>) -> Result<Option<TempDir>> {
        let Settings { rate, bytes, .. } = *set;
        let tc = |words: &str| middle.run("tc", words).map(drop);
        match self {
            Self::Gate(scheme) => return self.gate(scheme, middle, set).map(Some),
            // A burst of ten packets: what the kernel's timers let pass at once.
            Self::Tbf => tc(&format!(
                "qdisc add dev lan root tbf rate {rate}bit burst 15140 limit {bytes}"
            ))?,
            Self::Htb => {
                let (share, queue) = (
                    rate / set.hosts.len() as u64,
                    bytes / set.hosts.len() as u64,
                );
                tc("qdisc add dev lan root handle 1: htb default 99")?;
                tc(&format!(
                    "class add dev lan parent 1: classid 1:1 htb rate {rate}bit burst 15140 cburst 15140"
                ))?;
                for (class, host) in (10..).zip(set.hosts) {
                    tc(&format!(
                        "class add dev lan parent 1:1 classid 1:{class} htb rate {share}bit ceil \
                         {rate}bit burst 15140 cburst 15140 quantum 1514"
                    ))?;
                    tc(&format!(
                        "qdisc add dev lan parent 1:{class} bfifo limit {queue}"
                    ))?;
                    tc(&format!(
                        "filter add dev lan parent 1: protocol ip u32 match ip dst \
                         192.0.2.{host}/32 flowid 1:{class}"
                    ))?;
                }
            }
            Self::Nft => {
                // It counts without Ethernet headers, in units of 1024 bytes.
                let rate = rate * 1500 / 1514 / 8 / 1024;
                let burst = bytes / 1024;
                let rules = format!(
                    "table netdev police {{ chain down {{ type filter hook ingress device wan \
                     priority 0; limit rate over {rate} kbytes/second burst {burst} kbytes drop; }}; }}"
                );
                let output = middle.output(Command::new("nft").arg(&rules))?;
                let said = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "nft: {said}");
            }
        }
        Ok(None)
    }

    fn gate(self, scheme: Scheme, middle: &Namespace, set: &Settings<'_>) -> Result<TempDir> {
        let Settings { rate, bytes, .. } = *set;
        let of_scheme = if scheme == Scheme::Policer {
            format!("burst = \"{bytes}B\"")
        } else {
            let queues = vec!["[1, \"queue\"]"; set.hosts.len()].join(", ");
            let rules = (set.hosts.iter().enumerate()).map(|(class, host)| {
                format!("\n[[plan.it.rule]]\nclass = {class}\nlocal = \"192.0.2.{host}\"")
            });
            let rules: String = rules.collect();
            format!("policy = {{ weighted = [{queues}] }}{rules}")
        };
        let text = format!(
            "interface = [{{ name = \"wan\", side = \"core\" }}]\n\
             subscriber = [{{ name = \"it\", plan = \"it\", addresses = \"192.0.2.0/24\" }}]\n\
             [plan.it]\ndown = \"{rate}bit\"\nscheme = \"{scheme}\"\nrtt = \"50ms\"\n{of_scheme}\n"
        );
        gate_up(middle, set.tidegate, &text)
    }
}

/// Runs `tidegate gate up` with this file in a namespace. The gate limits as long as the namespace exists.
///
/// # Errors
/// The program is missing, or refuses the file.
pub fn gate_up(middle: &Namespace, tidegate: &Path, text: &str) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("gate.toml");
    std::fs::write(&file, text)?;
    let mut command = Command::new(tidegate);
    let output = middle
        .output(command.args(["gate", "up"]).arg(&file))
        .with_context(|| format!("is {} built?", tidegate.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tidegate gate up: {said}");
    Ok(folder)
}
