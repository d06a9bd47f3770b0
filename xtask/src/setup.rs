//! What the gates need beyond cargo itself. In: what is installed. Out: what was installed, or advice.
//! Never installs anything unasked, except for root, whose machine is a container or a build server.

use std::process::Command;

use crate::run::{cargo, cargo_knows, is_root, program};
use crate::{builds, postgres};

/// What to run when something is missing.
const ADVICE: &str = "run `cargo xtask setup` (add `--dry-run` to see what it would do)";

/// One program that a gate starts.
struct Tool {
    name: &'static str,
    why: &'static str,
    how: &'static str,
    /// Without it a gate cannot run at all. Without the others some tests skip themselves.
    needed: bool,
    is_there: fn() -> bool,
    install: fn() -> Result<(), String>,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "rustfmt",
        why: "the gate `format`",
        how: "rustup component add rustfmt",
        needed: true,
        is_there: || cargo_knows("fmt"),
        install: || program("rustup", &["component", "add", "rustfmt"]),
    },
    Tool {
        name: "clippy",
        why: "the gates `lint`, `lint-bare`, `lint-full`, and the oldest compiler's limits",
        how: "rustup component add clippy",
        needed: true,
        is_there: || cargo_knows("clippy"),
        install: || program("rustup", &["component", "add", "clippy"]),
    },
    Tool {
        name: "cargo-nextest",
        why: "runs the tests, each in a process of its own; building it takes a few minutes, once",
        how: "cargo install cargo-nextest --locked",
        needed: true,
        is_there: || cargo_knows("nextest"),
        install: || cargo(&["install", "cargo-nextest", "--locked"]),
    },
    #[cfg(target_os = "linux")]
    Tool {
        name: "postgresql",
        why: "the tests of the PostgreSQL provider run against a real server, which the gate starts and stops",
        how: "apt-get install postgresql (as root; or your system's own way), or name a server with DUROXIDE_TEST_POSTGRES_URL",
        needed: true,
        is_there: postgres::is_there,
        install: || apt("postgresql"),
    },
    #[cfg(target_os = "linux")]
    Tool {
        name: "pgbouncer",
        why: "tests of the PostgreSQL provider run through a real pooler, which they start and stop",
        how: "apt-get install pgbouncer (as root; or your system's own way)",
        needed: true,
        is_there: || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
            places
                .map(|place| place.join("pgbouncer"))
                .any(|program| program.exists())
        },
        install: || apt("pgbouncer"),
    },
    #[cfg(target_os = "linux")]
    Tool {
        name: "strace",
        why: "tests of failing disks make system calls fail with it",
        how: "apt-get install strace (as root; or your system's own way)",
        needed: false,
        is_there: || succeeds("strace", "-V"),
        install: || apt("strace"),
    },
    #[cfg(target_os = "linux")]
    Tool {
        name: "prlimit",
        why: "tests of full disks forbid files to grow with it",
        how: "apt-get install util-linux (as root; or your system's own way)",
        needed: false,
        is_there: || succeeds("prlimit", "--version"),
        install: || apt("util-linux"),
    },
];

/// What makes a gate stronger. Only `cargo xtask setup` installs it; without it the gate says what it left out.
const STRONGER: &[Tool] = &[
    Tool {
        name: "oldest Rust",
        why: "the gate `msrv` builds with it; without it clippy::incompatible_msrv stands in",
        how: "rustup toolchain install, with the rust-version of Cargo.toml",
        needed: false,
        is_there: || builds::oldest_version().is_ok_and(|oldest| builds::is_installed(&oldest)),
        install: install_oldest_compiler,
    },
    Tool {
        name: "cargo-deny",
        why: "the gate `deny`; without it the gate reads deny.toml itself",
        how: "cargo install cargo-deny --locked",
        needed: false,
        is_there: || cargo_knows("deny"),
        install: || cargo(&["install", "cargo-deny", "--locked"]),
    },
];

