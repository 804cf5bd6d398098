mod burst;
pub(super) mod fluid;
mod sharing;
