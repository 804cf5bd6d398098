mod arbitrary;
mod faults;
mod lifetime;
mod places;
mod segmentation;
mod segments;
