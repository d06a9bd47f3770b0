//! Log lines of an orchestration, silent while replaying.

use super::OrchestrationContext;

macro_rules! emit {
    ($level:ident, $ctx:expr, $($field:tt)*) => {{
        let identity = &$ctx.shared.identity;
        tracing::$level!(
            target: "duroxide::orchestration",
            instance_id = %identity.instance_id,
            execution_id = identity.execution_id,
            orchestration_name = %identity.name,
            orchestration_version = %identity.version,
            $($field)*
        )
    }};
}

impl OrchestrationContext {
    /// Logs at a level given by name; an unknown name becomes a field of a TRACE line.
    pub fn trace(&self, level: impl Into<String>, message: impl Into<String>) {
        let (level, message) = (level.into(), message.into());
        match level.to_uppercase().as_str() {
            "INFO" => self.trace_info(message),
            "WARN" => self.trace_warn(message),
            "ERROR" => self.trace_error(message),
            "DEBUG" => self.trace_debug(message),
            _ if self.is_replaying() => {}
            _ => emit!(trace, self, level = %level, "{message}"),
        }
    }

    /// Logs at INFO.
    pub fn trace_info(&self, message: impl Into<String>) {
        if !self.is_replaying() {
            emit!(info, self, "{}", message.into());
        }
    }

    /// Logs at WARN.
    pub fn trace_warn(&self, message: impl Into<String>) {
        if !self.is_replaying() {
            emit!(warn, self, "{}", message.into());
        }
    }

    /// Logs at ERROR.
    pub fn trace_error(&self, message: impl Into<String>) {
        if !self.is_replaying() {
            emit!(error, self, "{}", message.into());
        }
    }

    /// Logs at DEBUG.
    pub fn trace_debug(&self, message: impl Into<String>) {
        if !self.is_replaying() {
            emit!(debug, self, "{}", message.into());
        }
    }
}
