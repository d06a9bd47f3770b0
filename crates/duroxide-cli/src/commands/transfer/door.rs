//! Opening and closing stores for the time that instances come or go. In: what a store is closed for, as the caller
//! knows it. Out: whether it is as the caller wants it; the answer says who was faster.

use std::sync::Arc;

use duroxide_core::provider::{Closing, Provider};

use super::{admin, cannot};
use crate::failure::Failure;

/// Why a store is closed.
pub(super) async fn reason(store: &Arc<dyn Provider>) -> Result<Option<String>, Failure> {
    Ok(admin(store)?.closed_because().await?)
}

/// Closes a store or opens it, if it is closed with the expected reason.
pub(super) async fn change(
    store: &Arc<dyn Provider>,
    expected: Option<&str>,
    reason: Option<&str>,
) -> Result<Closing, Failure> {
    let changed = admin(store)?.close_store(expected, reason).await?;
    changed.ok_or_else(|| cannot("cannot be closed"))
}

/// The same, where anything else is a failure.
pub(super) async fn must_change(
    store: &Arc<dyn Provider>,
    expected: Option<&str>,
    reason: Option<&str>,
) -> Result<(), Failure> {
    match change(store, expected, reason).await? {
        Closing::Done => Ok(()),
        Closing::Unexpected(Some(reason)) => Err(cannot(&format!("is closed: {reason}"))),
        Closing::Unexpected(None) => Err(cannot("was opened by another process meanwhile")),
    }
}

/// The names of the nodes that run on a store.
pub(crate) async fn nodes_up(store: &Arc<dyn Provider>) -> Result<Vec<String>, Failure> {
    let nodes = admin(store)?.list_nodes().await?.unwrap_or_default();
    let up = nodes.into_iter().filter(|node| !node.is_gone);
    Ok(up.map(|node| node.node.name).collect())
}
