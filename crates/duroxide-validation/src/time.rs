//! How cases let time pass: on the store's clock if they may move it, otherwise by waiting.

use std::time::Duration;

use crate::ProviderFactory;

/// Lets this much time pass for the store: advances its clock, or sleeps where it cannot be advanced.
pub async fn pass_time<F: ProviderFactory + ?Sized>(factory: &F, time: Duration) {
    match factory.clock() {
        Some(clock) => clock.advance(time),
        None => tokio::time::sleep(time).await,
    }
}
