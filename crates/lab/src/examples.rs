//! Scenarios that come with Tidegate.

/// The scenario that shows the lab beside the kernel's TCP.
pub const KERNEL: &str = include_str!("../scenarios/kernel.toml");

/// Each example's name and text.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("fair-share", include_str!("../scenarios/fair-share.toml")),
    (
        "policer-or-shaper",
        include_str!("../scenarios/policer-or-shaper.toml"),
    ),
    ("policies", include_str!("../scenarios/policies.toml")),
    ("nodes", include_str!("../scenarios/nodes.toml")),
    ("bottlenecks", include_str!("../scenarios/bottlenecks.toml")),
    ("trickle", include_str!("../scenarios/trickle.toml")),
    ("video", include_str!("../scenarios/video.toml")),
    ("adaptive", include_str!("../scenarios/adaptive.toml")),
    ("web", include_str!("../scenarios/web.toml")),
    ("capture", include_str!("../scenarios/capture.toml")),
    ("kernel", KERNEL),
    (
        "rate-enforcement",
        include_str!("../scenarios/rate-enforcement.toml"),
    ),
];
