//! What the full matrix does not show, and why.

/// Cases that no mutant fails, each with the reason.
pub(super) const BITELESS: &[(&str, &str)] = &[];

/// Mutants that the same cases catch, each group with the reason.
pub(super) const TWINS: &[(&[&str], &str)] = &[];
