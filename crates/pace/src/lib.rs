//! Servers that keep their own rate: Trickle, and the other ways to pace.
