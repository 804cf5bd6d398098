mod arbitrary;
mod lossless;
mod paced;
mod pipe;
mod policed;
mod recovery;
mod spurious;
