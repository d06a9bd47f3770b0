//! Waiting for the end, and why it does not come.

use duroxide_runtime::OrchestrationStatus;
use duroxide_runtime::client::{Client, ClientError};
use serde_json::json;

use crate::args::WaitArgs;
use crate::failure::Failure;
use crate::output::{Output, escape};

pub(crate) async fn wait(client: &Client, output: &Output, args: WaitArgs) -> Result<(), Failure> {
    let waited = client.wait_for_orchestration(&args.id, args.timeout).await;
    // An instance may be waited for before it is started; an id with a typing error never is.
    if let Err(ClientError::Timeout) = waited
        && let OrchestrationStatus::NotFound = client.get_orchestration_status(&args.id).await?
    {
        output.note(format!("nobody has started {} on this store", args.id));
    }
    match waited? {
        OrchestrationStatus::Completed { output: value, .. } => {
            if output.json {
                output.document(&json!({ "status": "Completed", "output": value }))
            } else {
                output.payload(&value)
            }
        }
        OrchestrationStatus::Failed { details, .. } => {
            let error = details.display_message();
            if output.json {
                output.document(&json!({ "status": "Failed", "error": error }))?;
            }
            Err(Failure::InstanceFailed(error))
        }
        OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
            Err(Failure::Timeout)
        }
    }
}

pub(crate) async fn explain(client: &Client, output: &Output, id: &str) -> Result<(), Failure> {
    let why = client.explain(id).await?;
    if output.json {
        return output.document(&why);
    }
    // Line by line: the line breaks are ours, everything in a line may be a user's.
    let text: String = why
        .to_string()
        .lines()
        .map(|line| format!("{}\n", escape(line)))
        .collect();
    output.raw(&text)
}
