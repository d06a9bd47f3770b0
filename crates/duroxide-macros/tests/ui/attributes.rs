use duroxide::prelude::*;

#[duroxide::orchestration(version = "1.1")]
async fn short_version(ctx: OrchestrationContext) -> Result<(), String> {
    let _ = ctx;
    Ok(())
}

#[duroxide::activity(version = "1.0.0")]
async fn versioned() -> Result<(), String> {
    Ok(())
}

#[duroxide::activity(nmae = "x")]
async fn misspelt() -> Result<(), String> {
    Ok(())
}

#[duroxide::activity(name)]
async fn nameless() -> Result<(), String> {
    Ok(())
}

#[duroxide::activity(name = "a", name = "b")]
async fn twice() -> Result<(), String> {
    Ok(())
}

#[duroxide::activity(unchecked)]
async fn free() -> Result<(), String> {
    Ok(())
}

#[duroxide::activity]
struct NotAFunction;

#[duroxide::handlers]
fn not_an_impl() {}

struct Shop;

#[duroxide::handlers]
impl Shop {
    #[orchestration]
    async fn decides(&self, ctx: OrchestrationContext) -> Result<(), String> {
        let _ = ctx;
        Ok(())
    }
}

fn main() {}
