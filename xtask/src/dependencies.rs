//! What the engine depends on. In: cargo's trees, and the page that says why. Out: pass, or what is too much or
//! unexplained.

use std::collections::BTreeSet;

use crate::files::{root, text};
use crate::manifest::keys;
use crate::run::cargo_output;

/// The page with the reason for each dependency.
const PAGE: &str = "docs/dependencies.md";

/// The facade without a store brings in fewer crates than this, itself included.
const CRATES_BELOW: usize = 60;

/// An example of the facade builds fewer crates than this, those that only examples need and itself included: it is
/// what a newcomer waits for.
const HELLO_BELOW: usize = 75;

pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let manifest = text(&root.join("Cargo.toml"))?;
    if let Some(name) = unexplained(&manifest, &text(&root.join(PAGE))?) {
        return Err(format!("{PAGE} has no line for `{name}`"));
    }
    let engine = crates(&tree("duroxide", &BARE)?);
    fewer_than(CRATES_BELOW, "duroxide without features", &engine)?;
    let hello = crates(&tree("duroxide", &["--edges", "normal,build,dev"])?);
    fewer_than(HELLO_BELOW, "an example of duroxide", &hello)?;
    let core = crates(&tree("duroxide-core", &BARE)?);
    println!("   duroxide-core: {} crates", core.len());
    match core.iter().find(|name| name.starts_with("tokio")) {
        Some(name) => Err(format!("duroxide-core depends on {name}")),
        None => Ok(()),
    }
}

/// What a program depends on, without the features of the package.
const BARE: [&str; 3] = ["--no-default-features", "--edges", "normal"];

fn fewer_than(limit: usize, what: &str, found: &BTreeSet<String>) -> Result<(), String> {
    println!("   {what}: {} crates", found.len());
    if found.len() < limit {
        return Ok(());
    }
    let names: Vec<&str> = found.iter().map(String::as_str).collect();
    Err(format!(
        "{what} has {} crates, and should have fewer than {limit}: {}",
        found.len(),
        names.join(", ")
    ))
}

/// The first dependency of the workspace without a row on the page.
fn unexplained(manifest: &str, page: &str) -> Option<String> {
    keys(manifest, "workspace.dependencies")
        .into_iter()
        .filter(|name| !name.starts_with("duroxide"))
        .find(|name| !page.contains(&format!("\n| {name} |")))
}

fn tree(package: &str, which: &[&str]) -> Result<String, String> {
    let args = ["tree", "--package", package, "--prefix", "none"];
    cargo_output(&[&args[..], which].concat())
}

/// The crates of a tree, each once: `name version`.
fn crates(tree: &str) -> BTreeSet<String> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(format!("{} {}", words.next()?, words.next()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_a_reason_is_named() {
        let manifest =
            "[workspace.dependencies]\nduroxide-core = { path = \"x\" }\na = \"1\"\nb = \"2\"\n";
        assert_eq!(unexplained(manifest, "\n| a | why |\n| b | why |\n"), None);
        assert_eq!(unexplained(manifest, "\n| a | b |\n").as_deref(), Some("b"));
    }

    #[test]
    fn a_crate_that_appears_often_counts_once_and_a_second_version_counts_too() {
        let tree = "a v1.0.0 (/x)\nb v2.0.0\n\nc v1.0.0 (proc-macro)\nb v2.0.0 (*)\nb v3.0.0\n";
        let found = crates(tree);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["a v1.0.0", "b v2.0.0", "b v3.0.0", "c v1.0.0"]
        );
    }
}
