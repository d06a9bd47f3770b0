//! Every path of the published 0.1 line, from this implementation.
//!
//! A program that depends on a crate which wants `duroxide = "^0.1"` puts this package in its place:
//!
//! ```toml
//! [patch.crates-io]
//! duroxide = { path = "…/compat/duroxide-0.1" }   # or git = "…"
//! ```
pub use ours::*;
