//! The way from a node to the store. In: calls of the provider contract. Out: the same calls, late, lost before or
//! after they took effect, or refused because the store is out of reach. Each leaves a line in the timeline.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::ProviderError;
use duroxide_runtime::observability::Layer;

use crate::sim::{Fault, Sim};

/// The way of one node, or of the clients.
#[derive(Debug, Clone)]
pub struct Way {
    pub sim: Arc<Sim>,
    /// Which node; clients have numbers behind those of the nodes.
    pub node: usize,
}

impl Layer for Way {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        let fault = self.sim.fault(self.node, operation);
        if fault != Fault::None {
            self.sim.note(format_args!("{operation}: {fault:?}"));
        }
        let answer = self.through(operation, call, fault).await;
        let claimed = match operation {
            "claim_turns" => Some("turn"),
            "claim_work" => Some("work"),
            _ => None,
        };
        match (claimed, &answer) {
            (Some(kind), Ok(_)) => self.sim.leases.told(&self.sim.who(), kind),
            (Some(kind), Err(_)) => self.sim.leases.unheard(&self.sim.who(), kind),
            (None, _) => {}
        }
        match &answer {
            Ok(_) => self.sim.note(format_args!("{operation} ok")),
            Err(error) => self
                .sim
                .note(format_args!("{operation} failed: {}", plain(error))),
        }
        answer
    }
}

/// What kind of error it is; its text names tokens, which are random.
fn plain(error: &ProviderError) -> &'static str {
    match (error.is_lease_lost(), error.is_retryable()) {
        (true, _) => "lease lost",
        (false, true) => "later",
        (false, false) => "refused",
    }
}

/// A call that takes this long may cost a lease.
const LEASE_RISK: Duration = Duration::from_millis(400);

impl Way {
    async fn takes(&self, time: Duration) {
        if time >= LEASE_RISK {
            self.sim.disturb(self.node, time);
        }
        self.sim.wait(time).await;
    }

    async fn through<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
        fault: Fault,
    ) -> Result<T, ProviderError> {
        let lost = |why: &str| Err(ProviderError::retryable(operation, why));
        match fault {
            Fault::None => call.await,
            Fault::Slow(before, after) => {
                self.takes(before).await;
                let answer = call.await;
                if after >= LEASE_RISK {
                    self.sim.unheard();
                }
                self.takes(after).await;
                answer
            }
            Fault::FailsBefore(after) => {
                tokio::time::sleep(after).await;
                lost("the request was lost")
            }
            Fault::FailsAfter(after) => {
                let _unheard = call.await;
                self.sim.unheard();
                tokio::time::sleep(after).await;
                lost("the answer was lost")
            }
            Fault::Never => {
                let _unheard = call.await;
                self.sim.disturb(self.node, Duration::from_secs(200));
                // The connection is noticed to be dead when the network works again.
                self.sim.healed.cancelled().await;
                lost("the connection is dead")
            }
            Fault::Away(after) => {
                tokio::time::sleep(after).await;
                lost("the store is out of reach")
            }
        }
    }
}
