//! A video server that keeps its own rate, and a player that measures it.
