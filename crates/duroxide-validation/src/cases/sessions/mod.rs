//! Activities bound to a session go to the session's owner.
//!
//! A session's lease and an activity's lease are two things: each runs out on its own.

mod affinity;
mod cleanup;
mod leases;
mod renewal;
mod retry;

pub use affinity::*;
pub use cleanup::*;
pub use leases::*;
pub use renewal::*;
pub use retry::*;

use crate::ProviderFactory;
use crate::fixture::{Bench, items};

/// A bench with activities 1, 2, … bound to these sessions; an empty name means no session.
async fn queue<'a>(
    factory: &'a (dyn ProviderFactory + 'a),
    sessions: &[&str],
) -> Bench<'a, dyn ProviderFactory + 'a> {
    let bench = Bench::open(factory).await;
    for (id, name) in (1..).zip(sessions) {
        let name = (!name.is_empty()).then_some(*name);
        bench
            .schedule(items::activity_with("seated", id, name, None))
            .await;
    }
    bench
}
