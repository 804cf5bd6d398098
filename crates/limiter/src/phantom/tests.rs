mod bucket;
pub(super) mod fluid;
mod paper;
mod sharing;
