//! Import cycles between the modules of a crate. In: the sources, and the list of cycles that are still there. Out:
//! pass, or the cycles that are new or gone.
//!
//! A mention of `crate::a::b` in the file of `crate::a::c` is an edge from `c` to `b` among the modules of `a`: the
//! edge belongs to the folder in which the two paths part. A parent may use its children and a child its parent; only
//! siblings are compared.

mod graph;
mod scan;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use self::graph::{Edges, knots};
use self::scan::Crate;
use crate::files::{folders, root, text};

const LIST: &str = "xtask/cycles.txt";

/// The cycles of the tree are exactly those of the list, which may only become shorter.
pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let mut found = BTreeMap::new();
    for folder in folders(&root, "crates")?
        .into_iter()
        .chain([root.join("xtask")])
    {
        let name = folder.strip_prefix(&root).map_err(|e| e.to_string())?;
        found.extend(cycles(&root, name)?);
    }
    let list = text(&root.join(LIST))?;
    let listed: Vec<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    println!(
        "   {} cycles, {} listed in {LIST}",
        found.len(),
        listed.len()
    );
    compare(&found, &listed)
}

/// The cycles of one crate as lines of the list, each with the mentions that make it.
fn cycles(root: &Path, package: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let read = Crate::read(root, package)?;
    let mut levels: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
    for mention in read.mentions() {
        let edges = levels.entry(mention.folder).or_default();
        edges
            .entry((mention.from, mention.to))
            .or_insert(mention.place);
    }
    let mut found = BTreeMap::new();
    for (folder, edges) in levels {
        for knot in knots(&edges) {
            let name = [&[package.display().to_string()], &folder[..]]
                .concat()
                .join("/");
            let inside = |(from, to): &(String, String)| knot.contains(from) && knot.contains(to);
            let mentions = edges
                .iter()
                .filter(|(edge, _)| inside(edge))
                .map(|((from, to), place)| format!("{from} -> {to} at {place}"))
                .collect();
            found.insert(format!("{name}: {}", knot.join(" ")), mentions);
        }
    }
    Ok(found)
}

fn compare(found: &BTreeMap<String, Vec<String>>, listed: &[&str]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (cycle, mentions) in found {
        if !listed.contains(&cycle.as_str()) {
            let part = listed.iter().any(|line| is_part(cycle, line));
            let what = if part {
                "a part of a listed cycle; list it instead"
            } else {
                "a new cycle"
            };
            wrong.push(format!("{what}: {cycle}\n  {}", mentions.join("\n  ")));
        }
    }
    for line in listed {
        if !found.contains_key(*line) {
            wrong.push(format!("no longer a cycle; take it from {LIST}: {line}"));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Whether every module of a cycle is in a listed cycle of the same folder.
fn is_part(cycle: &str, listed: &str) -> bool {
    let (Some((folder, modules)), Some((of, all))) =
        (cycle.split_once(": "), listed.split_once(": "))
    else {
        return false;
    };
    let all: Vec<&str> = all.split(' ').collect();
    folder == of && modules.split(' ').all(|module| all.contains(&module))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cycles: &[&str]) -> BTreeMap<String, Vec<String>> {
        cycles
            .iter()
            .map(|cycle| ((*cycle).to_owned(), Vec::new()))
            .collect()
    }

    #[test]
    fn a_cycle_that_is_not_listed_fails() {
        assert_eq!(compare(&found(&["a: x y"]), &["a: x y"]), Ok(()));
        let why = compare(&found(&["a: x y", "b: x y"]), &["a: x y"]).unwrap_err();
        assert!(why.contains("a new cycle: b: x y"), "{why}");
    }

    #[test]
    fn a_listed_cycle_that_is_gone_fails_so_that_the_list_stays_true() {
        let why = compare(&found(&["a: x y"]), &["a: x y z"]).unwrap_err();
        assert!(
            why.contains("list it instead: a: x y") && why.contains("take it from"),
            "{why}"
        );
    }
}