/// A package of the system. Others than root are asked for their password, or have none, by `sudo`.
#[cfg(target_os = "linux")]
fn apt(package: &str) -> Result<(), String> {
    let apt_get = |args: &[&str]| {
        if is_root() {
            program("apt-get", args)
        } else {
            program("sudo", &[&["apt-get"], args].concat())
        }
    };
    apt_get(&["update", "-qq"])?;
    apt_get(&["install", "-y", "-qq", package])
}

fn install_oldest_compiler() -> Result<(), String> {
    // The owner of the machine wants no toolchain to be fetched.
    if std::env::var("RUSTUP_AUTO_INSTALL").is_ok_and(|set| set == "0") {
        return Err("RUSTUP_AUTO_INSTALL=0: toolchains are not fetched on this machine".to_owned());
    }
    let oldest = builds::oldest_version()?;
    let fetch = ["toolchain", "install", &oldest, "--profile", "minimal"];
    program("rustup", &fetch)
}

/// `cargo xtask setup`: installs what is missing, or says what it would install.
pub(crate) fn install(dry_run: bool) -> Result<(), String> {
    for tool in TOOLS.iter().chain(STRONGER) {
        let there = (tool.is_there)();
        let state = if there { "is there" } else { "is missing" };
        println!("{:<14} {state}: {}", tool.name, tool.why);
        if !there {
            println!("{:<14} {}", "", tool.how);
        }
        if there || dry_run {
            continue;
        }
        let installed = (tool.install)();
        match installed.map_err(|why| format!("{} is not installed: {why}", tool.name)) {
            Err(why) if STRONGER.iter().any(|one| one.name == tool.name) => println!("   {why}"),
            result => result?,
        }
    }
    Ok(())
}

/// The first gate: installs what is missing where it may, and says what to run where it may not.
pub(crate) fn check() -> Result<(), String> {
    let mut missing = missing();
    if !missing.is_empty() && is_root() {
        println!(
            "   missing: {}; this is root, so they are installed",
            list(&missing)
        );
        for tool in &missing {
            if let Err(why) = (tool.install)() {
                println!("   {}: {why}", tool.name);
            }
        }
        missing.retain(|tool| !(tool.is_there)());
    }
    verdict(&missing, is_ci())
}

/// Whether this is a build server. Tests that skip themselves for want of a tool ask in the same way.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// On a build server nothing may be skipped in silence. Elsewhere a contributor may go without what is not needed.
fn verdict(missing: &[&Tool], is_ci: bool) -> Result<(), String> {
    for tool in missing {
        println!("   {} is missing: {}", tool.name, tool.why);
    }
    if missing.iter().any(|tool| tool.needed || is_ci) {
        return Err(format!("missing: {}; {ADVICE}", list(missing)));
    }
    if !missing.is_empty() {
        println!("   tests that need it skip themselves; to run them too, {ADVICE}");
    }
    Ok(())
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !(tool.is_there)()).collect()
}

fn list(tools: &[&Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    names.join(", ")
}

fn succeeds(name: &str, flag: &str) -> bool {
    let asked = Command::new(name).arg(flag).output();
    asked.is_ok_and(|answer| answer.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(needed: bool) -> Tool {
        Tool {
            name: "hammer",
            why: "nails",
            how: "buy one",
            needed,
            is_there: || false,
            install: || Ok(()),
        }
    }

    #[test]
    fn a_missing_tool_fails_a_build_server_with_advice() {
        let why = verdict(&[&tool(false)], true).unwrap_err();
        assert!(
            why.contains("hammer") && why.contains("cargo xtask setup"),
            "{why}"
        );
    }

    #[test]
    fn what_only_makes_a_gate_stronger_is_never_installed_unasked() {
        let unasked: Vec<&str> = missing().iter().map(|tool| tool.name).collect();
        assert!(STRONGER.iter().all(|tool| !tool.needed));
        assert!(STRONGER.iter().all(|tool| !unasked.contains(&tool.name)));
    }

    #[test]
    fn a_contributor_may_go_without_what_only_some_tests_use() {
        assert_eq!(verdict(&[&tool(false)], false), Ok(()));
        assert!(verdict(&[&tool(true)], false).is_err());
        assert_eq!(verdict(&[], true), Ok(()));
    }
}
