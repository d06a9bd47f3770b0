//! The kit against the reference store, and against providers that break one promise each.

mod declared;
mod documents;
mod keeps_nothing;
mod mutants;
mod published;
mod reference;
mod stress;
mod tiny;
