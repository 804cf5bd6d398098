mod arbitrary;
mod lossless;
mod pipe;
mod policed;
mod recovery;
mod spurious;
