//! An order service: payment with retries, approval by a person with a deadline, refunds. Typed from end to end.
//!
//! ```text
//! cargo run --release --example checkout
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    number: String,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    granted: bool,
    by: String,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum ChargeError {
    #[error("the card was declined")]
    Declined,
    #[error("the bank does not answer")]
    Busy,
}

impl Retryable for ChargeError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum CheckoutError {
    #[error("not paid: {0}")]
    Payment(#[from] ActivityError<ChargeError>),
    #[error("refused by {by}")]
    Refused { by: String },
    #[error("nobody decided in time")]
    TooLate,
    #[error("{0}")]
    Other(String),
}

/// What the program shares with its activities.
struct App {
    currency: &'static str,
    /// The bank does not answer the first call that asks for much.
    bank_is_busy: AtomicBool,
}

/// Takes the money. It may run more than once; the bank ignores a key that it has seen.
#[duroxide::activity]
async fn charge(
    ctx: ActivityContext,
    app: State<App>,
    order: Order,
) -> Result<Receipt, ChargeError> {
    println!("  charge {} {}", order.cents, app.currency);
    match order.cents {
        0 => Err(ChargeError::Declined),
        cents if cents > 99_999 && app.bank_is_busy.swap(false, Ordering::Relaxed) => {
            Err(ChargeError::Busy)
        }
        cents => Ok(Receipt {
            number: ctx.idempotency_key(),
            cents,
        }),
    }
}

#[duroxide::activity]
async fn refund(app: State<App>, receipt: Receipt) -> Result<(), String> {
    println!("  refund {} {}", receipt.cents, app.currency);
    Ok(())
}

/// What happens to an order. Each step is recorded before the next one begins.
#[duroxide::orchestration(version = "1.1.0")]
async fn checkout(ctx: OrchestrationContext, order: Order) -> Result<Receipt, CheckoutError> {
    let saga = ctx.saga();
    let steps = async {
        let charging = ctx
            .call(charge, &order)
            .retry(RetryPolicy::exponential(5).jitter(0.2))
            .timeout(Duration::from_secs(30));
        // Shielded: whoever cancels meanwhile gets the money back, because it is known by then that it was taken.
        let receipt = ctx.shield(charging).await?;
        saga.undo(refund, &receipt);
        if order.cents < 50_000 {
            return Ok(receipt);
        }
        let answer = ctx.receive::<Approval>("approval");
        match ctx.timeout(Duration::from_millis(300), answer).await {
            Ok(Ok(approval)) if approval.granted => Ok(receipt),
            Ok(Ok(Approval { by, .. })) => Err(CheckoutError::Refused { by }),
            Ok(Err(strange)) => Err(CheckoutError::Other(strange.to_string())),
            Err(_elapsed) => Err(CheckoutError::TooLate),
        }
    };
    match saga.run(steps).await {
        Ok(receipt) => Ok(receipt),
        Err(SagaError::Failed { error, .. }) => Err(error),
        Err(cancelled) => Err(CheckoutError::Other(cancelled.to_string())),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .state(App {
            currency: "EUR",
            bank_is_busy: AtomicBool::new(true),
        })
        .register(charge)
        .register(refund)
        .register(checkout)
        .start()
        .await?;
    let client = app.client();
    let order = |item: &str, cents: u64| Order {
        item: item.to_owned(),
        cents,
    };

    println!("a pencil");
    let pencil = client.start(checkout, order("pencil", 250)).id("pencil");
    let receipt = pencil.await?.result().await?;
    println!("  sold for {} cents", receipt.cents);

    println!("a piano, approved");
    let piano = client.start(checkout, order("piano", 250_000)).id("piano");
    let piano = piano.await?;
    let approval = Approval {
        granted: true,
        by: "Ada".to_owned(),
    };
    piano.send("approval", &approval).await?;
    println!("  sold for {} cents", piano.result().await?.cents);

    println!("a yacht, and nobody decides");
    let yacht = client.start(checkout, order("yacht", 90_000)).id("yacht");
    match yacht.await?.result().await {
        Err(error) if matches!(error.failed(), Some(CheckoutError::TooLate)) => {
            println!("  {error}");
        }
        other => println!("  {other:?}"),
    }

    println!("for nothing");
    let nothing = client
        .start(checkout, order("nothing", 0))
        .id("nothing")
        .await?;
    match nothing.result().await {
        Err(error) => println!("  {error}"),
        Ok(receipt) => println!("  {receipt:?}"),
    }

    app.shutdown().await;
    Ok(())
}
