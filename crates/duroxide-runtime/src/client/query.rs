//! Questions about many instances. In: a query. Out: pages and counts, as the store answers them.

use duroxide_core::provider::{CountBy, InstanceCount, InstanceQuery, InstanceSummary, Page};

use super::{Client, ClientError};

impl Client {
    /// One page of the instances that a query admits. [`Page::next`] leads to the page after it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    /// use duroxide::providers::{InstanceQuery, InstanceStatus};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let mut query = InstanceQuery::new().with_status(InstanceStatus::Failed).with_name("order");
    /// loop {
    ///     let page = client.query_instances(&query).await?;
    ///     for order in &page.items {
    ///         println!("{} failed after {} events", order.instance_id, order.event_count);
    ///     }
    ///     match page.next {
    ///         Some(next) => query = query.after(next),
    ///         None => break,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says; it refuses a cursor that it did not make, or that belongs to
    /// another order.
    pub async fn query_instances(
        &self,
        query: &InstanceQuery,
    ) -> Result<Page<InstanceSummary>, ClientError> {
        Ok(self.admin()?.query_instances(query).await?)
    }

    /// How many instances a query admits, in groups; the largest group first.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>, ClientError> {
        Ok(self.admin()?.count_instances(query, by).await?)
    }
}
