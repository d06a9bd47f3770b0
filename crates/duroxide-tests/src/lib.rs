//! Nothing of its own: tests of the facade end to end (`tests/it`, `tests/typed`, `tests/spans`), of its published
//! paths (`tests/compat`) and of its examples (`tests/examples.rs`), and examples that need a server or an exporter.
//! They are a crate apart, so that a program or an example that uses the facade builds nothing of what they need.
