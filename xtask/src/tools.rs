//! What the gates need beyond cargo itself, installed if it is missing.

use crate::run::{cargo, cargo_knows, program};

pub(crate) fn install_missing() -> Result<(), String> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !cargo_knows(subcommand) {
            println!("   {component} is missing and will be installed");
            program("rustup", &["component", "add", component])?;
        }
    }
    if !cargo_knows("nextest") {
        println!("   cargo-nextest is missing and will be built; this takes a few minutes, once");
        cargo(&["install", "cargo-nextest", "--locked"])?;
    }
    Ok(())
}
