//! A few kills on each store, in every run of the tests.

use std::process::Command;

/// Runs the chaos program, which must find no violation, and returns its report.
fn report_of(arguments: &str) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_duroxide-chaos"))
        .arg("run")
        .args(arguments.split(' '))
        .output()
        .expect("run the chaos");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let json = &text[text.find('{').expect("a report")..=text.rfind('}').expect("a report")];
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn twenty_kills_lose_nothing_and_repeat_no_completion() {
    let report = report_of("--kills 20 --seed 7");
    assert!(report["orchestrations"].as_u64() > Some(20), "{report}");
    assert!(report["recoveries"].as_u64() > Some(5), "{report}");
    assert!(report["cancelled"].as_u64() > Some(0), "{report}");
    assert!(report["deleted"].as_u64() > Some(0), "{report}");
    let points = report["kills_at_named_points"].as_object();
    assert!(points.is_some_and(|points| points.len() > 2), "{report}");
}

#[test]
fn ten_kills_lose_nothing_on_redb() {
    let report = report_of("--store redb --kills 10 --seed 7");
    assert!(report["orchestrations"].as_u64() > Some(10), "{report}");
    let points = report["kills_at_named_points"].as_object();
    assert!(points.is_some_and(|points| points.len() > 1), "{report}");
}

#[test]
fn ten_kills_lose_nothing_where_only_the_writer_checkpoints() {
    let report = report_of("--kills 10 --seed 7 --alone");
    assert!(report["orchestrations"].as_u64() > Some(10), "{report}");
    assert!(report["recoveries"].as_u64() > Some(2), "{report}");
}

#[test]
fn four_workers_on_postgres_lose_nothing_by_kills_crashes_and_cuts() {
    let faults = "--kills 10 --crashes 2 --cuts 10 --quiet-kills 2";
    let report = report_of(&format!("--store postgres {faults} --seed 7"));
    assert!(report["orchestrations"].as_u64() > Some(20), "{report}");
    assert!(report["recoveries"].as_u64() > Some(4), "{report}");
    // How many there are is up to chance: a worker has to die in the middle of an activity.
    let takeovers = &report["takeovers"];
    assert!(takeovers["count"].is_u64(), "{report}");
    assert!(takeovers["disturbed"].is_u64(), "{report}");
}
