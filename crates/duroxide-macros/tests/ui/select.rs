use duroxide::prelude::*;

#[duroxide::activity]
async fn ask() -> Result<u32, String> {
    Ok(1)
}

#[duroxide::orchestration]
async fn picks(ctx: OrchestrationContext) -> Result<u32, String> {
    let picked = duroxide::select! {
        Ok(number) = ctx.call(ask, ()) => number,
        () = ctx.sleep(std::time::Duration::from_secs(1)) => 0,
    };
    Ok(picked)
}

fn main() {}
