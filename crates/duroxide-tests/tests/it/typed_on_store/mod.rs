//! The typed interface on a store that keeps what it is given: SQLite, or the server that the environment names. Real
//! time; what needs hours is in `tests/typed`.

#[path = "../../typed/account.rs"]
mod account;
mod calls;
mod children;
mod messages;
mod starts;

use std::time::Duration;

use duroxide::prelude::*;

use crate::support::{World, in_memory, quick};

const SOON: Duration = Duration::from_millis(20);
const AGES: Duration = Duration::from_secs(3600);

/// A running engine with this code.
async fn world(code: Handlers) -> World {
    let (activities, orchestrations) = code.build().unwrap();
    World::on(in_memory().await, activities, orchestrations, quick()).await
}
