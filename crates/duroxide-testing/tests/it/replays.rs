//! Recorded histories against code that is other than theirs, in ways that only the last turn shows.

use std::sync::Arc;

use duroxide_core::{FnOrchestration, OrchestrationContext};
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::{Harness, ReplayError, check_determinism, replay, replay_all, replay_with};

async fn priced(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("step", input).await?;
    Ok("5".to_owned())
}

async fn dearer(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("step", input).await?;
    Ok("7".to_owned())
}

async fn broken(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("step", input).await?;
    panic!("cannot go on")
}

async fn refusing(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("step", input).await?;
    Err("no".to_owned())
}

fn registry() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("priced", priced)
        .register("refusing", refusing)
        .build()
}

async fn recorded(name: &str) -> String {
    let mut harness = Harness::builder()
        .orchestrations(registry())
        .stub_value("step", "")
        .start()
        .await;
    harness.run(name, "").await;
    serde_json::to_string(&harness.full_history("run-1").await).expect("plain data")
}

#[tokio::test(start_paused = true)]
async fn code_that_ends_otherwise_than_its_history_is_noticed() {
    for (name, ended) in [("priced", "\"5\""), ("refusing", "\"no\"")] {
        let history = recorded(name).await;
        assert!(replay_with(&history, &registry()).is_ok());
        let error = replay(&history, Arc::new(FnOrchestration(dearer))).unwrap_err();
        let ReplayError::EndsOtherwise {
            recorded,
            attempted,
        } = &error
        else {
            panic!("{error}");
        };
        assert!(
            recorded.contains(ended) && attempted.contains("\"7\""),
            "{error}"
        );
        assert_eq!(error.code(), "D0704");
        let history: Vec<duroxide_core::Event> =
            serde_json::from_str(&history).expect("it was written above");
        let other = OrchestrationRegistry::builder()
            .register(name, dearer)
            .build();
        let report = check_determinism(&history, &other).unwrap_err();
        assert!(report.contains("ended with"), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_where_the_record_ends_is_noticed() {
    let history = recorded("priced").await;
    let mut open: Vec<serde_json::Value> =
        serde_json::from_str(&history).expect("it was written above");
    for cut in [history, {
        open.pop();
        serde_json::to_string(&open).expect("plain data")
    }] {
        let error = replay(&cut, Arc::new(FnOrchestration(broken))).unwrap_err();
        assert!(
            matches!(&error, ReplayError::Panicked(text) if text.contains("cannot go on")),
            "{error}"
        );
        assert_eq!(error.code(), "D0703");
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_of_histories_is_replayed_with_the_versions_they_were_recorded_with() {
    let folder = std::env::temp_dir().join(format!("duroxide-replays-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("more")).expect("a folder");
    let (one, other) = (recorded("priced").await, recorded("refusing").await);
    let exported = format!("{{\"executions\":[{{\"history\":{other}}}]}}");
    std::fs::write(folder.join("one.json"), &one).expect("a file");
    std::fs::write(
        folder.join("more/lines.jsonl"),
        format!("{exported}\n{exported}\n"),
    )
    .expect("a file");
    std::fs::write(folder.join("notes.txt"), "not a history").expect("a file");
    let all = replay_all(&folder, &registry()).expect("they fit");
    assert_eq!(all.executions, 3);

    let newer = OrchestrationRegistry::builder()
        .register("priced", dearer)
        .register("refusing", refusing)
        .register_versioned("refusing", "2.0.0", dearer)
        .build();
    let misfits = replay_all(&folder, &newer).expect_err("the code is other");
    let codes: Vec<_> = misfits.iter().map(|misfit| misfit.error.code()).collect();
    let missing = OrchestrationRegistry::builder()
        .register("priced", priced)
        .build();
    let without = replay_all(&folder, &missing).expect_err("a handler is missing");
    std::fs::remove_dir_all(&folder).expect("the folder was ours");
    assert_eq!(codes, ["D0704"], "{misfits:?}");
    let lines: Vec<_> = without
        .iter()
        .map(|misfit| (misfit.line, misfit.error.code()))
        .collect();
    assert_eq!(lines, [(1, "D0705"), (2, "D0705")]);
    assert!(
        replay_all(&folder, &registry()).is_err(),
        "there is no such folder"
    );
}
