//! What takes something away for good: prune and delete. Both say what they would do first.

use duroxide_core::provider::{
    DeleteInstanceResult, InstanceFilter, InstanceQuery, InstanceSummary, PruneOptions, PruneResult,
};
use duroxide_runtime::client::{Client, ClientError};
use serde_json::json;

use super::list;
use crate::args::{DeleteArgs, PruneArgs};
use crate::failure::Failure;
use crate::filter;
use crate::output::Output;

/// How many instances one call of the store prunes.
const STEP: usize = 500;

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
            let all = filter::all(client, InstanceQuery::new()).await?;
            // The first execution is never pruned while it is the only one.
            let several = all.into_iter().filter(|one| one.execution_id > 1);
            several.map(|one| one.instance_id).collect()
        }
    };
    if !args.consent.yes {
        let executions = prunable(client, &ids, &options).await?;
        let text = format!(
            "{executions} executions of {} instances would be deleted",
            ids.len()
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
    match output.json {
        true => {
            output.document(&json!({ "executions_deleted": executions, "events_deleted": events }))
        }
        false => output.line(format!(
            "{executions} executions with {events} events were deleted"
        )),
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
    let roots = match &args.id {
        Some(id) => {
            let one = filter::all(client, InstanceQuery::new().with_root(id)).await?;
            let Some(root) = one.into_iter().find(|one| one.instance_id == *id) else {
                return Err(Failure::NotFound(format!("Instance {id} not found")));
            };
            vec![root]
        }
        None => finished_roots(client, &args).await?,
    };
    let count = roots.len();
    if !args.consent.yes {
        let text = format!("{count} instances would be deleted with their children");
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
    let mut total = DeleteInstanceResult::default();
    let mut running = 0;
    let bar = output.progress(count, "delete");
    for root in &roots {
        match client.delete_instance(&root.instance_id, args.force).await {
            Ok(deleted) => add(&mut total, &deleted),
            // A child of it may run, or somebody was faster; one that was named must be told.
            Err(ClientError::InstanceStillRunning { .. }) if args.id.is_none() => running += 1,
            Err(ClientError::InstanceNotFound { .. }) if args.id.is_none() => {}
            Err(error) => return Err(error.into()),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if running > 0 {
        output.note(format!("{running} were left because a child of them runs"));
    }
    report(output, &total)
}

/// Roots that ended and that the filter admits.
async fn finished_roots(
    client: &Client,
    args: &DeleteArgs,
) -> Result<Vec<InstanceSummary>, Failure> {
    if args.filter.is_empty() {
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
    match output.json {
        true => output.document(&json!({
            "instances_deleted": instances,
            "executions_deleted": total.executions_deleted,
            "events_deleted": events,
            "queue_messages_deleted": total.queue_messages_deleted,
        })),
        false => output.line(format!(
            "{instances} instances with {events} events were deleted"
        )),
    }
}
