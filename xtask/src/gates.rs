//! The gates, in the order they are run. In: nothing but the checkout. Out: pass, or the name of the gate that failed.

use std::time::Instant;

use crate::postgres::{Server, Writes};
use crate::run::{self, cargo, cargo_with};
use crate::{builds, cycles, deny, dependencies, package, prose, setup, sim};

/// Everything, with every feature. What the benchmarks measure against is a workspace of its own and never built here.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// With the dependencies that the tests have built, so that nothing is built twice.
const AS_TESTS: [&str; 2] = ["--profile", "test"];

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
        check: setup::check,
    },
    Gate {
        name: "format",
        about: "the code is formatted",
        check: || cargo(&["fmt", "--all", "--check"]),
    },
    Gate {
        name: "cycles",
        about: "modules of a crate do not import each other in a circle",
        check: cycles::check,
    },
    Gate {
        name: "links",
        about: "links between pages lead somewhere, and lines fit the screen",
        check: prose::check,
    },
    Gate {
        name: "deny",
        about: "licences, sources and crates that deny.toml allows",
        check: deny::check,
    },
    Gate {
        name: "package",
        about: "every published crate packs, with its licences and metadata",
        check: package::check,
    },
    Gate {
        name: "semver",
        about: "nothing public breaks since the last tag",
        check: builds::semver,
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
        name: "features",
        about: "each feature of each published crate compiles alone",
        check: builds::each_feature_alone,
    },
    Gate {
        name: "msrv",
        about: "the oldest compiler we promise builds everything",
        check: builds::oldest_compiler,
    },
    Gate {
        name: "examples",
        about: "the examples build; the tests run them",
        check: || cargo(&[&["build", "--examples"], &AS_TESTS[..], &EVERYTHING[..]].concat()),
    },
    Gate {
        name: "test",
        about: "every test of the workspace, with all features",
        check: || cargo(&[&["nextest", "run", "--no-fail-fast"], &EVERYTHING[..]].concat()),
    },
    Gate {
        name: "sim",
        about: "10,000 simulated deployments without a violation, 1,000 of them twice with the same timeline",
        check: sim::gate,
    },
    Gate {
        name: "postgres",
        about: "the engine's end-to-end tests once more, with PostgreSQL below it",
        check: on_postgres,
    },
    Gate {
        name: "stores",
        about: "and once more each, with the stores of `duroxide-store` below it, in memory and redb",
        check: on_other_stores,
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
            let args = [&["doc", "--no-deps"], &AS_TESTS[..], &EVERYTHING[..]].concat();
            cargo_with(&args, &[("RUSTDOCFLAGS", "-D warnings")])
        },
    },
    Gate {
        name: "dependencies",
        about: "the engine and its first example stay small, and its core knows no async runtime",
        check: dependencies::check,
    },
    Gate {
        name: "neighbours",
        about: "programs with sqlx 0.8, sqlx 0.9 or diesel beside us build and run",
        check: neighbours,
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

/// Gates whose tests need a PostgreSQL server.
const WITH_SERVER: &[&str] = &["test", "postgres"];

/// Starts the server, once, before the first gate that needs it; it ends with the run, whatever becomes of it.
fn server_for(gate: &Gate, server: &mut Option<Server>) -> Result<(), String> {
    let is_named = std::env::var_os(run::SERVER_URL).is_some();
    if server.is_none() && !is_named && WITH_SERVER.contains(&gate.name) {
        let started = server.insert(Server::start(Writes::Fast)?);
        println!("   a PostgreSQL server of our own: {}", started.url());
        run::with_server(started.url());
    }
    Ok(())
}

fn run(gates: &[&Gate]) -> Result<(), String> {
    let mut server = None;
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
        server_for(gate, &mut server)?;
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

/// Tests of the engine that cannot hold on a server, each with the reason. docs/postgres.md names them too.
const NOT_ON_POSTGRES: [(&str, &str); 3] = [
    (
        "leases::a_renewal_of_sessions_that_failed_is_tried_again_within_the_lease",
        "moves a paused clock, which a server does not follow",
    ),
    (
        "bad_input::ids::ids_that_cannot_be_used_are_refused_before_anything_is_stored",
        "has an id longer than PostgreSQL can index",
    ),
    (
        "logs::the_start_line_names_the_engine_the_store_and_the_service",
        "reads the name of the other store in the log",
    ),
];

/// And those that cannot hold on the stores of `duroxide-store`.
const NOT_ON_OTHER_STORES: [(&str, &str); 1] = [(
    "logs::the_start_line_names_the_engine_the_store_and_the_service",
    "reads the name of the other store in the log",
)];

/// The same programs as in the gate `test`, but for those that cannot hold there. Each is named in full: a part of a
/// name would leave out others in silence.
fn on_postgres() -> Result<(), String> {
    end_to_end("postgres", &NOT_ON_POSTGRES)
}

fn on_other_stores() -> Result<(), String> {
    end_to_end("memory", &NOT_ON_OTHER_STORES)?;
    end_to_end("redb", &NOT_ON_OTHER_STORES)
}

fn end_to_end(store: &str, left_out: &[(&str, &str)]) -> Result<(), String> {
    let mut chosen = "package(duroxide-tests) and binary(it)".to_owned();
    for (name, why) in left_out {
        println!("   left out on {store}: {name}: {why}");
        chosen.push_str(&format!(" and not test(={name})"));
    }
    let args = ["nextest", "run", "--no-fail-fast", "-E", &chosen];
    let args = [&args[..], &EVERYTHING[..]].concat();
    cargo_with(&args, &[("DUROXIDE_TEST_STORE", store)])
}

/// Any crate of a program can turn these on, for every crate of the program. The core is tested with each of them; what
/// needs a store, which takes long to build, with both.
fn serde_features() -> Result<(), String> {
    const FEATURES: [&str; 2] = [
        "serde_json/preserve_order",
        "serde_json/arbitrary_precision",
    ];
    let core = ["nextest", "run", "--package", "duroxide-core"];
    for feature in FEATURES {
        cargo(&[&core[..], &["--features", feature]].concat())?;
    }
    let package = ["--package", "duroxide-tests", "--test", "it"];
    let replay = ["--features", &FEATURES.join(","), "histories", "recorded"];
    cargo(&[&["nextest", "run"], &package[..], &replay[..]].concat())
}

/// Each has a lock file of its own: only one crate of a program may link SQLite, and the neighbour decides which.
fn neighbours() -> Result<(), String> {
    for name in ["sqlx-0.8", "sqlx-0.9", "diesel-2", "duroxide-pg-0.1.38"] {
        let manifest = format!("compat/{name}/Cargo.toml");
        let args = ["run", "--locked", "--manifest-path", &manifest];
        // One folder for all: what they share is built once.
        cargo_with(&args, &[("CARGO_TARGET_DIR", "target/neighbours")])?;
    }
    let example = "examples/sqlx/Cargo.toml";
    let args = ["test", "--locked", "--manifest-path", example];
    cargo_with(&args, &[("CARGO_TARGET_DIR", "target/neighbours")])
}

fn clippy(what: &[&str]) -> Result<(), String> {
    let args = [
        &["clippy", "--all-targets", "--keep-going"],
        &AS_TESTS[..],
        what,
        &["--", "-D", "warnings"],
    ];
    cargo(&args.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_is_left_out_on_a_store_exists() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../crates/duroxide-tests/tests/it");
        for (name, _) in NOT_ON_POSTGRES.iter().chain(&NOT_ON_OTHER_STORES) {
            let (module, test) = name.rsplit_once("::").expect("a module and a test");
            let file = folder.join(format!("{}.rs", module.replace("::", "/")));
            let text = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(text.contains(&format!("fn {test}(")), "{name}");
        }
    }
}
