//! Other orchestrations: children that are awaited, and detached ones that are not.

use std::panic::Location;

use serde::{Serialize, de::DeserializeOwned};

use super::OrchestrationContext;
use super::activities::{decode_outcome, encoded};
use crate::durable::{CommandKind, OnClose, OperationKind, Resolution, Target};
use crate::future::{DurableFuture, ScheduleKind};
use crate::ids::{
    SUB_ORCH_AUTO_PREFIX, check_instance_id, is_auto_generated_sub_orch_id, uses_reserved_marker,
};
use crate::label::Labels;
use crate::start::StartExtras;

impl OrchestrationContext {
    /// Starts a child under a generated id and awaits its result.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     ctx.schedule_sub_orchestration("invoice", input).await
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_sub_orchestration(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_child(name.into(), None, None, input.into())
    }

    /// Starts a child under a chosen id and awaits its result. An id that cannot be used is an `Err`.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_child(name.into(), None, Some(instance.into()), input.into())
    }

    /// Starts a child of an exact version, or of the policy's if `None`.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_child(name.into(), version, None, input.into())
    }

    /// Starts a child of an exact version under a chosen id.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned_with_id(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_child(name.into(), version, Some(instance.into()), input.into())
    }

    /// Starts a child with typed input and output.
    #[track_caller]
    pub fn schedule_sub_orchestration_typed<
        In: Serialize,
        Out: DeserializeOwned + Send + 'static,
    >(
        &self,
        name: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_child(name.into(), None, None, encoded(input))
            .map(decode_outcome)
    }

    /// Starts a typed child under a chosen id.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id_typed<
        In: Serialize,
        Out: DeserializeOwned + Send + 'static,
    >(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_child(name.into(), None, Some(instance.into()), encoded(input))
            .map(decode_outcome)
    }

    /// Starts a typed child of an exact version.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned_typed<
        In: Serialize,
        Out: DeserializeOwned + Send + 'static,
    >(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_child(name.into(), version, None, encoded(input))
            .map(decode_outcome)
    }

    /// Starts a typed child of an exact version under a chosen id.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned_with_id_typed<
        In: Serialize,
        Out: DeserializeOwned + Send + 'static,
    >(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_child(name.into(), version, Some(instance.into()), encoded(input))
            .map(decode_outcome)
    }

    /// Starts a detached orchestration: its result is not awaited.
    ///
    /// # Panics
    ///
    /// When the id is empty, too long, or uses the marker of generated child ids, which fails the orchestration.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     ctx.schedule_orchestration("audit", format!("audit-{input}"), input.as_str());
    ///     Ok("the audit goes on by itself".to_owned())
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_orchestration(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.start_detached(name.into(), None, instance.into(), input.into());
    }

    /// Starts a detached orchestration with typed input.
    #[track_caller]
    pub fn schedule_orchestration_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        self.start_detached(name.into(), None, instance.into(), encoded(input));
    }

    /// Starts a detached orchestration of an exact version.
    #[track_caller]
    pub fn schedule_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.start_detached(name.into(), version, instance.into(), input.into());
    }

    /// Starts a detached orchestration of an exact version, with typed input.
    #[track_caller]
    pub fn schedule_orchestration_versioned_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        self.start_detached(name.into(), version, instance.into(), encoded(input));
    }

    #[track_caller]
    fn call_child(
        &self,
        name: String,
        version: Option<String>,
        instance: Option<String>,
        input: String,
    ) -> DurableFuture<Result<String, String>> {
        if let Some(id) = instance
            .as_deref()
            .filter(|id| is_auto_generated_sub_orch_id(id))
        {
            let refusal = format!(
                "sub-orchestration instance id '{id}' starts with the reserved marker '{SUB_ORCH_AUTO_PREFIX}', which the runtime uses to mark auto-generated child ids; use an id that does not begin with it"
            );
            return refused(refusal);
        }
        if let Some(Err(refusal)) = instance.as_deref().map(|id| self.check_id(id)) {
            return refused(refusal);
        }
        let operation = OperationKind::Child {
            name: name.clone(),
            instance: String::new(),
            scheduled_ms: 0,
        };
        let kind = CommandKind::Child {
            target: Target {
                name,
                version,
                record_governs: false,
            },
            instance,
            input,
            labels: Labels::new(),
            extras: StartExtras::default(),
            on_close: OnClose::default(),
        };
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(operation, kind, location);
        drop(cell);
        let kind = ScheduleKind::SubOrchestration { token: slot as u64 };
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_outcome)
    }

    #[track_caller]
    fn start_detached(
        &self,
        name: String,
        version: Option<String>,
        instance: String,
        input: String,
    ) {
        assert!(
            !uses_reserved_marker(&instance),
            "detached orchestration instance id '{instance}' uses the reserved sub-orchestration marker '{SUB_ORCH_AUTO_PREFIX}'; root instance ids must not start with it or contain '::{SUB_ORCH_AUTO_PREFIX}'"
        );
        if let Err(refusal) = self.check_id(&instance) {
            panic!("detached orchestration: {refusal}");
        }
        let kind = CommandKind::Detached {
            target: Target {
                name,
                version,
                record_governs: false,
            },
            instance,
            input,
            labels: Labels::new(),
            extras: StartExtras::default(),
        };
        let location = Location::caller();
        self.shared.deciding(location).record(kind, location);
    }

    /// Checks an id as a client does. Executions that began on an engine that did not check go on without.
    pub(super) fn check_id(&self, id: &str) -> Result<(), String> {
        if self.shared.cell().takes_any_id {
            return Ok(());
        }
        check_instance_id(id)
    }
}

fn refused(why: String) -> DurableFuture<Result<String, String>> {
    DurableFuture::known(Err(why), ScheduleKind::SubOrchestration { token: 0 })
}
