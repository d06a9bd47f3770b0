//! What the engine depends on. In: cargo's tree. Out: pass, or what is too much.

use std::collections::BTreeSet;

use crate::run::cargo_output;

/// The facade without a store brings in fewer crates than this, itself included.
const CRATES_BELOW: usize = 60;

pub(crate) fn check() -> Result<(), String> {
    let engine = crates(&tree("duroxide")?);
    println!("   duroxide without features: {} crates", engine.len());
    if engine.len() >= CRATES_BELOW {
        let names: Vec<&str> = engine.iter().map(String::as_str).collect();
        return Err(format!(
            "duroxide without features has {} crates, and should have fewer than {CRATES_BELOW}: {}",
            engine.len(),
            names.join(", ")
        ));
    }
    let core = crates(&tree("duroxide-core")?);
    println!("   duroxide-core: {} crates", core.len());
    match core.iter().find(|name| name.starts_with("tokio")) {
        Some(name) => Err(format!("duroxide-core depends on {name}")),
        None => Ok(()),
    }
}

fn tree(package: &str) -> Result<String, String> {
    cargo_output(&[
        "tree",
        "--package",
        package,
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ])
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
    fn a_crate_that_appears_often_counts_once_and_a_second_version_counts_too() {
        let tree = "a v1.0.0 (/x)\nb v2.0.0\n\nc v1.0.0 (proc-macro)\nb v2.0.0 (*)\nb v3.0.0\n";
        let found = crates(tree);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["a v1.0.0", "b v2.0.0", "b v3.0.0", "c v1.0.0"]
        );
    }
}
