mod arbitrary;
mod ends;
mod lossless;
mod paced;
mod pipe;
mod policed;
mod recovery;
mod spurious;
