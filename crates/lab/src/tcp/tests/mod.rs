mod lossless;
mod pipe;
