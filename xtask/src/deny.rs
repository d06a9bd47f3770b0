//! Licences, banned crates and sources of dependencies. In: deny.toml, cargo's tree, Cargo.lock. Out: pass, or what is
//! not allowed. `cargo deny` does this where it is installed. Where it is not, the same file is read here; only
//! advisories are left to it.

use std::collections::BTreeSet;

use crate::files::{root, text};
use crate::license::is_allowed;
use crate::manifest::words;
use crate::run::{cargo, cargo_knows, cargo_output};

pub(crate) fn check() -> Result<(), String> {
    if cargo_knows("deny") {
        return cargo(&[
            "deny",
            "--all-features",
            "check",
            "licenses",
            "bans",
            "sources",
        ]);
    }
    println!("   cargo-deny is not installed; deny.toml is checked without it");
    let root = root()?;
    let rules = text(&root.join("deny.toml"))?;
    let tree = cargo_output(&[
        "tree",
        "--workspace",
        "--all-features",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ])?;
    let mut wrong = licences(&tree, &words(&rules, "licenses", "allow"));
    let lock = text(&root.join("Cargo.lock"))?;
    wrong.extend(sources(&lock, &words(&rules, "sources", "allow-registry")));
    wrong.extend(banned(&lock, &words(&rules, "bans", "deny")));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.into_iter().collect::<Vec<_>>().join("\n"))
}

/// Packages of the tree whose licence is not allowed.
fn licences(tree: &str, allowed: &[String]) -> BTreeSet<String> {
    tree.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(package, licence)| (package, licence.trim_end_matches("(*)").trim()))
        .filter(|(_, licence)| !is_allowed(licence, allowed))
        .map(|(package, licence)| format!("{package}: the licence `{licence}` is not in deny.toml"))
        .collect()
}

/// Sources in the lock file that are not allowed. Packages of this workspace have none.
fn sources(lock: &str, allowed: &[String]) -> BTreeSet<String> {
    values(lock, "source")
        .filter(|source| {
            let address = source
                .split_once('+')
                .map_or(*source, |(_, address)| address);
            !allowed.iter().any(|registry| registry == address)
        })
        .map(|source| format!("the source {source} is not in deny.toml"))
        .collect()
}

/// Crates in the lock file that are banned.
fn banned(lock: &str, banned: &[String]) -> BTreeSet<String> {
    values(lock, "name")
        .filter(|name| banned.iter().any(|no| no == name))
        .map(|name| format!("deny.toml bans the crate {name}"))
        .collect()
}

fn values<'a>(lock: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    lock.lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(move |(found, _)| *found == key)
        .map(|(_, value)| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_licence_that_nobody_allowed_is_named_with_its_package() {
        let tree = "a v1.0.0\tMIT\nb v2.0.0\tGPL-3.0\nb v2.0.0\tGPL-3.0 (*)\nc v1.0.0\tMIT (*)\n";
        let wrong = licences(tree, &list(&["MIT"]));
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong
                .iter()
                .all(|line| line.contains("b v2.0.0") && line.contains("GPL-3.0"))
        );
    }

    #[test]
    fn a_package_without_a_licence_is_not_allowed() {
        assert_eq!(licences("a v1.0.0\t\n", &list(&["MIT"])).len(), 1);
    }

    #[test]
    fn only_the_registries_of_the_list_may_be_sources() {
        let lock = "[[package]]\nname = \"a\"\nsource = \"registry+https://here\"\n[[package]]\nname = \"b\"\nsource = \"git+https://there\"\n[[package]]\nname = \"ours\"\n";
        let wrong = sources(lock, &list(&["https://here"]));
        assert_eq!(
            wrong.into_iter().collect::<Vec<_>>(),
            ["the source git+https://there is not in deny.toml"]
        );
        assert_eq!(banned(lock, &list(&["b"])).len(), 1);
    }
}
