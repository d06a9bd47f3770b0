//! The audit trail: who changed what, as log lines under one target. In: a change that the store has accepted. Out: one
//! line, whose time is that of the change.

use std::sync::Arc;

use super::Client;

/// What was done, and to which instance.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    verb: &'static str,
    instance: &'a str,
    detail: &'a str,
}

impl<'a> Change<'a> {
    pub(super) fn of(verb: &'static str, instance: &'a str) -> Self {
        let detail = "";
        Self {
            verb,
            instance,
            detail,
        }
    }

    /// What more there is to say: a reason, a number, another id.
    pub(super) fn with_detail(self, detail: &'a str) -> Self {
        Self { detail, ..self }
    }
}

impl Client {
    /// Names who acts: the name stands in the audit trail beside everything that this client changes.
    ///
    /// The trail consists of log lines with the target `duroxide::audit`, one for each change that the store has
    /// accepted: `verb`, `instance_id`, `actor`, and `detail` where there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let store = Arc::new(SqliteProvider::new_in_memory().await?);
    /// let client = Client::new(store).acting_as("night shift");
    /// client.terminate_instance("order-7", "a duplicate").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn acting_as(mut self, who: impl Into<Arc<str>>) -> Self {
        self.actor = who.into();
        self
    }

    pub(super) fn audit(&self, change: Change<'_>) {
        tracing::info!(
            target: "duroxide::audit",
            verb = change.verb, instance_id = change.instance, actor = &*self.actor, detail = change.detail,
            "a client changed an instance"
        );
    }
}
