//! Messages that could not be delivered.

use duroxide_core::provider::DeadLetter;
use duroxide_runtime::client::{Client, ClientError, Verb};
use serde_json::json;

use crate::args::{Consent, DeadLettersCommand, LettersArgs};
use crate::failure::Failure;
use crate::output::{Output, Rows, ago, count_of, shorten, time, were};

/// How much of a reason or payload a list shows.
const WIDTH: usize = 60;

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    command: DeadLettersCommand,
) -> Result<(), Failure> {
    match command {
        DeadLettersCommand::List { limit } => list(client, output, limit).await,
        DeadLettersCommand::Show { id } => show(client, output, id).await,
        DeadLettersCommand::Requeue(args) => match named(&args)? {
            Some(ids) => requeue(client, output, ids, args.consent).await,
            None => many(client, output, &args, Verb::RequeueDeadLetters).await,
        },
        DeadLettersCommand::Delete(args) => match named(&args)? {
            Some(ids) => delete(client, output, ids, args.consent).await,
            None => many(client, output, &args, Verb::DeleteDeadLetters).await,
        },
    }
}

async fn list(client: &Client, output: &Output, limit: u32) -> Result<(), Failure> {
    let letters = client.list_dead_letters(limit).await?;
    if output.json {
        let letters: Vec<_> = letters.iter().map(as_json).collect();
        return output.document(&letters);
    }
    if letters.is_empty() {
        output.note("there are no dead letters");
        return Ok(());
    }
    let mut rows = Rows::new(&["NUMBER", "QUEUE", "INSTANCE", "AGE", "REASON"]);
    for letter in letters {
        rows.push([
            letter.id.to_string(),
            letter.queue,
            letter.instance_id.unwrap_or_default(),
            ago(letter.dead_lettered_at_ms),
            shorten(&letter.reason, WIDTH),
        ]);
    }
    output.table(rows)
}

async fn show(client: &Client, output: &Output, id: u64) -> Result<(), Failure> {
    let letter = find(client, id).await?;
    if output.json {
        return output.document(&as_json(&letter));
    }
    let instance = letter.instance_id.as_deref().unwrap_or("not known");
    output.line(format!("number    {}", letter.id))?;
    output.line(format!("queue     {}", letter.queue))?;
    output.line(format!("instance  {instance}"))?;
    output.line(format!("since     {}", time(letter.dead_lettered_at_ms)))?;
    output.line(format!("reason    {}", letter.reason))?;
    output.line(format!("message   {}", letter.payload))
}

/// The numbers that were given; `None` if the filter says which letters are meant.
fn named(args: &LettersArgs) -> Result<Option<&[u64]>, Failure> {
    if args.ids.is_empty() {
        return Ok(None);
    }
    if !args.filter.is_empty() {
        let why = "give numbers or a filter, not both";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(Some(&args.ids))
}

/// The dead letters that name instances which a filter admits.
async fn many(
    client: &Client,
    output: &Output,
    args: &LettersArgs,
    verb: Verb,
) -> Result<(), Failure> {
    let (word, done_to, to_do) = match verb {
        Verb::RequeueDeadLetters => ("requeue", "put back into their queues", "requeued"),
        _ => ("delete", "deleted", "deleted"),
    };
    let chosen = (&args.filter, args.consent);
    let reached = super::many::run(client, output, chosen, (verb, word)).await?;
    if output.json {
        let refused = reached.refused_as_json();
        let (count, done, ids) = (reached.count, reached.done, &reached.ids);
        output.document(
            &json!({ to_do: count, "instances": ids, "refused": refused, "done": done }),
        )?;
    } else {
        let (count, of) = (
            reached.count,
            count_of(reached.ids.len() as u64, "instance"),
        );
        let letters = count_of(count, "dead letter");
        output.line(if reached.done {
            format!("{letters} of {of} {} {done_to}", were(count))
        } else {
            format!("{letters} of {of} would be {done_to}")
        })?;
    }
    reached.or_refusals(output, "done with")
}

async fn requeue(
    client: &Client,
    output: &Output,
    ids: &[u64],
    consent: Consent,
) -> Result<(), Failure> {
    for id in ids {
        find(client, *id).await?;
    }
    if consent.dry_run {
        let count = ids.len();
        return if output.json {
            output.document(&json!({ "requeued": 0, "refused": [], "dry_run": true }))
        } else {
            output.line(format!("{count} dead letters would be put back"))
        };
    }
    let mut requeued = 0;
    let mut refused = Vec::new();
    for id in ids {
        match client.requeue_dead_letter(*id).await {
            Ok(was_there) => requeued += usize::from(was_there),
            Err(ClientError::InvalidInput { message }) => refused.push(message),
            Err(error) => return Err(error.into()),
        }
    }
    if output.json {
        output.document(&json!({ "requeued": requeued, "refused": refused }))?
    } else {
        output.line(format!("{requeued} dead letters are in their queues again"))?
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::Store(refused.join("; ")))
    }
}

async fn delete(
    client: &Client,
    output: &Output,
    ids: &[u64],
    consent: Consent,
) -> Result<(), Failure> {
    for id in ids {
        find(client, *id).await?;
    }
    if !consent.yes && !consent.dry_run {
        return Err(Failure::NeedsYes(format!(
            "{} dead letters would be deleted",
            ids.len()
        )));
    }
    let mut deleted = 0;
    if consent.yes {
        for id in ids {
            deleted += usize::from(client.delete_dead_letter(*id).await?);
        }
    }
    match (output.json, consent.dry_run) {
        (true, dry_run) => output.document(&json!({ "deleted": deleted, "dry_run": dry_run })),
        (false, true) => output.line(format!("{} dead letters would be deleted", ids.len())),
        (false, false) => output.line(format!("{deleted} dead letters were deleted")),
    }
}

async fn find(client: &Client, id: u64) -> Result<DeadLetter, Failure> {
    let found = client.get_dead_letter(id).await?;
    found.ok_or_else(|| Failure::NotFound(format!("there is no dead letter {id}")))
}

fn as_json(letter: &DeadLetter) -> serde_json::Value {
    json!({
        "id": letter.id,
        "queue": letter.queue,
        "instance_id": letter.instance_id,
        "reason": letter.reason,
        "dead_lettered_at_ms": letter.dead_lettered_at_ms,
        "payload": letter.payload,
    })
}
