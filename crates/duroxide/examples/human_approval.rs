//! A person decides, or time does: a message races a timer.
//!
//! ```text
//! cargo run --release --example human_approval
//! ```

use std::time::Duration;

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Expense {
    what: String,
    euros: u32,
    answer_within: Duration,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    by: String,
    approved: bool,
}

#[duroxide::activity]
async fn ask_manager(what: String) -> Result<(), String> {
    println!("to the manager: please decide about the {what}");
    Ok(())
}

#[duroxide::orchestration]
async fn approve(ctx: OrchestrationContext, expense: Expense) -> Result<String, String> {
    let Expense { what, euros, .. } = &expense;
    if *euros < 50 {
        return Ok(format!("{what}: small enough, paid"));
    }
    ctx.call(ask_manager, what).await?;
    // A message that came while the manager was being asked waits here. The loser is dropped, and dropping cancels.
    let decision = ctx.receive::<Decision>("decision");
    match ctx.timeout(expense.answer_within, decision).await {
        Ok(decision) => {
            let Decision { by, approved } = decision?;
            let verdict = if approved { "paid" } else { "refused" };
            Ok(format!("{what}: {verdict} by {by}"))
        }
        Err(_elapsed) => Ok(format!("{what}: nobody answered, refused")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(ask_manager)
        .register(approve)
        .start()
        .await?;

    let (hour, moment) = (Duration::from_secs(3600), Duration::from_millis(300));
    for (id, what, euros, answer_within) in [
        ("coffee", "coffee", 12, hour),
        ("train", "train ticket", 140, hour),
        ("yacht", "yacht", 90_000, moment),
    ] {
        let expense = Expense {
            what: what.to_owned(),
            euros,
            answer_within,
        };
        let approval = app.client().start(approve, &expense).id(id).await?;
        if id == "train" {
            let decision = Decision {
                by: "Barbara".to_owned(),
                approved: true,
            };
            approval.send("decision", &decision).await?;
        }
        println!("{}", approval.result().await?);
    }

    app.shutdown().await;
    Ok(())
}
