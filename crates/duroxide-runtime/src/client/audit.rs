//! The audit trail: who changed what, as log lines under one target. In: a deed that the store has accepted. Out: one line. The time
//! is that of the line.

use std::sync::Arc;

use super::Client;

/// What was done, and to which instance.
#[derive(Clone, Copy)]
pub(super) struct Deed<'a> {
    verb: &'static str,
    instance: &'a str,
    detail: &'a str,
}

impl<'a> Deed<'a> {
    pub(super) fn of(verb: &'static str, instance: &'a str) -> Self {
        let detail = "";
        Self {
            verb,
            instance,
            detail,
        }
    }

    pub(super) fn because(self, detail: &'a str) -> Self {
        Self { detail, ..self }
    }
}

impl Client {
    /// Names who acts: the name stands in the audit trail beside everything that this client changes.
    ///
    /// The trail consists of log lines with the target `duroxide::audit`, one for each deed that the store has accepted: `verb`,
    /// `instance_id`, `actor`, and `detail` where there is one.
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

    pub(super) fn audit(&self, deed: Deed<'_>) {
        tracing::info!(
            target: "duroxide::audit",
            verb = deed.verb, instance_id = deed.instance, actor = &*self.actor, detail = deed.detail,
            "an operator changed an instance"
        );
    }
}
