mod arbitrary;
mod faults;
mod lifetime;
mod segmentation;
mod segments;
