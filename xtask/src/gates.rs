//! The gates, in the order they are run. In: nothing but the checkout. Out: pass, or the name of the gate that failed.

use std::time::Instant;

use crate::run::{cargo, cargo_with};
use crate::{dependencies, tools};

/// Everything, with every feature. What the benchmarks measure against is a workspace of its own and never built here.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// One condition of a good checkout.
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    check: fn() -> Result<(), String>,
}

pub(crate) const GATES: &[Gate] = &[
    Gate {
        name: "tools",
        about: "what the other gates need is installed",
        check: tools::install_missing,
    },
    Gate {
        name: "format",
        about: "the code is formatted",
        check: || cargo(&["fmt", "--all", "--check"]),
    },
    Gate {
        name: "lint",
        about: "no warnings with default features",
        check: || clippy(&["--workspace"]),
    },
    Gate {
        name: "lint-bare",
        about: "no warnings in the facade without features",
        check: || clippy(&["--package", "duroxide", "--no-default-features"]),
    },
    Gate {
        name: "lint-full",
        about: "no warnings with all features",
        check: || clippy(&EVERYTHING),
    },
    Gate {
        name: "examples",
        about: "the examples build; the tests run them",
        check: || cargo(&[&["build", "--examples"], &EVERYTHING[..]].concat()),
    },
    Gate {
        name: "test",
        about: "every test of the workspace, with all features",
        check: || cargo(&[&["nextest", "run", "--no-fail-fast"], &EVERYTHING[..]].concat()),
    },
    Gate {
        name: "serde-features",
        about: "recorded histories replay and typed values come back, whatever features of serde_json a program turns on",
        check: serde_features,
    },
    Gate {
        name: "doctest",
        about: "the programs in the documentation run",
        check: || cargo(&[&["test", "--doc", "--quiet"], &EVERYTHING[..]].concat()),
    },
    Gate {
        name: "doc",
        about: "the documentation builds without warnings",
        check: || {
            let args = [&["doc", "--no-deps"], &EVERYTHING[..]].concat();
            cargo_with(&args, &[("RUSTDOCFLAGS", "-D warnings")])
        },
    },
    Gate {
        name: "dependencies",
        about: "the engine stays small, and its core knows no async runtime",
        check: dependencies::check,
    },
];

/// Runs every gate.
pub(crate) fn all() -> Result<(), String> {
    run(&GATES.iter().collect::<Vec<_>>())?;
    println!("all gates passed: {}", GATES.len());
    Ok(())
}

/// Runs the named gates, in the usual order.
pub(crate) fn some(names: &[&str]) -> Result<(), String> {
    let known = |name: &&&str| !GATES.iter().any(|gate| gate.name == **name);
    if let Some(unknown) = names.iter().find(known) {
        return Err(format!("unknown gate `{unknown}`; try `cargo xtask help`"));
    }
    let chosen: Vec<&Gate> = GATES
        .iter()
        .filter(|gate| names.contains(&gate.name))
        .collect();
    run(&chosen)?;
    println!("gates passed: {} of {}", chosen.len(), GATES.len());
    Ok(())
}

fn run(gates: &[&Gate]) -> Result<(), String> {
    for (place, gate) in gates.iter().enumerate() {
        println!();
        println!(
            "== gate {}/{}: {}: {}",
            place + 1,
            gates.len(),
            gate.name,
            gate.about
        );
        let begun = Instant::now();
        (gate.check)().map_err(|why| format!("\ngate failed: {}: {why}", gate.name))?;
        println!(
            "== {} passed after {} s",
            gate.name,
            begun.elapsed().as_secs()
        );
    }
    println!();
    Ok(())
}

/// Any crate of a program can turn these on, for every crate of the program.
fn serde_features() -> Result<(), String> {
    for feature in ["preserve_order", "arbitrary_precision"] {
        let feature = format!("serde_json/{feature}");
        let core = ["nextest", "run", "--package", "duroxide-core"];
        cargo(&[&core[..], &["--features", &feature]].concat())?;
        let replay = ["nextest", "run", "--package", "duroxide", "--test", "it"];
        cargo(
            &[
                &replay[..],
                &["--features", &feature, "histories", "recorded"],
            ]
            .concat(),
        )?;
    }
    Ok(())
}

fn clippy(what: &[&str]) -> Result<(), String> {
    let args = [
        &["clippy", "--all-targets", "--keep-going"],
        what,
        &["--", "-D", "warnings"],
    ];
    cargo(&args.concat())
}
