//! Whether this process has the capabilities that a gate needs, checked before anything is tried.

use std::fs;

use crate::cli::RightsError;

/// Bits of a capability set (capabilities(7)).
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// CAP_SYS_ADMIN, which stands for CAP_BPF and CAP_PERFMON as well.
const ADMIN: u32 = 21;

/// Checks the capabilities of this process.
pub fn check() -> Result<(), RightsError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing(&status);
    if missing.is_empty() {
        return Ok(());
    }
    Err(RightsError(format!(
        "this command needs root, or the capabilities CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF; missing here: {}",
        missing.join(", ")
    )))
}

fn missing(status: &str) -> Vec<&'static str> {
    let Some(set) = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
    else {
        // Without the line, the kernel decides later.
        return Vec::new();
    };
    let has = |bit: u32| set >> bit & 1 == 1;
    NEEDED
        .iter()
        .filter(|&&(name, bit)| !has(bit) && (name == "CAP_NET_ADMIN" || !has(ADMIN)))
        .map(|(name, _)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_capabilities() {
        let line = |set: &str| format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{set}\n");
        assert_eq!(missing(&line("000001ffffffffff")), [""; 0]);
        assert_eq!(
            missing(&line("0000000000000000")),
            ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]
        );
        assert_eq!(missing(&line("0000000000201000")), [""; 0]);
        assert_eq!(missing(&line("000000c000001000")), [""; 0]);
        assert_eq!(missing(&line("0000008000200000")), ["CAP_NET_ADMIN"]);
        assert_eq!(missing(&line("0000008000001000")), ["CAP_PERFMON"]);
        assert_eq!(missing("no such line"), [""; 0]);
    }
}
