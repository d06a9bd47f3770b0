//! Retry failed instances from the point of failure, one or all that a filter admits. Repeated after it was stopped
//! halfway, it reaches the rest: what runs again has not failed any more, and a request that a node has not taken yet
//! counts once.

use duroxide_runtime::client::{Client, Rewind, RewindPoint, Verb};
use serde_json::{Value, json};

use super::many::{self, Reached};
use crate::args::RetryArgs;
use crate::failure::Failure;
use crate::output::{Output, count_of, were};

pub(crate) async fn run(client: &Client, output: &Output, args: RetryArgs) -> Result<(), Failure> {
    match args.filter.or_one(args.id.as_deref())? {
        Some(id) => one(client, output, id, &args).await,
        None => many(client, output, &args).await,
    }
}

async fn one(client: &Client, output: &Output, id: &str, args: &RetryArgs) -> Result<(), Failure> {
    let point = args
        .from_event
        .map_or(RewindPoint::Failure, RewindPoint::Event);
    let rewind = if args.consent.dry_run {
        client.plan_retry(id, point).await?
    } else {
        client.retry_instance_from(id, point).await?
    };
    let taken = match args.wait {
        Some(limit) if !args.consent.dry_run => {
            client.wait_for_retry(&rewind, limit).await?;
            true
        }
        _ => false,
    };
    if output.json {
        let answer = json!({
            "verb": "retry", "instances": [id], "done": !args.consent.dry_run, "taken": taken,
            "plan": plan(&rewind),
        });
        return output.document(&answer);
    }
    output.line(match (args.consent.dry_run, taken) {
        (true, _) => format!("{id} would be retried from event {}", rewind.from_event_id),
        (false, false) => format!(
            "{id} was asked to retry from event {}; a node will begin execution {}",
            rewind.from_event_id,
            rewind.execution_id()
        ),
        (false, true) => format!(
            "{id} is retried from event {}, in execution {}",
            rewind.from_event_id,
            rewind.execution_id()
        ),
    })?;
    output.line(format!(
        "  {} events are kept, {} are dropped; execution {} stays as it is",
        rewind.kept, rewind.dropped, rewind.failed_execution_id
    ))?;
    if rewind.successes_dropped > 0 {
        let count = rewind.successes_dropped;
        output.note(format!(
            "{count} activities or children that had succeeded are dropped and may run again"
        ));
    }
    if !rewind.started.is_empty() {
        output.note(format!(
            "the dropped part started {}; code that starts the same id again gets the error that it exists",
            rewind.started.join(", ")
        ));
    }
    for line in asked_anew(&rewind) {
        output.line(format!("  {line}"))?;
    }
    note_parent(client, output, id).await
}

/// A parent hears of an end once.
async fn note_parent(client: &Client, output: &Output, id: &str) -> Result<(), Failure> {
    let parent = client.get_instance_info(id).await?.parent_instance_id;
    if let Some(parent) = parent {
        output.note(format!(
            "its parent {parent} received the failure and does not receive it again; to go on with both, retry the parent"
        ));
    }
    Ok(())
}

fn asked_anew(rewind: &Rewind) -> Vec<String> {
    let work = rewind.again.iter().map(|work| match &work.activity {
        Some(name) => format!(
            "activity {name} (event {}) is asked for anew",
            work.event_id
        ),
        None => format!("the timer of event {} is set again", work.event_id),
    });
    let children = rewind.children.iter().map(|child| {
        let (id, event) = (&child.instance, child.event_id);
        format!("child {id} (event {event}) is retried too, if it failed")
    });
    let mut lines: Vec<String> = work.chain(children).collect();
    let count = rewind.arrivals.len() + rewind.signals.len();
    if count > 0 {
        lines.push(format!("{count} results and messages come again"));
    }
    lines
}

fn plan(rewind: &Rewind) -> Value {
    let work = rewind.again.iter();
    let work: Vec<_> = work
        .map(|work| json!({ "event_id": work.event_id, "activity": work.activity }))
        .collect();
    let children = rewind.children.iter();
    let children: Vec<_> = children
        .map(|child| json!({ "event_id": child.event_id, "instance": child.instance }))
        .collect();
    json!({
        "failed_execution_id": rewind.failed_execution_id,
        "execution_id": rewind.execution_id(),
        "from_event_id": rewind.from_event_id,
        "kept": rewind.kept,
        "dropped": rewind.dropped,
        "successes_dropped": rewind.successes_dropped,
        "started": rewind.started,
        "asked_anew": work,
        "children": children,
        "come_again": rewind.arrivals.len() + rewind.signals.len(),
    })
}

async fn many(client: &Client, output: &Output, args: &RetryArgs) -> Result<(), Failure> {
    if args.from_event.is_some() {
        let why = "--from-event is for one instance";
        return Err(Failure::Usage(why.to_owned()));
    }
    let chosen = (&args.filter, args.consent);
    let reached = many::run(client, output, chosen, (Verb::Retry, "retry")).await?;
    answer(output, &reached)?;
    reached.or_refusals(output, "retried")
}

fn answer(output: &Output, reached: &Reached) -> Result<(), Failure> {
    let done = reached.done;
    if output.json {
        let (ids, refused) = (&reached.ids, reached.refused_as_json());
        let answer = json!({ "verb": "retry", "instances": ids, "refused": refused, "done": done });
        return output.document(&answer);
    }
    let count = reached.ids.len() as u64;
    let (instances, were) = (count_of(count, "instance"), were(count));
    output.line(if done {
        format!("{instances} {were} asked to retry")
    } else {
        format!("{instances} would be asked to retry")
    })
}
