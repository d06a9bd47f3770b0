//! Messages for instances: starts, signals, queue messages.

use std::io::Read;
use std::time::Duration;

use duroxide_core::{StartExtras, TraceContext};
use duroxide_runtime::client::{Client, NewStart, Verb};
use serde_json::json;

use super::many;
use crate::args::{EnqueueArgs, RestartArgs, SignalArgs, StartArgs};
use crate::failure::Failure;
use crate::instance;
use crate::output::{Output, count_of, were};

pub(crate) async fn start(
    client: &Client,
    output: &Output,
    args: StartArgs,
) -> Result<(), Failure> {
    let input = payload(args.input)?;
    let (id, name) = (&args.id, &args.name);
    if instance::look(client, id).await?.is_some() {
        // The start would be dropped in silence.
        let text = format!("{id} exists; nothing was sent");
        return if args.if_absent {
            answer(output, &text, &json!({ "instance_id": id, "sent": false }))
        } else {
            Err(Failure::Exists(text))
        };
    }
    let extras = extras(args.memo, args.timeout, args.traceparent).map_err(Failure::Usage)?;
    let start = NewStart {
        version: args.version,
        labels: args.label.into_iter().collect(),
        extras,
        ..NewStart::new(id, name, input)
    };
    client.start_orchestration_with(start).await?;
    let text = format!("{id} will start as {name}");
    answer(output, &text, &json!({ "instance_id": id, "sent": true }))
}

fn extras(
    memo: Option<String>,
    timeout: Option<Duration>,
    traceparent: Option<String>,
) -> Result<StartExtras, String> {
    let mut extras = StartExtras::default();
    if let Some(memo) = memo {
        let value = serde_json::from_str(&memo).unwrap_or(serde_json::Value::String(memo));
        extras = extras.with_memo(&value)?;
    }
    if let Some(timeout) = timeout {
        extras = extras.with_timeout(timeout)?;
    }
    if let Some(header) = traceparent {
        extras = extras.with_trace(TraceContext::parse(&header, None)?);
    }
    Ok(extras)
}

pub(crate) async fn restart(
    client: &Client,
    output: &Output,
    args: RestartArgs,
) -> Result<(), Failure> {
    let named = args.filter.or_one(args.id.as_deref())?;
    let (Some(id), Some(new_id)) = (named, &args.new_id) else {
        return restart_many(client, output, args).await;
    };
    if args.consent.dry_run {
        instance::find(client, id).await?;
        return output.line(format!("{new_id} would start as {id} did"));
    }
    if instance::look(client, new_id).await?.is_some() {
        let text = format!("{new_id} exists; nothing was sent");
        return Err(Failure::Exists(text));
    }
    client.restart_as(id, new_id).await?;
    let text = format!("{new_id} will start as {id} did");
    answer(
        output,
        &text,
        &json!({ "instance_id": new_id, "sent": true }),
    )
}

/// Restarts all that a filter admits. Called again, it leaves those alone that have been restarted with this suffix.
async fn restart_many(client: &Client, output: &Output, args: RestartArgs) -> Result<(), Failure> {
    let Some(suffix) = args.suffix else {
        let why = "a restart by filter needs --suffix, which is appended to each id";
        return Err(Failure::Usage(why.to_owned()));
    };
    let verb = (Verb::Restart { suffix }, "restart");
    let reached = many::run(client, output, (&args.filter, args.consent), verb).await?;
    if output.json {
        let refused = reached.refused_as_json();
        let (ids, done) = (&reached.ids, reached.done);
        let answer =
            json!({ "verb": "restart", "instances": ids, "refused": refused, "done": done });
        output.document(&answer)?;
    } else {
        let count = reached.ids.len() as u64;
        let (instances, were) = (count_of(count, "instance"), were(count));
        output.line(if reached.done {
            format!("{instances} {were} restarted")
        } else {
            format!("{instances} would be restarted")
        })?;
    }
    reached.or_refusals(output, "restarted")
}

pub(crate) async fn signal(
    client: &Client,
    output: &Output,
    args: SignalArgs,
) -> Result<(), Failure> {
    let data = payload(args.data)?;
    let (id, name) = (&args.id, &args.name);
    still_takes(client, id).await?;
    if args.if_awaited {
        if !client.raise_event_if_awaited(id, name, data).await? {
            let text = format!("{id} does not wait for signal {name}; nothing was sent");
            return Err(Failure::NotFound(text));
        }
    } else {
        client.raise_event(id, name, data).await?;
    }
    let text = format!("signal {name} was sent to {id}");
    answer(output, &text, &json!({ "instance_id": id, "sent": true }))
}

pub(crate) async fn enqueue(
    client: &Client,
    output: &Output,
    args: EnqueueArgs,
) -> Result<(), Failure> {
    let data = payload(args.data)?;
    let (id, queue) = (&args.id, &args.queue);
    still_takes(client, id).await?;
    client.enqueue_event(id, queue, data).await?;
    let text = format!("a message was put on queue {queue} of {id}");
    answer(output, &text, &json!({ "instance_id": id, "sent": true }))
}

/// The instance is there and has not ended: what is sent to one that has is dropped in silence.
async fn still_takes(client: &Client, id: &str) -> Result<(), Failure> {
    if instance::find(client, id).await?.has_ended() {
        return Err(Failure::Ended(format!("{id} has ended; nothing was sent")));
    }
    Ok(())
}

/// The payload itself, or what standard input has.
fn payload(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    std::io::stdin().read_to_string(&mut read)?;
    Ok(read)
}

fn answer(output: &Output, text: &str, value: &serde_json::Value) -> Result<(), Failure> {
    if output.json {
        output.document(value)
    } else {
        output.line(text)
    }
}
