mod arbitrary;
mod divided;
mod faults;
mod forwarded;
mod lifetime;
mod places;
mod segmentation;
mod segments;
