//! The kit against the reference store, and against providers that break one promise each.

mod documents;
mod mutants;
mod reference;
mod stress;
mod tiny;
