use duroxide::prelude::*;

struct NotStored;

#[duroxide::activity]
async fn takes_what_cannot_be_stored(_what: NotStored) -> Result<(), String> {
    Ok(())
}

#[duroxide::activity]
async fn gives_what_cannot_be_stored() -> Result<NotStored, String> {
    Ok(NotStored)
}

#[duroxide::orchestration]
async fn fails_with_what_cannot_be_stored(_ctx: OrchestrationContext) -> Result<(), NotStored> {
    Ok(())
}

#[duroxide::activity]
async fn gives_no_result() -> u32 {
    7
}

fn main() {}
