//! A person decides, or time does: a signal races a timer.
//!
//! ```text
//! cargo run --release --example human_approval
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, Either2, OrchestrationContext,
    OrchestrationRegistry, Runtime,
};
use serde::{Deserialize, Serialize};

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
struct Expense {
    what: String,
    euros: u32,
    answer_within_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    by: String,
    approved: bool,
}

async fn ask_manager(_ctx: ActivityContext, what: String) -> Result<(), String> {
    println!("to the manager: please decide about the {what}");
    Ok(())
}

async fn approve(ctx: OrchestrationContext, expense: Expense) -> Result<String, String> {
    if expense.euros < 50 {
        return Ok(format!("{}: small enough, paid", expense.what));
    }
    // The wait comes first: an answer that arrives while the manager is being asked is not lost.
    let answer = ctx.try_schedule_wait_typed::<Decision>("decision");
    ctx.schedule_activity_typed::<_, ()>("ask_manager", &expense.what)
        .await?;
    ctx.set_custom_status("asked");

    let too_late = ctx.schedule_timer(Duration::from_millis(expense.answer_within_ms));
    // The loser is dropped, and dropping a durable future cancels it.
    match ctx.select2(answer, too_late).await {
        Either2::First(decision) => {
            let Decision { by, approved } = decision?;
            let verdict = if approved { "paid" } else { "refused" };
            Ok(format!("{}: {verdict} by {by}", expense.what))
        }
        Either2::Second(()) => Ok(format!("{}: nobody answered, refused", expense.what)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register_typed("ask_manager", ask_manager)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("approve", approve)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    for (id, what, euros, answer_within_ms) in [
        ("coffee", "coffee", 12, 0),
        ("train", "train ticket", 140, 3_600_000),
        ("yacht", "yacht", 90_000, 300),
    ] {
        let expense = Expense {
            what: what.to_owned(),
            euros,
            answer_within_ms,
        };
        client
            .start_orchestration_typed(id, "approve", expense)
            .await?;
        if id == "train" {
            client
                .wait_for_status_change(id, 0, Duration::from_millis(50), PATIENCE)
                .await?;
            let decision = Decision {
                by: "Barbara".to_owned(),
                approved: true,
            };
            client.raise_event_typed(id, "decision", &decision).await?;
        }
        let result: String = client.wait_for_orchestration_typed(id, PATIENCE).await??;
        println!("{result}");
    }

    runtime.shutdown(None).await;
    Ok(())
}
