//! Strongly connected parts of a graph. In: edges. Out: the parts with more than one node.

use std::collections::{BTreeMap, BTreeSet};

/// From and to, with the place of one mention.
pub(super) type Edges = BTreeMap<(String, String), String>;

/// The sets of nodes that all reach each other. A folder has few modules, so that asking who reaches whom is quick
/// enough.
pub(super) fn knots(edges: &Edges) -> Vec<Vec<String>> {
    let nodes: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reach: BTreeMap<&String, BTreeSet<&String>> = nodes
        .iter()
        .map(|node| (*node, reachable(edges, node)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut knots = Vec::new();
    for node in &nodes {
        let back = |other: &&&String| reach[*other].contains(*node);
        let knot: Vec<String> = reach[*node]
            .iter()
            .filter(back)
            .map(|other| (*other).clone())
            .collect();
        if knot.len() > 1 && seen.insert(knot.clone()) {
            knots.push(knot);
        }
    }
    knots
}

/// Where the edges lead from a node, itself included if they lead back.
fn reachable<'a>(edges: &'a Edges, start: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for (_, to) in edges.keys().filter(|(from, _)| from == node) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(&str, &str)]) -> Edges {
        let edge =
            |(from, to): &(&str, &str)| (((*from).to_owned(), (*to).to_owned()), String::new());
        pairs.iter().map(edge).collect()
    }

    #[test]
    fn modules_that_reach_each_other_are_one_knot() {
        let edges = edges(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("e", "f"),
            ("f", "e"),
            ("d", "e"),
        ]);
        assert_eq!(knots(&edges), [vec!["a", "b", "c"], vec!["e", "f"]]);
    }

    #[test]
    fn a_path_without_a_way_back_is_no_knot() {
        assert_eq!(
            knots(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])),
            Vec::<Vec<String>>::new()
        );
    }
}
