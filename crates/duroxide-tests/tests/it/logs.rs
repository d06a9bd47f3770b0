//! Log lines: their targets, levels and fields, as a subscriber of this thread sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{World, activities, in_memory, orchestrations, output, quick, until};

#[derive(Debug, Clone)]
pub(crate) struct Line {
    level: Level,
    pub(crate) target: String,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    /// Collects what this thread logs from now on.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let guard = tracing::subscriber::set_default(lines.clone());
        (lines, guard)
    }

    pub(crate) fn all(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, target: &str, message: &str) -> Vec<Line> {
        let wanted = |line: &Line| line.target == target && line.message == message;
        self.all().into_iter().filter(wanted).collect()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        self.0.lock().unwrap().push(Line {
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            message,
            fields: fields.0,
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn has(line: &Line, fields: &[&str]) {
    for field in fields {
        assert!(line.fields.contains_key(*field), "no {field} in {line:?}");
    }
}

const RUNTIME: &str = "duroxide::runtime";

#[tokio::test]
async fn authors_find_their_traces_under_their_own_targets_with_their_ids() {
    let (lines, _guard) = Lines::collect();
    let world = World::start(
        activities()
            .register("a", |ctx: ActivityContext, _| async move {
                ctx.trace_warn("from the activity");
                Ok(String::new())
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.trace_info("from the orchestration");
                ctx.trace("nonsense", "odd");
                ctx.schedule_activity("a", "").await
            })
            .build(),
    )
    .await;
    world.run("i", "o", "").await;
    world.stop().await;
    let line = &lines.of("duroxide::orchestration", "from the orchestration")[0];
    assert_eq!(line.level, Level::INFO);
    assert_eq!(line.fields["instance_id"], "i");
    has(
        line,
        &[
            "execution_id",
            "orchestration_name",
            "orchestration_version",
        ],
    );
    let odd = &lines.of("duroxide::orchestration", "odd")[0];
    assert_eq!(
        (odd.level, odd.fields["level"].as_str()),
        (Level::TRACE, "nonsense")
    );
    let line = &lines.of("duroxide::activity", "from the activity")[0];
    assert_eq!(line.level, Level::WARN);
    has(
        line,
        &[
            "instance_id",
            "execution_id",
            "orchestration_name",
            "orchestration_version",
            "activity_name",
            "activity_id",
            "worker_id",
        ],
    );
}

#[tokio::test]
async fn a_trace_is_said_once_however_often_the_code_is_replayed() {
    let (lines, _guard) = Lines::collect();
    for sticky in [0, 8] {
        let options = RuntimeOptions {
            sticky_instances_max: sticky,
            ..quick()
        };
        let world = World::with_options(
            activities()
                .register("quick", |_, _| async { Ok(String::new()) })
                .register("slow", |_, _| async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(String::new())
                })
                .build(),
            orchestrations()
                .register("o", |ctx: OrchestrationContext, _| async move {
                    let (slow, quick) = (
                        ctx.schedule_activity("slow", ""),
                        ctx.schedule_activity("quick", ""),
                    );
                    let id = ctx.instance_id();
                    let watched = async {
                        let done = quick.await;
                        ctx.trace_info(format!("{id} quick is done"));
                        done
                    };
                    ctx.join2(slow, watched).await.0?;
                    ctx.trace_info(format!("{id} all done"));
                    ctx.schedule_timer(Duration::from_millis(5)).await;
                    Ok(String::new())
                })
                .build(),
            options,
        )
        .await;
        let id = format!("sticky {sticky}");
        world.run(&id, "o", "").await;
        world.stop().await;
        for said in ["quick is done", "all done"] {
            let times = lines
                .of("duroxide::orchestration", &format!("{id} {said}"))
                .len();
            assert_eq!(times, 1, "{id} {said}");
        }
    }
}

/// The lines of four instances: one that continues as new, one that fails, one that diverges, one that is poison.
async fn lived() -> Lines {
    let (lines, _guard) = Lines::collect();
    let options = RuntimeOptions {
        max_attempts: 2,
        sticky_instances_max: 0,
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("good", |_, _| async { Ok("four".to_owned()) })
            .register("bad", |_, _| async { Err("no".to_owned()) })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, round: String| async move {
                ctx.schedule_activity("good", "").await?;
                ctx.schedule_activity("bad", "").await.unwrap_err();
                if round == "1" {
                    ctx.continue_as_new("2").await
                } else {
                    Ok(round)
                }
            })
            .register("fails", |_: OrchestrationContext, _| async {
                Err("no".to_owned())
            })
            .register("diverges", |_: OrchestrationContext, _| async {
                std::future::pending().await
            })
            .build(),
        options,
    )
    .await;
    world.run("i", "o", "1").await;
    world.run("fails", "fails", "").await;
    world.run("stuck", "diverges", "").await;
    world.run("poisoned", "nobody", "").await;
    world.stop().await;
    lines
}

fn whose(line: &Line) -> &str {
    &line.fields["instance_id"]
}

#[tokio::test]
async fn the_start_of_each_execution_is_logged_once() {
    let lines = lived().await;
    let started = lines.of(RUNTIME, "Orchestration started");
    let of_i: Vec<&Line> = started.iter().filter(|line| whose(line) == "i").collect();
    assert_eq!(of_i.len(), 2, "once per execution, not per turn");
    assert_eq!(of_i[0].level, Level::DEBUG);
    has(
        of_i[0],
        &[
            "execution_id",
            "orchestration_name",
            "orchestration_version",
            "worker_id",
        ],
    );
    assert_eq!(of_i[0].fields["is_continue_as_new"], "false");
    assert_eq!(of_i[1].fields["is_continue_as_new"], "true");
}

#[tokio::test]
async fn the_end_of_each_execution_is_logged_once() {
    let lines = lived().await;
    for message in ["Orchestration completed", "Orchestration continued as new"] {
        let found = lines.of(RUNTIME, message);
        assert_eq!(found.len(), 1, "{message}");
        has(
            &found[0],
            &[
                "instance_id",
                "execution_id",
                "orchestration_name",
                "orchestration_version",
                "worker_id",
                "history_events",
            ],
        );
    }
}

#[tokio::test]
async fn a_failure_of_the_author_is_a_warning_with_its_error() {
    let lines = lived().await;
    let failed = lines.of(RUNTIME, "Orchestration failed (application error)");
    assert_eq!((failed.len(), failed[0].level), (1, Level::WARN));
    assert_eq!(failed[0].fields["error_type"], "application");
    assert_eq!(failed[0].fields["error"], "no");
}

#[tokio::test]
async fn a_failure_that_is_not_the_authors_is_an_error_with_its_category() {
    let lines = lived().await;
    let failed = lines.of(RUNTIME, "Orchestration failed");
    let categories: Vec<_> = failed
        .iter()
        .map(|line| (whose(line), line.level, line.fields["error_type"].as_str()))
        .collect();
    assert_eq!(
        categories,
        [
            ("stuck", Level::ERROR, "configuration"),
            ("poisoned", Level::ERROR, "poison"),
        ]
    );
}

const OF_ACTIVITIES: &[&str] = &[
    "instance_id",
    "execution_id",
    "activity_name",
    "activity_id",
    "worker_id",
    "activity_tag",
];

#[tokio::test]
async fn an_activity_that_completes_is_logged_with_its_result_size() {
    let lines = lived().await;
    assert_eq!(lines.of(RUNTIME, "Activity started").len(), 4);
    let done = lines.of(RUNTIME, "Activity completed");
    assert_eq!((done.len(), done[0].level), (2, Level::DEBUG));
    has(&done[0], OF_ACTIVITIES);
    has(&done[0], &["duration_ms"]);
    assert_eq!(done[0].fields["outcome"], "success");
    assert_eq!(done[0].fields["result_size"], "4");
}

#[tokio::test]
async fn an_activity_that_fails_is_a_warning_with_its_error() {
    let lines = lived().await;
    let bad = lines.of(RUNTIME, "Activity failed (application error)");
    assert_eq!((bad.len(), bad[0].level), (2, Level::WARN));
    has(&bad[0], OF_ACTIVITIES);
    assert_eq!(bad[0].fields["outcome"], "app_error");
    assert_eq!(bad[0].fields["error"], "no");
}

#[tokio::test]
async fn log_lines_have_one_key_for_one_thing_and_no_target_of_an_inner_crate() {
    for line in lived().await.all() {
        assert!(!line.fields.contains_key("instance"), "{line:?}");
        assert!(!line.target.starts_with("duroxide_"), "{line:?}");
    }
}

#[tokio::test]
async fn the_capability_filter_is_logged() {
    let configured = "Orchestration dispatcher capability filter configured";
    assert!(!lived().await.of(RUNTIME, configured).is_empty());
}

#[tokio::test]
async fn the_start_line_names_the_engine_the_store_and_the_service() {
    let (lines, _guard) = Lines::collect();
    let mut options = quick();
    options.observability.service_name = "orders".to_owned();
    options.observability.service_version = Some("7".to_owned());
    World::with_options(activities().build(), orchestrations().build(), options)
        .await
        .stop()
        .await;
    let start = lines
        .all()
        .into_iter()
        .find(|l| l.message.contains("starting with provider sqlite"))
        .unwrap();
    assert_eq!((start.target.as_str(), start.level), (RUNTIME, Level::INFO));
    assert!(
        start.message.starts_with("duroxide runtime (0.2.0)"),
        "{start:?}"
    );
    assert_eq!(
        (
            start.fields["service_name"].as_str(),
            start.fields["service_version"].as_str()
        ),
        ("orders", "7")
    );
}

#[tokio::test]
async fn every_queue_message_crosses_a_continue_as_new_and_none_is_shown_in_a_log() {
    let (lines, _guard) = Lines::collect();
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "o", "1").await.unwrap();
    for n in 0..250 {
        let message = format!("a secret {n}");
        client.enqueue_event("i", "q", message).await.unwrap();
    }
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, round: String| async move {
                if round != "3" {
                    let next = if round == "1" { "2" } else { "3" };
                    return ctx.continue_as_new(next).await;
                }
                for n in 0..250 {
                    assert_eq!(ctx.dequeue_event("q").await, format!("a secret {n}"));
                }
                Ok("all of them, in order".to_owned())
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.outcome("i").await), "all of them, in order");
    world.stop().await;
    for line in lines.all() {
        assert!(!format!("{line:?}").contains("a secret"), "{line:?}");
    }
}

