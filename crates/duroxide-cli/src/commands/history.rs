//! Histories, as lines or as the stored JSON; with `--follow`, as they grow.

use std::time::Duration;

use duroxide_core::{Event, EventKind};
use duroxide_runtime::client::Client;

use super::words;
use crate::args::HistoryArgs;
use crate::failure::Failure;
use crate::output::{Output, shorten, time};

/// How often `--follow` looks for new events.
const PAUSE: Duration = Duration::from_millis(250);
/// How much of an event's words is shown.
const WORDS: usize = 160;

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    args: HistoryArgs,
) -> Result<(), Failure> {
    let info = client.get_instance_info(&args.id).await?;
    let mut execution = args.execution.unwrap_or(info.current_execution_id);
    client.get_execution_info(&args.id, execution).await?;
    let mut shown = 0;
    loop {
        let history = client.read_execution_history(&args.id, execution).await?;
        for event in history.iter().filter(|event| event.event_id > shown) {
            print(output, event)?;
        }
        shown = history.last().map_or(shown, |event| event.event_id);
        match history.last().map(|event| &event.kind) {
            _ if !args.follow => return Ok(()),
            Some(
                EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationFailed { .. },
            ) => return Ok(()),
            Some(EventKind::OrchestrationContinuedAsNew { .. }) => {
                let current = client
                    .get_instance_info(&args.id)
                    .await?
                    .current_execution_id;
                if current > execution {
                    (execution, shown) = (execution + 1, 0);
                    continue;
                }
            }
            _ => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn print(output: &Output, event: &Event) -> Result<(), Failure> {
    if output.json {
        return output.json_line(event);
    }
    let (id, at) = (event.event_id, time(event.timestamp_ms));
    let words = shorten(&words::of(event), WORDS);
    output.line(format!("{id:>5}  {at}  {words}"))
}
