//! What one durable call costs, in instructions: run it under callgrind with one way of calling and a number of calls.
//!
//! `cargo build --release -p duroxide-bench --example calls`, then for each of `call`, `published`, `run` and `nothing`
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/calls WAY 200`. The difference to
//! `nothing`, divided by the number, is the cost of one call. Instructions do not depend on how busy the machine is.

use std::sync::Arc;

use duroxide::providers::memory::MemoryProvider;
use duroxide::{
    ActivityContext, ActivityRef, Duroxide, Handlers, OrchestrationContext, OrchestrationRef,
    RuntimeOptions, activity_fn, orchestration_fn,
};

const DOUBLE: ActivityRef<u64, u64> = ActivityRef::new("double");
const CALLS: OrchestrationRef<(String, u64), u64> = OrchestrationRef::new("calls");

async fn double(_ctx: ActivityContext, n: u64) -> Result<u64, String> {
    Ok(2 * n)
}

async fn calls(ctx: OrchestrationContext, (way, count): (String, u64)) -> Result<u64, String> {
    let mut sum = 0;
    for n in 0..count {
        sum += match way.as_str() {
            "call" => ctx.call(DOUBLE, n).await?,
            "published" => ctx.schedule_activity_typed("double", &n).await?,
            "run" => {
                ctx.run("double", move || async move { Ok::<u64, String>(2 * n) })
                    .await?
            }
            _ => 2 * n,
        };
    }
    Ok(sum)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().ok_or("call, published, run or nothing?")?;
    let count: u64 = arguments
        .next()
        .unwrap_or_else(|| "200".to_owned())
        .parse()?;
    let code = Handlers::new()
        .register(activity_fn(DOUBLE, double))
        .register(orchestration_fn(CALLS, calls));
    let app = Duroxide::on(Arc::new(MemoryProvider::new()))
        .handlers(code)
        .options(RuntimeOptions::default())
        .start()
        .await?;
    let sum = app
        .client()
        .start(CALLS, (&way, &count))
        .await?
        .result()
        .await?;
    assert_eq!(
        sum,
        count * count.saturating_sub(1),
        "the sum of all doubles"
    );
    app.shutdown().await;
    Ok(())
}
