//! The custom status: one text that clients can read and wait for.

use std::panic::Location;

use super::OrchestrationContext;
use crate::durable::CommandKind;

impl OrchestrationContext {
    /// Sets the custom status. Clients see it when the turn commits.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     ctx.set_custom_status("resizing");
    ///     let small = ctx.schedule_activity("resize", input).await?;
    ///     ctx.set_custom_status("uploading");
    ///     ctx.schedule_activity("upload", small).await
    /// }
    /// ```
    #[track_caller]
    pub fn set_custom_status(&self, status: impl Into<String>) {
        self.put_status(Some(status.into()), Location::caller());
    }

    /// Removes the custom status.
    #[track_caller]
    pub fn reset_custom_status(&self) {
        self.put_status(None, Location::caller());
    }

    /// The custom status as the code has set it so far, or as the previous execution left it.
    #[must_use]
    pub fn get_custom_status(&self) -> Option<String> {
        self.shared.cell().custom_status.clone()
    }

    fn put_status(&self, status: Option<String>, location: &'static Location<'static>) {
        let mut cell = self.shared.deciding(location);
        cell.custom_status.clone_from(&status);
        cell.record(CommandKind::SetStatus { status }, location);
    }
}
