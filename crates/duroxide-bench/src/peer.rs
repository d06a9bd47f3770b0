//! The published crate's half: built once per run, from the package beside this one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program that measures the published crate.
pub(crate) fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let package = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/peer"));
    let target = package.join("target");
    let built = Command::new("cargo")
        .args(["build", "--release", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo builds the published crate's half");
    assert!(
        built.success(),
        "building the published crate's half failed"
    );
    target.join("release/duroxide-bench-peer")
}
