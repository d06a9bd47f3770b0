//! The kit against the reference store, and against providers that break one promise each.

mod mutants;
mod reference;
