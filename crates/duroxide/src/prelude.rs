//! What most programs need: `use duroxide::prelude::*;`.

pub use crate::{
    Activity, ActivityContext, ActivityError, ActivityRef, AskError, Client, ClientError, Duroxide,
    Elapsed, Handle, Handlers, IfExists, Orchestration, OrchestrationContext, OrchestrationError,
    OrchestrationRef, ParentClose, Request, ResultError, Retry, RetryPolicy, Retryable, Saga,
    SagaError, SendError, State, Timeout, Undelivered,
};
