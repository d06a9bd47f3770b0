//! The published crate's half: built once per run, from the package beside this one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program that measures the published crate on SQLite.
pub(crate) fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("peer")).clone()
}

/// The program that measures the published crate on PostgreSQL.
pub(crate) fn postgres_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("peer-pg")).clone()
}

fn build(name: &str) -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
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
    target.join(format!("release/duroxide-bench-{name}"))
}
