use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum LookError {
    NoSuchHost,
}

#[duroxide::orchestration]
async fn look(ctx: OrchestrationContext) -> Result<u64, ActivityError<LookError>> {
    // Whether trying again may help is not said.
    let look = ctx.run("look", || async { Err::<u64, _>(LookError::NoSuchHost) });
    look.retry(Retry::exponential(5)).await
}

fn main() {}