#[tokio::test]
async fn ignored_registrations_are_logged_as_errors() {
    let (lines, _guard) = Lines::collect();
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    let registry = orchestrations()
        .register("a", echo)
        .register("a", echo)
        .build();
    assert_eq!(registry.count(), 1);
    let errors: Vec<Line> = lines
        .all()
        .into_iter()
        .filter(|l| l.level == Level::ERROR)
        .collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].target, "duroxide::runtime::registry");
    assert!(
        errors[0]
            .message
            .contains("duplicate orchestration registration: a@1.0.0")
    );
    assert!(registry.resolve_handler("b").is_none());
    assert!(
        lines
            .all()
            .iter()
            .any(|l| l.level == Level::DEBUG && l.target == "duroxide::runtime::registry")
    );
}

#[tokio::test]
async fn what_is_given_up_or_cut_short_is_said() {
    let (lines, _guard) = Lines::collect();
    let mut options = quick();
    options.activity_cancellation_grace_period = Duration::from_millis(10);
    let world = World::with_options(
        activities()
            .register("deaf", |_, _| {
                std::future::pending::<Result<String, String>>()
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let deaf = ctx.schedule_activity("deaf", "");
                ctx.select2(deaf, ctx.schedule_timer(Duration::from_millis(10)))
                    .await;
                Ok(String::new())
            })
            .build(),
        options,
    )
    .await;
    world.run("i", "o", "").await;
    until("it is aborted", async || {
        !lines
            .of(
                RUNTIME,
                "Activity did not finish within grace period; aborting",
            )
            .is_empty()
    })
    .await;
    world.stop().await;
    let grace = &lines.of(
        RUNTIME,
        "Orchestration terminated, waiting for activity grace period",
    )[0];
    assert_eq!(
        (grace.level, grace.fields["grace_ms"].as_str()),
        (Level::INFO, "10")
    );
    let cancelling = &lines.of(RUNTIME, "Cancelling in-flight activities")[0];
    assert_eq!(
        (cancelling.level, cancelling.fields["count"].as_str()),
        (Level::DEBUG, "1")
    );
}

#[tokio::test]
async fn starting_a_runtime_installs_no_subscriber() {
    let world = World::with_options(
        activities().build(),
        orchestrations().build(),
        RuntimeOptions::default(),
    )
    .await;
    let free =
        tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default());
    assert!(free.is_ok(), "somebody took the place: {free:?}");
    // Asked for one while there is one, the runtime starts all the same.
    let mut options = quick();
    options.observability.install_subscriber = true;
    World::with_options(activities().build(), orchestrations().build(), options)
        .await
        .stop()
        .await;
    world.stop().await;
}
