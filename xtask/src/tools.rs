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
    if !is_there("strace") {
        install_strace();
    }
    Ok(())
}

/// The tests of failing disks let system calls fail with it. They say so and pass where it cannot be had: it needs Linux,
/// and the right to install packages.
fn install_strace() {
    println!("   strace is missing and will be installed");
    let installed = program("apt-get", &["update", "-qq"])
        .and_then(|()| program("apt-get", &["install", "-y", "-qq", "strace"]));
    if let Err(error) = installed {
        println!("   {error}: the tests of failing disks will be skipped");
    }
}

fn is_there(name: &str) -> bool {
    let asked = std::process::Command::new(name).arg("-V").output();
    asked.is_ok_and(|answer| answer.status.success())
}
