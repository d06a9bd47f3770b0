//! What most programs need: `use duroxide::prelude::*;`.

pub use crate::{
    Activity, ActivityContext, ActivityError, ActivityRef, Client, ClientError, Duroxide, Elapsed,
    Handle, Handlers, Orchestration, OrchestrationContext, OrchestrationError, OrchestrationRef,
    ParentClose, ResultError, Retry, RetryPolicy, Retryable, SagaError, State, Timeout,
};
