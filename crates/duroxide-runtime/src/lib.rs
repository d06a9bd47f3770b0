//! Duroxide.
