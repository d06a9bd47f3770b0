//! Metrics: one increment per fact, one label set per name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duroxide::runtime::observability::MetricsSnapshot;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};

use crate::samples::{Sample, Samples};
use crate::support::{World, activities, orchestrations, quick, until};

fn registry() -> duroxide::OrchestrationRegistry {
    orchestrations()
        .register("works", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("good", "").await?;
            ctx.schedule_activity("bad", "").await.unwrap_err();
            ctx.schedule_sub_orchestration("fails", "")
                .await
                .unwrap_err();
            ctx.schedule_timer(Duration::from_millis(30)).await;
            Ok(String::new())
        })
        .register("fails", |_: OrchestrationContext, _| async {
            Err("no".to_owned())
        })
        .register(
            "again",
            |ctx: OrchestrationContext, round: String| async move {
                if round == "1" {
                    ctx.continue_as_new("2").await
                } else {
                    Ok(round)
                }
            },
        )
        .register("waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register("stuck", |_: OrchestrationContext, _| async {
            std::future::pending().await
        })
        .register("poisons", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("nobody", "").await
        })
        .build()
}

async fn world() -> World {
    let options = RuntimeOptions {
        max_attempts: 2,
        ..quick()
    };
    World::with_options(
        activities()
            .register("good", |_: ActivityContext, _| async { Ok(String::new()) })
            .register("bad", |_: ActivityContext, _| async {
                Err("no".to_owned())
            })
            .build(),
        registry(),
        options,
    )
    .await
}

/// What one instance of each kind leaves behind: every way to end, a child, activities that succeed, fail and have no
/// code.
async fn measured() -> (Samples, MetricsSnapshot) {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    world.run("i", "works", "").await;
    world.run("again", "again", "1").await;
    world.run("stuck", "stuck", "").await;
    world.run("poisons", "poisons", "").await;
    world.run("unknown", "unknown", "").await;
    world.begin("cancelled", "waits", "").await;
    world.waits_for("cancelled", "go").await;
    world.cancel("cancelled", "enough").await;
    world.outcome("cancelled").await;
    let snapshot = world.stopped().await;
    (samples, snapshot)
}

fn name(of: &str) -> (&'static str, &str) {
    ("orchestration_name", of)
}

#[tokio::test]
async fn a_start_is_counted_once_by_who_asked_for_it() {
    let (samples, snapshot) = measured().await;
    let starts =
        |labels: &[(&str, &str)]| samples.total("duroxide_orchestration_starts_total", labels);
    let by_client = [("version", "1.0.0"), ("initiated_by", "client")];
    assert_eq!(starts(&[name("works"), by_client[0], by_client[1]]), 1.0);
    let by_itself = ("initiated_by", "continueAsNew");
    assert_eq!(starts(&[name("again"), by_itself]), 1.0);
    assert_eq!(starts(&[name("again")]), 2.0);
    assert_eq!(snapshot.orch_starts, 8);
}

#[tokio::test]
async fn an_execution_ends_once_under_its_status() {
    let (samples, snapshot) = measured().await;
    let ends = "duroxide_orchestration_completions_total";
    for (who, status) in [
        ("works", "success"),
        ("fails", "failed"),
        ("again", "continuedAsNew"),
        ("again", "success"),
        ("stuck", "failed"),
        ("poisons", "poison"),
        ("unknown", "poison"),
        ("waits", "cancelled"),
    ] {
        let labels = [name(who), ("status", status)];
        assert_eq!(samples.total(ends, &labels), 1.0, "{who} {status}");
    }
    assert_eq!(samples.of(ends).len(), 8);
    assert_eq!(snapshot.orch_completions, 2);
}

