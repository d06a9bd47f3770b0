//! Replay, driven without a runtime: history in, decisions out.

mod arrivals;
mod history;
mod program;
mod world;

mod basics;
mod cuts;
mod divergence;
mod dropping;
mod limits;
mod mutations;
