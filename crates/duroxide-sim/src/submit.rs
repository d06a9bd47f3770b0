//! What clients do with keys and ids of their requests, so that a repetition does nothing: conditional starts, messages
//! with keys, restarts under another id. In: a life. Out: the same calls once or more, and complaints.

use std::time::Duration;

use duroxide_runtime::{ClientError, IfExists, OrchestrationStatus, SendError};

use crate::client::{AGAIN, RootClient};
use crate::model::Expected;
use crate::plan::{LifeEnd, LifePlan, StartPlan};
use crate::program::{AWAITED, KEYED, Run, VERSIONS};

impl RootClient {
    /// Starts a life as a request of its own, with its first message, until that is acknowledged.
    pub(crate) async fn submit(&self, number: usize, life: &LifePlan, expected: &Expected) {
        let id = &self.plan.id;
        let run = Run::new(number as u32, self.path(number), life.program.clone());
        loop {
            let start = self.client.start(AWAITED, run.encode()).id(id);
            let mut start = start
                .version(VERSIONS[life.program.version])
                .request_id(format!("start-{number}"))
                .if_exists(match life.start {
                    StartPlan::InPlace => IfExists::ReplaceFinished,
                    StartPlan::Plain | StartPlan::Once => IfExists::Fail,
                });
            if let LifeEnd::Limit { after } = life.end {
                start = start.timeout(after);
            }
            if expected.keyed > 0 {
                let first = format!("{number}-0");
                start = start.keyed_message(KEYED, &first, &first);
            }
            match start.await {
                Ok(_) => return self.sim.note(format_args!("submit {id} acknowledged")),
                // A child of the life before runs still.
                Err(ClientError::InvalidInput { .. }) if life.start == StartPlan::InPlace => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => {
                    let text = format!("start of {id} is refused: {error}");
                    self.sim.violation(text);
                    std::future::pending().await
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends each message with a key until it is acknowledged, and some once more.
    pub(crate) async fn keyed(&self, number: usize, life: &LifePlan, expected: &Expected) {
        for seq in 0..expected.keyed {
            tokio::time::sleep(life.message_pause).await;
            let message = format!("{number}-{seq}");
            let mut left = 1 + self.sim.draw(|rng| rng.below(2));
            while left > 0 {
                let sent = self.client.send(&self.plan.id, KEYED, &message);
                match sent.dedup_key(&message).await {
                    Ok(()) => {
                        self.sim
                            .note(format_args!("message {message} acknowledged"));
                        left -= 1;
                    }
                    // It has ended, or it is gone; if it waits for this one, it is stuck.
                    Err(SendError::Undelivered(_)) => return,
                    Err(SendError::Client(error)) if error.is_retryable() => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(error) => {
                        let text = format!("message {message} is refused: {error}");
                        return self.sim.violation(text);
                    }
                }
            }
        }
    }

    /// Starts a life that has ended under another id, where it must end alike.
    pub(crate) async fn restart(&self, number: usize) {
        let id = &self.plan.id;
        let again = format!("r~{id}-{number}");
        let mut tries = 0;
        loop {
            match self.client.restart_as(id, &again).await {
                Ok(()) => break,
                // A try before this one was not answered, and took effect.
                Err(ClientError::InvalidInput { .. }) if tries > 0 => break,
                Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
                Err(error) => {
                    let text = format!("{id} cannot be restarted: {error}");
                    return self.sim.violation(text);
                }
            }
            tries += 1;
        }
        let outcome = loop {
            let wait = Duration::from_secs(60);
            match self.client.wait_for_orchestration(&again, wait).await {
                Ok(outcome) => break outcome,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let first = self.outcome_of(number);
        if first
            .as_ref()
            .is_some_and(|first| !is_alike(first, &outcome))
        {
            let text = format!("{id} ended as {first:?}, and restarted as {outcome:?}");
            self.sim.violation(text);
        }
    }
}

fn is_alike(first: &OrchestrationStatus, second: &OrchestrationStatus) -> bool {
    use OrchestrationStatus::{Completed, Failed};
    match (first, second) {
        (Completed { output, .. }, Completed { output: again, .. }) => output == again,
        (Failed { details, .. }, Failed { details: again, .. }) => {
            details.display_message() == again.display_message()
        }
        _ => false,
    }
}
