//! An account that lives for ever: clients ask it for money and get an answer, it publishes what is left, and its
//! history stays short.
//!
//! ```text
//! cargo run --example account
//! ```

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

/// What clients see without asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Account {
    cents: u64,
    withdrawals: u32,
}

/// Takes withdrawals, one after another, until nothing is left.
#[duroxide::orchestration]
async fn account(ctx: OrchestrationContext, mut now: Account) -> Result<u32, String> {
    let mut withdrawals = ctx.requests::<u64, u64>("withdraw");
    while now.cents > 0 {
        ctx.publish(&now);
        // Three are enough for a show; a program asks `ctx.should_continue_as_new()`.
        if ctx.execution_id() < 3 && ctx.history_length() > 12 {
            return ctx.continue_with(account, &now).await;
        }
        let request = withdrawals.next().await;
        match now.cents.checked_sub(*request.value()) {
            Some(left) => {
                now = Account {
                    cents: left,
                    withdrawals: now.withdrawals + 1,
                };
                ctx.reply(request, &left);
            }
            None => {
                let reason = format!("only {} are left", now.cents);
                ctx.refuse(request, reason);
            }
        }
    }
    ctx.publish(&now);
    Ok(now.withdrawals)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:").register(account).start().await?;
    let full = Account {
        cents: 100,
        withdrawals: 0,
    };
    // A form that is sent twice opens one account.
    let opened = app.client().start(account, &full).dedup_key("form 17");
    let opened = opened.await?;
    let again = app.client().start(account, &full).dedup_key("form 17");
    println!("one account: {}", again.await?.id() == opened.id());

    for (slip, cents) in [
        ("slip 1", 30),
        ("slip 2", 50),
        ("slip 2", 50),
        ("slip 3", 40),
    ] {
        // The same slip is the same request, however often it is handed in.
        match opened.ask::<_, u64>("withdraw", &cents).id(slip).await {
            Ok(left) => println!("{slip}: {cents} of the money, {left} left"),
            Err(AskError::Refused { reason, .. }) => println!("{slip}: refused, {reason}"),
            Err(error) => return Err(error.into()),
        }
    }
    let view = opened.view::<Account>().await?.ok_or("nothing published")?;
    println!(
        "the view: {} cents, {} withdrawals",
        view.cents, view.withdrawals
    );
    opened.ask::<_, u64>("withdraw", &view.cents).await?;
    println!("closed after {} withdrawals", opened.result().await?);
    let executions = app.client().list_executions(opened.id()).await?;
    println!("{} short histories", executions.len());
    app.shutdown().await;
    Ok(())
}
