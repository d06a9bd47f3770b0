//! Handlers that take their process with them whenever they are tried, and how long a life waits until they were given
//! up.

use std::process::Command;
use std::time::Duration;

use duroxide::{Client, OrchestrationContext};

/// The orchestration whose activity is deadly, and the one whose own code is. Also the ids of their instances.
pub(crate) const ACTIVITY: &str = "deadly-work";
pub(crate) const TURN: &str = "deadly-turn";
pub(crate) const DEADLY_ACTIVITY: &str = "die";

const END_MAX: Duration = Duration::from_secs(60);
/// How long a deadly activity waits before it ends its process: what is in flight beside it has time to end, so that it
/// is not there at every death.
const FUSE: Duration = Duration::from_millis(150);

/// Waits for an activity that never ends.
pub(crate) async fn waits_for_death(
    ctx: OrchestrationContext,
    _: String,
) -> Result<String, String> {
    ctx.schedule_activity(DEADLY_ACTIVITY, "").await
}

/// Code that takes its process with it.
pub(crate) async fn dies(_: OrchestrationContext, _: String) -> Result<String, String> {
    kill_this_process();
    Ok(String::new())
}

/// An activity that takes its process with it.
pub(crate) async fn die() -> Result<String, String> {
    tokio::time::sleep(FUSE).await;
    kill_this_process();
    std::future::pending().await
}

fn kill_this_process() {
    let me = std::process::id().to_string();
    let killed = Command::new("kill").args(["-KILL", &me]).status();
    killed.expect("every Unix has kill");
}

/// Waits until both were given up, or one takes this process with it.
pub(crate) async fn is_over(client: &Client) {
    for id in [ACTIVITY, TURN] {
        let ended = client.wait_for_orchestration(id, END_MAX).await;
        ended.expect("it ends one way or the other");
    }
}
