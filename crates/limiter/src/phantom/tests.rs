mod boost;
mod bucket;
mod ecn;
pub(super) mod fluid;
mod paper;
mod placement;
mod sharing;
