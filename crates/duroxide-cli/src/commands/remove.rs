//! What takes something away for good: prune and delete. Both say what they would do first.

use duroxide_core::provider::{
    DeleteInstanceResult, InstanceFilter, InstanceQuery, InstanceSummary, PruneOptions, PruneResult,
};
use duroxide_runtime::client::Client;
use serde_json::json;

use super::list;
use crate::args::{DeleteArgs, PruneArgs};
use crate::failure::Failure;
use crate::filter::{self, Pages};
use crate::output::{Output, count_of, were};

/// How many instances one call of the store prunes.
const STEP: usize = 500;
/// How many roots one call of the store deletes.
const DELETE_STEP: usize = 32;

pub(crate) async fn prune(
    client: &Client,
    output: &Output,
    args: PruneArgs,
) -> Result<(), Failure> {
    let before = args.before.as_deref().map(filter::time_ms).transpose()?;
    let options = PruneOptions {
        keep_last: Some(args.keep),
        completed_before: before,
    };
    let ids = match &args.id {
        Some(id) => {
            client.get_instance_info(id).await?;
            vec![id.clone()]
        }
        None => {
            let mut several = Vec::new();
            let mut pages = Pages::of(client, InstanceQuery::new());
            while let Some(page) = pages.next().await? {
                // The first execution is never pruned while it is the only one.
                let found = page.into_iter().filter(|one| one.execution_id > 1);
                several.extend(found.map(|one| one.instance_id));
            }
            several
        }
    };
    if !args.consent.yes {
        let executions = prunable(client, &ids, &options).await?;
        let text = format!(
            "{} of {} would be deleted",
            count_of(executions as u64, "execution"),
            count_of(ids.len() as u64, "instance")
        );
        return match (args.consent.dry_run, output.json) {
            (false, _) => Err(Failure::NeedsYes(text)),
            (true, true) => {
                output.document(&json!({ "executions_deleted": executions, "dry_run": true }))
            }
            (true, false) => output.line(text),
        };
    }
    let mut total = PruneResult::default();
    let bar = output.progress(ids.len(), "prune");
    for part in ids.chunks(STEP) {
        let some = InstanceFilter {
            instance_ids: Some(part.to_vec()),
            limit: Some(u32::MAX),
            ..InstanceFilter::default()
        };
        let pruned = client.prune_executions_bulk(some, options.clone()).await?;
        total.executions_deleted += pruned.executions_deleted;
        total.events_deleted += pruned.events_deleted;
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    let (executions, events) = (total.executions_deleted, total.events_deleted);
    if output.json {
        output.document(&json!({ "executions_deleted": executions, "events_deleted": events }))
    } else {
        output.line(format!(
            "{} with {} {} deleted",
            count_of(executions, "execution"),
            count_of(events, "event"),
            were(executions)
        ))
    }
}

/// How many executions the options would take.
async fn prunable(
    client: &Client,
    ids: &[String],
    options: &PruneOptions,
) -> Result<usize, Failure> {
    let keep = options.keep_last.unwrap_or(1).max(1) as usize;
    let mut count = 0;
    for id in ids {
        let executions = client.list_executions(id).await?;
        let old = executions.len().saturating_sub(keep);
        let Some(before) = options.completed_before else {
            count += old;
            continue;
        };
        for execution in &executions[..old] {
            let info = client.get_execution_info(id, *execution).await?;
            count += usize::from(info.completed_at.is_some_and(|at| at < before));
        }
    }
    Ok(count)
}

pub(crate) async fn delete(
    client: &Client,
    output: &Output,
    args: DeleteArgs,
) -> Result<(), Failure> {
    let named = args.filter.or_one(args.id.as_deref())?;
    let roots = match named {
        Some(id) => vec![filter::one(client, id).await?],
        None => finished_roots(client, &args).await?,
    };
    let count = roots.len();
    if !args.consent.yes {
        let instances = count_of(count as u64, "instance");
        let text = format!("{instances} would be deleted, with all children");
        if args.consent.dry_run {
            if output.json {
                let ids: Vec<_> = roots.iter().map(|one| &one.instance_id).collect();
                return output.document(&json!({ "instances": ids, "dry_run": true }));
            }
            if count > 0 {
                output.table(list::table(&roots))?;
            }
            return output.line(text);
        }
        return Err(Failure::NeedsYes(text));
    }
    let total = match named {
        Some(id) => client.delete_instance(id, args.force).await?,
        None => delete_all(client, output, &roots).await?,
    };
    report(output, &total)
}

/// Deletes finished roots, a few in each transaction. One that was deleted and started again since the list was taken
/// stays: the store deletes only what ended when the list says, or before.
async fn delete_all(
    client: &Client,
    output: &Output,
    roots: &[InstanceSummary],
) -> Result<DeleteInstanceResult, Failure> {
    let mut total = DeleteInstanceResult::default();
    let mut left = 0_usize;
    let bar = output.progress(roots.len(), "delete");
    for part in roots.chunks(DELETE_STEP) {
        let ids: Vec<_> = part.iter().map(|one| one.instance_id.clone()).collect();
        let last_end = part.iter().filter_map(|one| one.ended_at_ms).max();
        let these = InstanceFilter {
            instance_ids: Some(ids.clone()),
            completed_before: last_end.map(|at| at.saturating_add(1)),
            limit: Some(u32::MAX),
        };
        let deleted = client.delete_instance_bulk(these).await?;
        if deleted.instances_deleted < part.len() as u64 {
            for id in &ids {
                left += usize::from(client.get_instance_info(id).await.is_ok());
            }
        }
        add(&mut total, &deleted);
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    if left > 0 {
        output.note(format!(
            "{left} were left: a child of them runs, or they were started again"
        ));
    }
    Ok(total)
}

/// Roots that ended and that the filter admits.
async fn finished_roots(
    client: &Client,
    args: &DeleteArgs,
) -> Result<Vec<InstanceSummary>, Failure> {
    if !args.filter.narrows() {
        return Err(Failure::Usage("give an instance or a filter".to_owned()));
    }
    let mut query = args.filter.query()?;
    query.roots_only = true;
    let mut found = filter::all(client, query).await?;
    found.retain(|one| one.status.is_ended());
    Ok(found)
}

fn add(total: &mut DeleteInstanceResult, deleted: &DeleteInstanceResult) {
    total.instances_deleted += deleted.instances_deleted;
    total.executions_deleted += deleted.executions_deleted;
    total.events_deleted += deleted.events_deleted;
    total.queue_messages_deleted += deleted.queue_messages_deleted;
}

fn report(output: &Output, total: &DeleteInstanceResult) -> Result<(), Failure> {
    let (instances, events) = (total.instances_deleted, total.events_deleted);
    if output.json {
        output.document(&json!({
            "instances_deleted": instances,
            "executions_deleted": total.executions_deleted,
            "events_deleted": events,
            "queue_messages_deleted": total.queue_messages_deleted,
        }))
    } else {
        output.line(format!(
            "{} with {} {} deleted",
            count_of(instances, "instance"),
            count_of(events, "event"),
            were(instances)
        ))
    }
}
