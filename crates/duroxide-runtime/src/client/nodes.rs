//! The nodes on a store. In: what each announced of itself. Out: the list, and the instances that nodes cannot
//! go on with.

use duroxide_core::provider::{BlockedInstance, SeenNode};

use super::{Client, ClientError};

impl Client {
    /// The nodes that run on the store, by name: who they are, which code they have, and when the store heard from
    /// them. Those that went silent are listed as gone for an hour; those that shut down are not listed. `None` if the
    /// store keeps no nodes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// for seen in client.nodes().await?.unwrap_or_default() {
    ///     println!("{} has {} activities", seen.node.name, seen.node.activities.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn nodes(&self) -> Result<Option<Vec<SeenNode>>, ClientError> {
        Ok(self.admin()?.list_nodes().await?)
    }

    /// The instances that nodes cannot go on with for now, each with its report, as the nodes that are up told the
    /// store with their last announcement; of one that several nodes name, the first. Ordered by instance.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// for blocked in client.blocked_instances().await? {
    ///     println!("{}: {}", blocked.instance_id, blocked.report);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn blocked_instances(&self) -> Result<Vec<BlockedInstance>, ClientError> {
        let nodes = self.nodes().await?.unwrap_or_default();
        let up = nodes.into_iter().filter(|seen| !seen.is_gone);
        let mut all: Vec<_> = up.flat_map(|seen| seen.node.blocked).collect();
        all.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        all.dedup_by(|a, b| a.instance_id == b.instance_id);
        Ok(all)
    }
}
