//! The instance that a command names. In: an id. Out: what the store knows of it; a typing error is an error.

use duroxide_core::provider::{InstanceInfo, InstanceStatus};
use duroxide_runtime::client::{Client, ClientError};

use crate::failure::Failure;

/// An instance that was started.
#[derive(Debug)]
pub(crate) enum Present {
    /// It runs or has ended.
    Known(InstanceInfo),
    /// Its start is in the queue, and no node has taken it.
    Starting,
}

impl Present {
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Known(info) => InstanceStatus::of_stored(&info.status).is_ended(),
            Self::Starting => false,
        }
    }
}

/// The instance, or nothing if no start of it was ever sent.
pub(crate) async fn look(client: &Client, id: &str) -> Result<Option<Present>, Failure> {
    match client.get_instance_info(id).await {
        Ok(info) => return Ok(Some(Present::Known(info))),
        Err(ClientError::InstanceNotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let pending = client.pending_work(id).await?.unwrap_or_default();
    let starts = pending
        .messages
        .iter()
        .any(|message| message.begins.is_some());
    Ok(starts.then_some(Present::Starting))
}

/// The instance; a failure if no start of it was ever sent.
pub(crate) async fn find(client: &Client, id: &str) -> Result<Present, Failure> {
    let found = look(client, id).await?;
    found.ok_or_else(|| Failure::NotFound(format!("Instance {id} not found")))
}

/// The instance has begun; a failure if not, which says more of one whose start waits.
pub(crate) async fn begun(client: &Client, id: &str) -> Result<(), Failure> {
    match find(client, id).await? {
        Present::Known(_) => Ok(()),
        Present::Starting => Err(Failure::NotFound(format!(
            "{id} has not begun: no node has run its first turn; `duroxide why {id}` says more"
        ))),
    }
}
