//! Histories, as lines or as the stored JSON; with `--follow`, as they grow.

use std::time::Duration;

use duroxide_core::{Event, EventKind};
use duroxide_runtime::client::Client;

use super::words;
use crate::args::HistoryArgs;
use crate::failure::Failure;
use crate::instance;
use crate::output::{Output, shorten, time};

/// How often `--follow` looks for new events.
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);
/// How much of an event's words is shown.
const WORDS: usize = 160;

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    args: HistoryArgs,
) -> Result<(), Failure> {
    instance::begun(client, &args.id).await?;
    let info = client.get_instance_info(&args.id).await?;
    let mut execution = args.execution.unwrap_or(info.current_execution_id);
    client.get_execution_info(&args.id, execution).await?;
    let mut shown = 0;
    loop {
        let history = client.read_execution_history(&args.id, execution).await?;
        let last = history.last().map_or(0, |event| event.event_id);
        if last < shown {
            // Deleted and started again: what follows is another history.
            shown = 0;
        }
        for event in history.iter().filter(|event| event.event_id > shown) {
            print(output, event)?;
        }
        shown = last;
        if !args.follow {
            return Ok(());
        }
        let has_ended = match history.last().map(|event| &event.kind) {
            Some(
                EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationFailed { .. },
            ) => return Ok(()),
            Some(EventKind::OrchestrationContinuedAsNew { .. }) | None => true,
            Some(_) => false,
        };
        if has_ended && let Some(next) = following(client, &args.id, execution).await? {
            (execution, shown) = (next, 0);
            continue;
        }
        tokio::time::sleep(FOLLOW_PAUSE).await;
    }
}

/// The execution to go on with after one that ended or is gone: the next that still exists, or the current one of a
/// later life of the id. A failure if the instance was deleted.
async fn following(client: &Client, id: &str, execution: u64) -> Result<Option<u64>, Failure> {
    let current = client.get_instance_info(id).await?.current_execution_id;
    if current < execution {
        return Ok(Some(current));
    }
    let executions = client.list_executions(id).await?;
    let next = executions.into_iter().find(|next| *next > execution);
    Ok(next.filter(|next| *next <= current))
}

fn print(output: &Output, event: &Event) -> Result<(), Failure> {
    if output.json {
        return output.json_line(event);
    }
    let (id, at) = (event.event_id, time(event.timestamp_ms));
    let words = shorten(&words::of(event), WORDS);
    output.line(format!("{id:>5}  {at}  {words}"))
}
