//! Whether anything can still happen by itself. In: the store of a test in which nothing has been committed for long.
//! Out: what the instance waits for, if only the test itself could end the wait.

use duroxide_core::provider::HandlerKind;
use duroxide_runtime::client::{ActivityPlace, Explanation, Finding, Standing, Wait};

use crate::harness::Harness;

impl Harness {
    /// Why an instance can no longer end: no timer is set, no activity runs, and nothing is to be done
    /// [`after`](Self::after) a time. `None` if something is left that may go on by itself.
    pub(crate) async fn stuck(&self, instance: &str) -> Option<String> {
        let client = self.client();
        let depths = client.get_queue_depths().await.ok()?;
        if self.acts_later() || depths.timer_queue > 0 {
            return None;
        }
        let why = client.explain(instance).await.ok()?;
        // Starts may be delayed, unless it is known what they lack.
        if depths.orchestrator_queue > 0 && !lacks_code(&why) {
            return None;
        }
        // Any other instance may be the one that sends what this one waits for.
        for other in client.list_all_instances().await.ok()? {
            if goes_on(&client.explain(&other).await.ok()?) {
                return None;
            }
        }
        Some(why.to_string())
    }
}

/// Whether an instance, or a child of it, waits for an orchestration that the test did not register.
fn lacks_code(why: &Explanation) -> bool {
    let is_missing = |finding: &Finding| {
        matches!(
            finding,
            Finding::NoNodeHasIt {
                kind: HandlerKind::Orchestration,
                ..
            } | Finding::NotClaimed {
                kind: HandlerKind::Orchestration,
                ..
            }
        )
    };
    let in_child = |wait: &Wait| match wait {
        Wait::Child { why, .. } => why.as_deref().is_some_and(lacks_code),
        _ => false,
    };
    why.findings.iter().any(is_missing) || why.waits.iter().any(in_child)
}

/// Whether an instance that has stood still for long may go on by itself.
fn goes_on(explanation: &Explanation) -> bool {
    if let Standing::Completed { .. } | Standing::Failed { .. } = explanation.standing {
        return false;
    }
    let is_at_work = |finding: &Finding| matches!(finding, Finding::TurnRuns { .. });
    explanation.findings.iter().any(is_at_work) || explanation.waits.iter().any(ends_by_itself)
}

fn ends_by_itself(wait: &Wait) -> bool {
    match wait {
        Wait::Timer { .. } => true,
        // One that is in the queue for so long has no worker.
        Wait::Activity { place, .. } => !matches!(place, ActivityPlace::Queued { .. }),
        Wait::Child { why, .. } => why.as_deref().is_some_and(goes_on),
        Wait::Signal { .. } | Wait::Queue { .. } => false,
        // A wait of a kind that is not known here may end.
        _ => true,
    }
}
