mod fate;
mod measures;
mod patterns;
