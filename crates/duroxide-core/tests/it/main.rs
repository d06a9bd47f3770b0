//! Replay, driven without a runtime: history in, decisions out.

mod arrivals;
mod generate;
mod history;
mod program;
mod world;

mod basics;
mod cancelling;
mod causes;
mod codec;
mod combinators;
mod cost;
mod cuts;
mod divergence;
mod dropping;
mod ending;
mod foreign;
mod host;
mod hostile;
mod labels;
mod limits;
mod misuse;
mod mutations;
mod recut;
mod retries;
mod rewinding;
mod signals;
mod start;
mod stored_format;
mod unused;
mod values;
