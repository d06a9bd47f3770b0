//! What the start of the instance gave beside its input: memo, time limit, trace.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use super::OrchestrationContext;
use crate::definition::Undecodable;
use crate::trace_context::TraceContext;

impl OrchestrationContext {
    /// The memo that the instance was started with; `None` if it has none. It is the same in every execution.
    ///
    /// # Errors
    ///
    /// When the memo is not of this type.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    ///
    /// async fn order(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let asked_by: Option<String> = ctx.memo()?;
    ///     Ok(asked_by.unwrap_or_else(|| "nobody".to_owned()))
    /// }
    /// ```
    pub fn memo<T: DeserializeOwned>(&self) -> Result<Option<T>, Undecodable> {
        let Some(text) = self.shared.cell().extras.memo.clone() else {
            return Ok(None);
        };
        match serde_json::from_str(&text) {
            Ok(memo) => Ok(Some(memo)),
            Err(error) => {
                let error = error.to_string();
                Err(Undecodable { text, error })
            }
        }
    }

    /// When the time of this instance is up; `None` if it was started without a time limit. After that it ends as
    /// failed, whatever its code does. The same in every execution, but for one that an operator retries after its time
    /// was up: that has its time anew.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    /// use std::time::Duration;
    ///
    /// async fn poll(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let minute = Duration::from_secs(60);
    ///     while ctx.deadline().is_none_or(|deadline| ctx.now() + minute < deadline) {
    ///         ctx.schedule_timer(minute).await;
    ///     }
    ///     Ok("there is no time for another round".to_owned())
    /// }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<SystemTime> {
        let deadline_ms = self.shared.cell().shown.deadline_ms?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(deadline_ms))
    }

    /// The place of this execution in the trace that the instance was started in; `None` if it was started without one.
    /// Activities, children, detached starts and later executions belong to the same trace. The id of the span follows
    /// from the history, so it is the same in every replay.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    ///
    /// async fn order(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     Ok(ctx.trace_context().map(|trace| trace.traceparent()).unwrap_or_default())
    /// }
    /// ```
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.shared.cell().shown.trace.clone()
    }
}