#[tokio::test]
async fn a_failure_is_counted_once_by_its_category() {
    let (samples, snapshot) = measured().await;
    let failures = "duroxide_orchestration_failures_total";
    for (who, kind, category) in [
        ("fails", "app_error", "application"),
        ("stuck", "config_error", "configuration"),
        ("poisons", "poison", "poison"),
        ("unknown", "poison", "poison"),
        ("waits", "cancelled", "application"),
    ] {
        let labels = [
            name(who),
            ("error_type", kind),
            ("error_category", category),
        ];
        assert_eq!(samples.total(failures, &labels), 1.0, "{who}");
    }
    assert_eq!(samples.of(failures).len(), 5);
    assert_eq!(snapshot.orch_failures, 5);
    assert_eq!(snapshot.orch_application_errors, 2);
}

#[tokio::test]
async fn a_configuration_error_and_poison_have_counters_of_their_own() {
    let (samples, snapshot) = measured().await;
    let total = |name: &str| samples.total(name, &[]);
    assert_eq!(
        total("duroxide_orchestration_configuration_errors_total"),
        1.0
    );
    assert_eq!(total("duroxide_orchestration_poison_total"), 2.0);
    assert_eq!(snapshot.orch_configuration_errors, 1);
    assert_eq!(snapshot.orch_poison, 2);
}

#[tokio::test]
async fn an_execution_that_continues_as_new_is_counted() {
    let (samples, snapshot) = measured().await;
    let continued = "duroxide_orchestration_continue_as_new_total";
    assert_eq!(samples.total(continued, &[name("again")]), 1.0);
    assert_eq!(snapshot.orch_continue_as_new, 1);
}

#[tokio::test]
async fn an_activity_is_counted_once_by_its_outcome() {
    let (samples, snapshot) = measured().await;
    let runs =
        |labels: &[(&str, &str)]| samples.total("duroxide_activity_executions_total", labels);
    let good = [
        ("activity_name", "good"),
        ("outcome", "success"),
        ("tag", "default"),
    ];
    assert_eq!(runs(&good), 1.0);
    let bad = [
        ("activity_name", "bad"),
        ("outcome", "app_error"),
        ("retry_attempt", "0"),
    ];
    assert_eq!(runs(&bad), 1.0);
    assert_eq!(samples.total("duroxide_activity_poison_total", &[]), 1.0);
    assert_eq!(snapshot.activity_success, 1);
    assert_eq!(snapshot.activity_app_errors, 1);
    assert_eq!(snapshot.activity_poison, 1);
}

#[tokio::test]
async fn a_child_is_counted_by_its_parent_and_its_name() {
    let (samples, snapshot) = measured().await;
    let child = [
        ("parent_orchestration", "works"),
        ("child_orchestration", "fails"),
    ];
    let calls = "duroxide_suborchestration_calls_total";
    assert_eq!(samples.total(calls, &child), 1.0);
    assert_eq!(snapshot.suborchestration_calls, 1);
}

#[tokio::test]
async fn calls_of_the_store_are_timed_by_operation() {
    let (samples, snapshot) = measured().await;
    let timed = samples.of("duroxide_provider_operation_duration_seconds");
    for operation in [
        "fetch_orchestration_item",
        "ack_orchestration_item",
        "fetch_work_item",
        "ack_work_item",
    ] {
        let is_it = |sample: &Sample| sample.labels["operation"] == operation;
        assert!(timed.iter().any(is_it), "{operation}");
    }
    assert_eq!(snapshot.provider_errors, 0);
}

