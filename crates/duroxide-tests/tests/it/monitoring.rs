//! The dashboard and the alert rules of docs/monitoring name metrics that are recorded, and no others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every metric that a text names, without what Prometheus appends to histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    text.match_indices("duroxide_")
        .filter(|(at, _)| !text[..*at].ends_with(is_name))
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let name = &rest[..end];
            ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name)
                .to_owned()
        })
        .collect()
}

fn recorded() -> BTreeSet<String> {
    metrics(&text(
        "crates/duroxide-runtime/src/observability/metrics.rs",
    ))
}

#[test]
fn a_dashboard_shows_only_metrics_that_are_recorded() {
    let shown = metrics(&text("docs/monitoring/dashboard.json"));
    assert!(shown.len() > 15, "only {shown:?}");
    let unknown: Vec<_> = shown.difference(&recorded()).cloned().collect();
    assert!(unknown.is_empty(), "nothing records {unknown:?}");
}

#[test]
fn an_alert_looks_only_at_metrics_that_are_recorded() {
    let watched = metrics(&text("docs/monitoring/alerts.yaml"));
    assert!(watched.len() > 5, "only {watched:?}");
    let unknown: Vec<_> = watched.difference(&recorded()).cloned().collect();
    assert!(unknown.is_empty(), "nothing records {unknown:?}");
}

#[test]
fn the_dashboard_is_a_json_document_whose_panels_do_not_overlap() {
    let board: serde_json::Value =
        serde_json::from_str(&text("docs/monitoring/dashboard.json")).expect("it is JSON");
    let places: Vec<[u64; 4]> = board["panels"]
        .as_array()
        .expect("it has panels")
        .iter()
        .map(|panel| ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect(key)))
        .collect();
    for (at, [x, y, w, h]) in places.iter().enumerate() {
        assert!(x + w <= 24, "panel {at} is wider than the board");
        for [x2, y2, w2, h2] in &places[at + 1..] {
            let apart = x + w <= *x2 || x2 + w2 <= *x || y + h <= *y2 || y2 + h2 <= *y;
            assert!(apart, "panel {at} at {x},{y} overlaps one at {x2},{y2}");
        }
    }
}
