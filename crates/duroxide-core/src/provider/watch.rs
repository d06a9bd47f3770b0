//! How a waiting client learns that something happened, without asking again and again.

use async_trait::async_trait;

use super::InstanceOutcome;

/// Notices of commits that may have changed one instance.
///
/// Take the watch first, then read, then await [`changed`](InstanceWatch::changed): a commit between the read and the
/// wait is never missed.
#[async_trait]
pub trait InstanceWatch: Send {
    /// Resolves once a commit may have changed the instance since the watch was made or since the last notice.
    /// May resolve for nothing; never resolves too late for a commit of this process.
    async fn changed(&mut self);

    /// Whether the store knows that the instance had not ended when the watch was made. Then its end is still to come,
    /// and a client that waits for it need not look first.
    fn is_running(&self) -> bool {
        false
    }

    /// Resolves once a commit may have ended the instance: with how it ended if the store can tell, which spares the
    /// reader a look, else with `None`. Like [`changed`](InstanceWatch::changed) it may resolve for nothing.
    async fn ended(&mut self) -> Option<InstanceOutcome> {
        self.changed().await;
        None
    }
}