#[tokio::test]
async fn gauges_and_histograms_have_their_published_names() {
    let (samples, _) = measured().await;
    for name in [
        "duroxide_active_orchestrations",
        "duroxide_orchestrator_queue_depth",
        "duroxide_worker_queue_depth",
        "duroxide_activity_duration_seconds",
        "duroxide_orchestration_history_size",
        "duroxide_orchestration_dispatcher_processing_duration_ms",
        "duroxide_worker_dispatcher_execution_duration_ms",
        "duroxide_orchestration_dispatcher_items_fetched",
        "duroxide_worker_dispatcher_items_fetched",
    ] {
        assert!(!samples.of(name).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn durations_and_turns_describe_the_whole_orchestration() {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    world.run("i", "works", "").await;
    world.stop().await;
    let of = |name: &str| {
        let mut found = samples.of(name);
        found.retain(|s| s.labels["orchestration_name"] == "works");
        assert_eq!(found.len(), 1, "{name}");
        found.remove(0)
    };
    assert!(of("duroxide_orchestration_duration_seconds").value >= 0.03);
    assert!(of("duroxide_orchestration_turns").value >= 3.0);
    assert_eq!(
        of("duroxide_orchestration_completions_total").labels["final_turn_count"],
        "1-5"
    );
    assert_eq!(of("duroxide_orchestration_history_size").value, 10.0);
}

#[tokio::test]
async fn a_name_always_has_the_same_labels_and_none_of_them_grows_without_bound() {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    for (n, name) in ["works", "fails", "again", "stuck", "poisons", "unknown"]
        .iter()
        .enumerate()
    {
        world.run(&format!("i{n}"), name, "1").await;
    }
    world.stop().await;
    let mut sets: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for sample in samples.0.lock().unwrap().iter() {
        let keys: Vec<String> = sample.labels.keys().cloned().collect();
        assert!(
            !keys
                .iter()
                .any(|k| k == "execution_id" || k == "instance_id"),
            "{sample:?}"
        );
        assert!(sample.name.starts_with("duroxide_"));
        sets.entry(sample.name.clone()).or_default().insert(keys);
    }
    for (name, sets) in sets {
        assert_eq!(sets.len(), 1, "{name} has {sets:?}");
    }
}

#[tokio::test]
async fn the_gauge_of_active_orchestrations_rises_and_falls_with_them() {
    let samples = Samples::default();
    samples.install();
    let world = world().await;
    let active = || {
        world
            .runtime
            .observability_handle()
            .unwrap()
            .metrics_provider()
            .get_active_orchestrations()
    };
    // The first look at the store must not overtake the starts.
    until("gauges were read", async || {
        !samples.of("duroxide_active_orchestrations").is_empty()
    })
    .await;
    for id in ["a", "b"] {
        world.begin(id, "waits", "").await;
        world.waits_for(id, "go").await;
    }
    until("two are active", async || active() == 2).await;
    world.raise("a", "go", "").await;
    world.outcome("a").await;
    until("one is active", async || active() == 1).await;
    world.cancel("b", "enough").await;
    world.outcome("b").await;
    until("none is active", async || active() == 0).await;
    world.run("p", "unknown", "").await;
    until("a poisoned one is not active either", async || {
        active() == 0
    })
    .await;
    world.stop().await;
}

#[test]
fn a_recorder_that_belongs_to_the_starting_thread_hears_what_other_threads_count() {
    let samples = Samples::default();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let counted = metrics::with_local_recorder(&samples, || {
        tokio.block_on(async {
            let world = world().await;
            world.run("i", "works", "").await;
            world.run("again", "again", "1").await;
            world.stopped().await
        })
    });
    assert_eq!((counted.orch_completions, counted.activity_success), (2, 1));
    let ends = "duroxide_orchestration_completions_total";
    for (name, status) in [
        ("works", "success"),
        ("fails", "failed"),
        ("again", "success"),
    ] {
        let labels = [("orchestration_name", name), ("status", status)];
        assert_eq!(samples.total(ends, &labels), 1.0, "{name}");
    }
    let runs = "duroxide_activity_executions_total";
    assert_eq!(samples.total(runs, &[("activity_name", "good")]), 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_counted_before_whoever_waits_for_it_hears_of_it() {
    let world = world().await;
    for n in 0..200 {
        world.run(&format!("i{n}"), "again", "2").await;
        let snapshot = world.runtime.metrics_snapshot().unwrap();
        assert_eq!(snapshot.orch_completions, n + 1);
    }
    world.stop().await;
}
