//! Ids of instances: all, by status, by family. In: a status or an id. Out: ids.

use duroxide_core::provider::InstanceTree;
use tokio_postgres::types::Type;

use crate::error::Result;
use crate::ops::admin_sql::shown_ids;
use crate::ops::inspect::not_found;
use crate::store::Store;
use crate::text;

/// All instances, newest first, and those whose current execution has a status.
pub(crate) const ALL: &str = "SELECT i.instance_id FROM {s}.instances AS i ORDER BY i.number DESC";
pub(crate) const WITH_STATUS: &str =
    "SELECT i.instance_id FROM {current} WHERE e.status = $1 ORDER BY i.number DESC";

impl Store {
    /// All instances, newest first.
    pub(crate) async fn instance_ids(&self) -> Result<Vec<String>> {
        self.ids(ALL, &[]).await
    }

    /// Instances whose current execution has this status, newest first.
    pub(crate) async fn ids_with_status(&self, status: &str) -> Result<Vec<String>> {
        let status = text::owned(status);
        self.ids(WITH_STATUS, &[(&status, Type::TEXT)]).await
    }

    pub(crate) async fn children(&self, instance: &str) -> Result<Vec<String>> {
        let id = text::owned(instance);
        let sql = "SELECT c.instance_id FROM {s}.instances AS c LEFT JOIN {s}.instances AS p
                ON p.instance_id = c.parent_instance_id
            WHERE c.parent_instance_id = $1
              AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)
            ORDER BY c.number";
        // Who lacks a child acts on a family that is not whole.
        shown_ids(&self.ask(sql, &[(&id, Type::TEXT)]).await?)
    }

    /// The parent that started an instance; none once that was deleted, whether or not its id lives again.
    pub(crate) async fn parent(&self, instance: &str) -> Result<Option<String>> {
        let id = text::owned(instance);
        let rows = self
            .ask(
                "SELECT p.instance_id FROM {s}.instances AS i LEFT JOIN {s}.instances AS p
                     ON p.instance_id = i.parent_instance_id
                     AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)
                 WHERE i.instance_id = $1",
                &[(&id, Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or_else(|| not_found(instance))?;
        Ok(row.try_get::<_, Option<String>>(0)?.map(text::shown))
    }

    pub(crate) async fn tree(&self, root: &str) -> Result<InstanceTree> {
        let id = text::owned(root);
        let sql = "SELECT t FROM {s}.instance_tree($1) AS t";
        Ok(InstanceTree {
            root_id: root.to_owned(),
            all_ids: shown_ids(&self.ask(sql, &[(&id, Type::TEXT)]).await?)?,
        })
    }
}
