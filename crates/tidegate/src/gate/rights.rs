//! Whether the kernel will let us, told before anything is tried.

use std::fs;

use crate::cli::RightsError;

/// Bits of a capability set (capabilities(7)). CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON, too;
/// alone it lets maps be found by their numbers, as the limiters' are.
const NEEDED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// What a gate needs of the kernel.
pub fn check() -> Result<(), RightsError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing(&status);
    if missing.is_empty() {
        return Ok(());
    }
    Err(RightsError(format!(
        "needs root, or the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN; missing here: {}",
        missing.join(" and ")
    )))
}

fn missing(status: &str) -> Vec<&'static str> {
    let Some(set) = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
    else {
        // The kernel will say.
        return Vec::new();
    };
    let has = |bit: u32| set & (1 << bit) != 0;
    NEEDED
        .iter()
        .filter(|(_, bit)| !has(*bit))
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
            ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]
        );
        assert_eq!(missing(&line("0000000000201000")), [""; 0]);
        assert_eq!(missing(&line("000000c000001000")), ["CAP_SYS_ADMIN"]);
        assert_eq!(missing("no such line"), [""; 0]);
    }
}
