//! What a sampler says of the share of flows in a capture.

/// What the comment of `tidegate sample` begins with.
const BEGIN: &str = "tidegate sample: ";

/// The share in the comment of a section header: above 0 and at most 1. A comment of another origin has none.
pub(super) fn sampled_share(comment: &[u8]) -> Option<f64> {
    let words = std::str::from_utf8(comment).ok()?.strip_prefix(BEGIN)?;
    let fraction = words
        .split(' ')
        .find_map(|word| word.strip_prefix("fraction="));
    let share = fraction?.parse().ok()?;
    (share > 0.0 && share <= 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_from_the_comment_of_a_sampler_alone() {
        let comment = |text: &str| sampled_share(text.as_bytes());
        let whole = "tidegate sample: fraction=0.005 by=flow addresses=keep asked=0.01";
        assert_eq!(comment(whole), Some(0.005));
        assert_eq!(comment("tidegate sample: fraction=1"), Some(1.0));
        for wrong in [
            "",
            "fraction=0.1",
            "tidegate sample: by=flow",
            "x: fraction=0.1",
        ] {
            assert_eq!(comment(wrong), None, "{wrong}");
        }
        for share in ["0", "-1", "1.5", "NaN", "inf", "", "a"] {
            let text = format!("tidegate sample: fraction={share} by=flow");
            assert_eq!(comment(&text), None, "{share}");
        }
        assert_eq!(sampled_share(b"tidegate sample: fraction=0.1 \xff"), None);
    }
}
