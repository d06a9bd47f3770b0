//! What the engine depends on. In: cargo's trees, and the page that says why. Out: pass, or what is too much or
//! unexplained.

use std::collections::BTreeSet;

use crate::files::{root, text};
use crate::manifest::{dependencies, keys};
use crate::package::{Package, packages};
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
    let page = text(&root.join(PAGE))?;
    if let Some(name) = unexplained(&manifest, &page) {
        return Err(format!("{PAGE} has no line for `{name}`"));
    }
    let stale = stale(&page, &packages(&root, "crates")?);
    if !stale.is_empty() {
        return Err(format!("{PAGE}:\n{}", stale.join("\n")));
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

/// Rows of the page whose column "used by" is not what the manifests say. What stands in parentheses is not compared.
fn stale(page: &str, packages: &[Package]) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let wrong = cells.filter_map(|cells| {
        let [_, name, _, _, told, ..] = cells[..] else {
            return None;
        };
        let users = users(name, packages);
        let differs = name != "crate" && without_parentheses(told) != users;
        differs.then(|| format!("`{name}` is used by \"{users}\", not by \"{told}\""))
    });
    wrong.collect()
}

/// Who names a dependency: `core, store; tests: facade`.
fn users(name: &str, packages: &[Package]) -> String {
    let naming = |kind: &str| -> BTreeSet<&str> {
        let all = packages.iter();
        let of_kind = all.filter(|package| {
            let names = dependencies(&package.manifest, kind);
            names.iter().any(|found| found == name)
        });
        of_kind.map(|package| short(&package.name)).collect()
    };
    let users = naming("dependencies");
    let tests = naming("dev-dependencies");
    let list = |names: Vec<&str>| names.join(", ");
    let tests = list(tests.difference(&users).copied().collect());
    let users = list(users.into_iter().collect());
    match (users.is_empty(), tests.is_empty()) {
        (_, true) => users,
        (true, false) => format!("tests: {tests}"),
        (false, false) => format!("{users}; tests: {tests}"),
    }
}

/// A crate as the page names it. The tests of the facade are a crate of their own.
fn short(package: &str) -> &str {
    match package {
        "duroxide" | "duroxide-tests" => "facade",
        other => other.strip_prefix("duroxide-").unwrap_or(other),
    }
}

/// `a (b), c` as `a, c`.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let kept = text.chars().filter(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    });
    let kept: String = kept.collect();
    kept.replace(" ,", ",").replace(" ;", ";").trim().to_owned()
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
    fn a_row_that_names_other_users_than_the_manifests_is_stale() {
        let package = |name: &str, manifest: &str| Package {
            name: name.to_owned(),
            manifest: manifest.to_owned(),
        };
        let packages = [
            package("duroxide-b", "[dependencies]\nx = \"1\"\n"),
            package("duroxide-a", "[dependencies]\nx = \"1\"\n"),
            package("duroxide-tests", "[dev-dependencies]\nx = \"1\"\n"),
        ];
        let page = "| crate | here | newest | used by | reason |\n| x | 1 | 1 | a (Linux), b; tests: facade | why |\n";
        assert_eq!(stale(page, &packages), Vec::<String>::new());
        let stale = stale(&page.replace(", b", ""), &packages);
        assert!(stale[0].contains("\"a, b; tests: facade\""), "{stale:?}");
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
