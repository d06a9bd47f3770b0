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


#[duroxide::activity]
async fn nameless(value: impl std::fmt::Debug) -> Result<(), String> {
    let _ = value;
    Ok(())
}

#[duroxide::activity]
async fn lent(name: std::borrow::Cow<'_, str>) -> Result<String, String> {
    Ok(name.into_owned())
}

#[duroxide::activity]
async unsafe fn dangerous() -> Result<(), String> {
    Ok(())
}

struct Of<T>(T);

#[duroxide::handlers]
impl Of<u32> {
    #[activity]
    async fn value(&self) -> Result<u32, String> {
        Ok(self.0)
    }
}

struct Bank;

// The other methods stay where they are.
#[duroxide::handlers]
impl Bank {
    #[activity]
    async fn wrong(&self, name: &str) -> Result<usize, String> {
        Ok(name.len())
    }

    #[activity]
    async fn right(&self) -> Result<u32, String> {
        Ok(7)
    }
}

async fn uses(bank: Bank) {
    let _ = bank.wrong("x").await;
    let _ = bank.right().await;
}

fn main() {}
