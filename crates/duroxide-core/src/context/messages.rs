//! Messages to other instances, and the end of instances that others started.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::OrchestrationContext;
use crate::codec;
use crate::definition::{Orchestration, OrchestrationError, Payload, ToOrchestration, Undecodable};
use crate::durable::{SYSCALL_AWAIT_INSTANCE, SYSCALL_SEND};
use crate::event::ErrorDetails;
use crate::future::DurableFuture;
use crate::message::{Undelivered, plain_message};

/// How an instance ended that another one waits for, as workers report it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub enum AwaitedEnd {
    /// With this output.
    Completed(String),
    /// Without one.
    Failed(ErrorDetails),
    /// There is no such instance.
    NotFound,
}

/// The result of an orchestration, as another one sees it.
type ResultOf<O> =
    Result<<O as Orchestration>::Output, OrchestrationError<<O as Orchestration>::Error>>;

impl OrchestrationContext {
    /// Puts a message on a queue of another instance, which takes it with [`receive`](Self::receive). The message is
    /// sent when the turn commits: once, whatever crashes. A message for an instance whose start is stored or decided
    /// waits for it.
    ///
    /// The answer says whether the instance could take messages when the code asked. An instance that ends before it
    /// reads the message leaves it unread, as it leaves those of clients.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, Undelivered};
    ///
    /// async fn shipped(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    ///     match ctx.send(&order, "shipments", &"it is on its way").await {
    ///         Ok(()) => Ok("the customer knows".to_owned()),
    ///         Err(Undelivered::Ended { .. }) => Ok("the order is closed".to_owned()),
    ///         Err(other) => Err(other.to_string()),
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn send<T: Serialize + ?Sized>(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        message: &T,
    ) -> DurableFuture<Result<(), Undelivered>> {
        let message = super::activities::encoded(message);
        let parts = (instance.into(), queue.into(), plain_message(message));
        let input = super::activities::encoded(&parts);
        self.call_activity(SYSCALL_SEND.into(), input, None, None)
            .map(|answer| {
                let refused = |why: String| Err(Undelivered::Refused { why });
                match answer.map(|text| serde_json::from_str(&text)) {
                    Ok(Ok(None)) => Ok(()),
                    Ok(Ok(Some(undelivered))) => Err(undelivered),
                    Ok(Err(error)) => refused(error.to_string()),
                    Err(why) => refused(why),
                }
            })
    }

    /// Waits for the end of an instance that this one did not start, and gives its result. An instance that does not
    /// exist, or is deleted meanwhile, is [`OrchestrationError::Unavailable`].
    ///
    /// A worker looks whether it has ended: at once, then at intervals of a tenth of the time that was waited, at least
    /// 100 milliseconds and at most 10 seconds. That holds no worker slot and adds nothing to the history.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, OrchestrationRef};
    ///
    /// const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    ///
    /// async fn closing(ctx: OrchestrationContext, month: u64) -> Result<String, String> {
    ///     Ok(ctx.await_instance(INVOICE, format!("invoice-{month}")).await?)
    /// }
    /// ```
    #[track_caller]
    pub fn await_instance<Via, T: ToOrchestration<Via>>(
        &self,
        _orchestration: T,
        instance: impl Into<String>,
    ) -> DurableFuture<ResultOf<T::Orchestration>> {
        let instance = instance.into();
        let since = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let input = super::activities::encoded(&(&instance, since_ms));
        self.call_activity(SYSCALL_AWAIT_INSTANCE.into(), input, None, None)
            .map(move |answer| result_of(&instance, answer))
    }
}

fn result_of<T: Payload, E: Payload>(
    instance: &str,
    answer: Result<String, String>,
) -> Result<T, OrchestrationError<E>> {
    let unavailable = |message: String| Err(OrchestrationError::Unavailable { message });
    let end = match answer.map(|text| serde_json::from_str::<AwaitedEnd>(&text)) {
        Ok(Ok(end)) => end,
        Ok(Err(error)) => return unavailable(error.to_string()),
        Err(message) => return unavailable(message),
    };
    match end {
        AwaitedEnd::Completed(text) => codec::decode(&text)
            .map_err(|error| OrchestrationError::Undecodable(Undecodable { text, error })),
        AwaitedEnd::Failed(details) => Err(OrchestrationError::of(details)),
        AwaitedEnd::NotFound => unavailable(format!("there is no instance {instance}")),
    }
}
