//! An account that answers withdrawals: shared by the tests in virtual time and those on a store.

use duroxide::prelude::*;

/// Lives until its balance is zero; continues as new after every second request.
#[duroxide::orchestration]
pub(crate) async fn account(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    let mut cents = cents;
    let mut withdrawals = ctx.requests::<u64, u64>("withdraw");
    for _ in 0..2 {
        ctx.publish(&cents);
        let request = withdrawals.next().await;
        match cents.checked_sub(*request.value()) {
            Some(left) => {
                cents = left;
                ctx.reply(request, &left);
            }
            None => ctx.refuse(request, format!("only {cents} left")),
        }
        if cents == 0 {
            ctx.publish(&cents);
            return Ok(ctx.execution_id());
        }
    }
    ctx.continue_with(account, cents).await
}
