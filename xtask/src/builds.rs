//! Builds that users make and contributors rarely do. In: the manifests. Out: pass, or what does not compile.

use std::process::Command;

use crate::files::{root, text};
use crate::manifest;
use crate::package::{self, Package};
use crate::run::{cargo, cargo_knows, program};

/// Each feature of each published crate compiles without the others, and each of these crates without any.
pub(crate) fn each_feature_alone() -> Result<(), String> {
    for Package { name, manifest } in package::published(&root()?)? {
        let features = manifest::keys(&manifest, "features");
        if features.is_empty() {
            continue;
        }
        let check = ["check", "--quiet", "--profile", "test"];
        let bare = ["--package", &name, "--no-default-features"];
        let bare = [&check[..], &bare[..]].concat();
        println!("   {name}: {}", features.join(", "));
        cargo(&bare)?;
        for feature in features.iter().filter(|feature| *feature != "default") {
            cargo(&[&bare[..], &["--features", feature]].concat())?;
        }
    }
    Ok(())
}

/// The oldest compiler that the manifests promise.
pub(crate) fn oldest_version() -> Result<String, String> {
    let workspace = text(&root()?.join("Cargo.toml"))?;
    let promised = manifest::words(&workspace, "workspace.package", "rust-version");
    let oldest = promised.into_iter().next();
    oldest.ok_or_else(|| "Cargo.toml has no rust-version".to_owned())
}

/// Whether rustup has this compiler. Asking rustup to run one that is missing would download it.
pub(crate) fn is_installed(version: &str) -> bool {
    has_toolchain(&output("rustup", &["toolchain", "list"]), version)
}

/// The oldest compiler that the manifests promise builds the workspace, where it is installed.
pub(crate) fn oldest_compiler() -> Result<(), String> {
    let oldest = oldest_version()?;
    if !is_installed(&oldest) {
        println!(
            "   not built: Rust {oldest} is not installed, `cargo xtask setup` fetches it where it may;"
        );
        println!("   the lint clippy::incompatible_msrv stands in for it");
        return Ok(());
    }
    let check = [
        "run",
        &oldest,
        "cargo",
        "check",
        "--workspace",
        "--all-features",
    ];
    program(
        "rustup",
        &[&check[..], &["--target-dir", "target/msrv"]].concat(),
    )
}

/// The public surface breaks nothing since the last tag, where there is a tag and the tool.
pub(crate) fn semver() -> Result<(), String> {
    let tag = output("git", &["describe", "--tags", "--abbrev=0"]);
    let tag = tag.trim();
    if tag.is_empty() {
        println!("   there is no tag to compare with");
        Ok(())
    } else if !cargo_knows("semver-checks") {
        println!(
            "   not compared with {tag}: `cargo install cargo-semver-checks --locked` adds the tool"
        );
        Ok(())
    } else {
        cargo(&["semver-checks", "--workspace", "--baseline-rev", tag])
    }
}

/// Whether `rustup toolchain list` names a version, with or without its patch number.
fn has_toolchain(list: &str, version: &str) -> bool {
    list.lines().any(|line| {
        line.strip_prefix(version)
            .is_some_and(|rest| rest.starts_with('-') || rest.starts_with(".0-"))
    })
}

/// What a program prints; nothing if it cannot be started or fails.
fn output(name: &str, args: &[&str]) -> String {
    match Command::new(name).args(args).output() {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_version_and_not_by_a_longer_one() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n1.9-x\n1.90.0-x86_64-unknown-linux-gnu\n";
        assert!(has_toolchain(list, "1.90"));
        assert!(!has_toolchain("1.900-x\n1.90.1-x\n", "1.90"));
        assert!(!has_toolchain("", "1.90"));
    }
}
