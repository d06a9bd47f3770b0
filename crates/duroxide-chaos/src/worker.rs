//! The process that is killed: starts orchestrations, runs them, and writes down what the outside world saw.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ActivityOptions, BackoffStrategy, Client, ClientError, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus, RetryPolicy, Runtime, RuntimeOptions,
};

use crate::ledger::{Ledger, lines};
use crate::store::Place;

/// Orchestrations that one life of the worker keeps in flight.
pub(crate) const IN_FLIGHT: usize = 16;

/// What a life of the worker is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Starts more and more, until it is killed.
    Feed,
    /// The same, and deletes what has ended.
    Soak,
    /// Ends when everything has ended.
    Finish,
}

impl Life {
    pub(crate) fn of(finish: bool, soak: bool) -> Self {
        match (finish, soak) {
            (true, _) => Self::Finish,
            (false, true) => Self::Soak,
            (false, false) => Self::Feed,
        }
    }
}

/// How often and how soon a call is tried again while the store is away.
const RETRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// What an instance must have as its output.
pub(crate) fn expected(instance: &str) -> String {
    format!("{instance}: debited, credited, child of {instance}, round 2, letter of {instance}")
}

/// Runs until it is killed, or until everything has ended.
#[tokio::main]
pub(crate) async fn run(folder: &Path, place: &Place, life: Life) {
    let began = Instant::now();
    let store = place.open().await;
    let effects = Arc::new(Ledger::open(&folder.join("effects")));
    let options = RuntimeOptions {
        orchestrator_lock_timeout: place.lease(),
        worker_lock_timeout: place.lease(),
        max_attempts: 1_000,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(
        store.clone(),
        activities(&effects),
        orchestrations(),
        options,
    )
    .await;
    let client = Client::new(store);
    note_recovery(folder, &client, began).await;
    match life {
        Life::Feed => feed(folder, &client, false).await,
        Life::Soak => feed(folder, &client, true).await,
        Life::Finish => {
            let acknowledged = lines(&folder.join("started"));
            for instance in acknowledged.iter().filter(|line| !line.contains(' ')) {
                client
                    .wait_for_orchestration(instance, Duration::from_secs(120))
                    .await
                    .unwrap_or_else(|e| panic!("{instance} did not end: {e}"));
            }
            all_ended(&client).await;
            runtime.shutdown(Some(5_000)).await;
        }
    }
}

/// Waits for the rest: starts that the store took just before a kill, whose acknowledgement is not in the ledger.
async fn all_ended(client: &Client) {
    for status in ["Running", "ContinuedAsNew"] {
        while let Some(open) = client
            .list_instances_by_status(status)
            .await
            .expect("list")
            .first()
        {
            let _looked = client
                .wait_for_orchestration(open, Duration::from_secs(60))
                .await
                .unwrap_or_else(|e| panic!("{open} did not end: {e}"));
        }
    }
}

/// Measures how soon after its start a life commits something.
async fn note_recovery(folder: &Path, client: &Client, began: Instant) {
    let probe = format!("probe-{}", std::process::id());
    // A server that is away is no reason to end.
    for _ in 0..RETRIES {
        let started = client
            .start_orchestration(probe.as_str(), "probe", "")
            .await;
        let patience = Duration::from_secs(60);
        if started.is_ok()
            && client
                .wait_for_orchestration(&probe, patience)
                .await
                .is_ok()
        {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let recoveries = Ledger::open(&folder.join("recoveries"));
    recoveries.write(&began.elapsed().as_millis().to_string());
}

/// Starts orchestrations for ever, so many in flight. What the store acknowledged is written down.
async fn feed(folder: &Path, client: &Client, deletes: bool) {
    let name = if deletes { "soaking" } else { "started" };
    let started = Arc::new(Ledger::open(&folder.join(name)));
    let soaked = Arc::new(Ledger::open(&folder.join("soaked")));
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let (client, started, soaked) = (client.clone(), Arc::clone(&started), Arc::clone(&soaked));
        tokio::spawn(async move {
            for number in 0_u64.. {
                let instance = format!("op-{}-{lane}-{number}", std::process::id());
                let start = client.start_orchestration(instance.as_str(), "transfer", "");
                if start.await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                started.write(&instance);
                let letter = format!("letter of {instance}");
                let mailed = client.enqueue_event(instance.as_str(), "mail", letter);
                if mailed.await.is_ok() {
                    started.write(&format!("mailed {instance}"));
                }
                let patience = Duration::from_secs(60);
                let ended = client.wait_for_orchestration(&instance, patience).await;
                if deletes {
                    soaked.write(&finished(&client, &instance, ended).await);
                }
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane");
    }
}

/// An instance of a soak has ended as it should and is deleted.
async fn finished(
    client: &Client,
    instance: &str,
    ended: Result<OrchestrationStatus, ClientError>,
) -> String {
    match ended {
        Ok(OrchestrationStatus::Completed { output, .. }) if output == expected(instance) => {}
        other => panic!("{instance} ended as {other:?}"),
    }
    client
        .delete_instance(instance, false)
        .await
        .unwrap_or_else(|error| panic!("{instance} cannot be deleted: {error}"));
    instance.to_owned()
}

fn activities(effects: &Arc<Ledger>) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder();
    for (name, answer) in [("debit", "debited"), ("credit", "credited"), ("tell", "")] {
        let effects = Arc::clone(effects);
        builder = builder.register(name, move |ctx: ActivityContext, input: String| {
            let effects = Arc::clone(&effects);
            async move {
                effects.write(&effect(&ctx, name));
                Ok(if answer.is_empty() {
                    input
                } else {
                    answer.to_owned()
                })
            }
        });
    }
    let written = Arc::clone(effects);
    builder = builder.register("late", move |ctx: ActivityContext, _: String| {
        let effects = Arc::clone(&written);
        async move {
            effects.write(&effect(&ctx, "late"));
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(String::new())
        }
    });
    let effects = Arc::clone(effects);
    builder = builder.register("second-time", move |ctx: ActivityContext, _: String| {
        effects.write(&effect(&ctx, "second-time"));
        // The key is that of the first attempt.
        let own = format!("/{}", ctx.activity_id());
        let is_first = ctx.idempotency_key().ends_with(&own);
        async move {
            match is_first {
                true => Err("not the first time".to_owned()),
                false => Ok(String::new()),
            }
        }
    });
    builder.build()
}

fn effect(ctx: &ActivityContext, name: &str) -> String {
    let (instance, execution, id) = (ctx.instance_id(), ctx.execution_id(), ctx.activity_id());
    format!("{instance} {execution} {id} {name}")
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("probe", |_: OrchestrationContext, _: String| async {
            Ok(String::new())
        })
        .register(
            "child",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("tell", format!("child of {input}"))
                    .await
            },
        )
        .register("transfer", transfer)
        .build()
}

fn count_round(ctx: &OrchestrationContext) {
    let rounds = ctx
        .get_kv_value("rounds")
        .and_then(|text| text.parse::<u32>().ok());
    ctx.set_kv_value("rounds", (rounds.unwrap_or(0) + 1).to_string());
}

/// Activities (one of a session, three at once, one that is cancelled, one that is tried twice), timers, key-values, a status
/// and a child; then, after continue-as-new, a letter from a queue.
async fn transfer(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input.is_empty() {
        let debited = ctx.schedule_activity("debit", "").await?;
        ctx.schedule_timer(Duration::from_millis(5)).await;
        count_round(&ctx);
        ctx.set_custom_status("credits");
        let session = ActivityOptions::new().on_session(ctx.instance_id());
        let credited = ctx
            .schedule_activity_with_options("credit", "", session)
            .await?;
        let told = (0..3).map(|n| ctx.schedule_activity("tell", n.to_string()));
        let told = ctx.join(told.collect()).await;
        if !told
            .into_iter()
            .eq(["0", "1", "2"].map(|n| Ok(n.to_owned())))
        {
            return Err("a fan-out came back in disorder".to_owned());
        }
        // The loser is cancelled, whether it has begun or not.
        let late = ctx.schedule_activity("late", "");
        ctx.select2(late, ctx.schedule_timer(Duration::from_millis(1)))
            .await;
        let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
            delay: Duration::from_millis(2),
        });
        ctx.schedule_activity_with_retry("second-time", "", policy)
            .await?;
        let child = ctx
            .schedule_sub_orchestration("child", ctx.instance_id())
            .await?;
        return ctx
            .continue_as_new(format!("{debited}, {credited}, {child}"))
            .await;
    }
    count_round(&ctx);
    let round = ctx
        .schedule_activity("tell", format!("round {}", ctx.execution_id()))
        .await?;
    // A start that the store has and whose letter was never acknowledged must end all the same.
    let letter = ctx.dequeue_event("mail");
    let letter = match ctx
        .select2(letter, ctx.schedule_timer(Duration::from_secs(3)))
        .await
    {
        duroxide::Either2::First(letter) => letter,
        duroxide::Either2::Second(()) => "no letter".to_owned(),
    };
    Ok(format!("{}: {input}, {round}, {letter}", ctx.instance_id()))
}
