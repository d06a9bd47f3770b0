use duroxide::prelude::*;

#[duroxide::activity]
fn not_async(name: String) -> Result<String, String> {
    Ok(name)
}

#[duroxide::activity]
async fn no_result(name: String) {
    let _ = name;
}

#[duroxide::activity]
async fn borrowed(name: &str) -> Result<String, String> {
    Ok(name.to_owned())
}

#[duroxide::activity]
async fn generic<T>(value: T) -> Result<T, String> {
    Ok(value)
}

#[duroxide::activity]
async fn wrong_context(ctx: OrchestrationContext) -> Result<(), String> {
    let _ = ctx;
    Ok(())
}

#[duroxide::orchestration]
async fn no_context(name: String) -> Result<String, String> {
    Ok(name)
}

#[duroxide::orchestration]
async fn has_state(ctx: OrchestrationContext, app: State<String>) -> Result<(), String> {
    let _ = (ctx, app);
    Ok(())
}

struct Shop;

impl Shop {
    #[duroxide::activity]
    async fn method(&self) -> Result<(), String> {
        Ok(())
    }
}

fn main() {}
