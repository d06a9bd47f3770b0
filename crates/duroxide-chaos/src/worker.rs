//! The process that is killed: starts orchestrations, runs them, and writes down what the outside world saw.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, Runtime, RuntimeOptions,
};

use crate::ledger::{Ledger, lines};

/// Orchestrations that one life of the worker keeps in flight.
const IN_FLIGHT: usize = 16;

/// What an instance must have as its output.
pub(crate) fn expected(instance: &str) -> String {
    format!("{instance}: debited, credited, child of {instance}, round 2, letter of {instance}")
}

/// Runs until it is killed, or until everything has ended.
#[tokio::main]
pub(crate) async fn run(folder: &Path, finish: bool) {
    let began = Instant::now();
    let url = format!("sqlite:{}", folder.join("chaos.db").display());
    let store = Arc::new(
        SqliteProvider::new(&url, None)
            .await
            .expect("open the store"),
    );
    let effects = Arc::new(Ledger::open(&folder.join("effects")));
    // Short leases, so that a killed worker's claims come back soon.
    let options = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(400),
        worker_lock_timeout: Duration::from_millis(400),
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
    if finish {
        let acknowledged = lines(&folder.join("started"));
        for instance in acknowledged.iter().filter(|line| !line.contains(' ')) {
            client
                .wait_for_orchestration(instance, Duration::from_secs(120))
                .await
                .unwrap_or_else(|e| panic!("{instance} did not end: {e}"));
        }
        all_ended(&client).await;
        runtime.shutdown(Some(5_000)).await;
    } else {
        feed(folder, &client).await;
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
    client
        .start_orchestration(probe.as_str(), "probe", "")
        .await
        .expect("start the probe");
    client
        .wait_for_orchestration(&probe, Duration::from_secs(60))
        .await
        .expect("the probe ends");
    let recoveries = Ledger::open(&folder.join("recoveries"));
    recoveries.write(&began.elapsed().as_millis().to_string());
}

/// Starts orchestrations for ever, so many in flight. What the store acknowledged is written down.
async fn feed(folder: &Path, client: &Client) {
    let started = Arc::new(Ledger::open(&folder.join("started")));
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let (client, started) = (client.clone(), Arc::clone(&started));
        tokio::spawn(async move {
            for number in 0_u64.. {
                let instance = format!("op-{}-{lane}-{number}", std::process::id());
                client
                    .start_orchestration(instance.as_str(), "transfer", "")
                    .await
                    .expect("start");
                started.write(&instance);
                client
                    .enqueue_event(instance.as_str(), "mail", format!("letter of {instance}"))
                    .await
                    .expect("enqueue");
                started.write(&format!("mailed {instance}"));
                let patience = Duration::from_secs(60);
                let _ended = client.wait_for_orchestration(&instance, patience).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane");
    }
}

fn activities(effects: &Arc<Ledger>) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder();
    for (name, answer) in [("debit", "debited"), ("credit", "credited"), ("tell", "")] {
        let effects = Arc::clone(effects);
        builder = builder.register(name, move |ctx: ActivityContext, input: String| {
            let effects = Arc::clone(&effects);
            async move {
                effects.write(&format!(
                    "{} {} {} {name}",
                    ctx.instance_id(),
                    ctx.execution_id(),
                    ctx.activity_id()
                ));
                Ok(if answer.is_empty() {
                    input
                } else {
                    answer.to_owned()
                })
            }
        });
    }
    builder.build()
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

/// Two activities, a timer and a child; then, after continue-as-new, a letter from a queue.
async fn transfer(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input.is_empty() {
        let debited = ctx.schedule_activity("debit", "").await?;
        ctx.schedule_timer(Duration::from_millis(5)).await;
        let credited = ctx.schedule_activity("credit", "").await?;
        let child = ctx
            .schedule_sub_orchestration("child", ctx.instance_id())
            .await?;
        return ctx
            .continue_as_new(format!("{debited}, {credited}, {child}"))
            .await;
    }
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
