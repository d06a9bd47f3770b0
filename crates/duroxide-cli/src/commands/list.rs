//! Lists and counts.

use duroxide_core::provider::{
    CountBy, InstanceCount, InstanceQuery, InstanceStatus, InstanceSummary, PageCursor, ReadyWork,
    SortKey, SortOrder,
};
use duroxide_runtime::client::Client;

use crate::args::{CountArgs, GroupBy, ListArgs, SortBy};
use crate::failure::Failure;
use crate::filter::{self, Pages};
use crate::output::{Output, Rows, ago, shorten};

/// How much of a custom status a list shows.
const STATUS_WIDTH: usize = 40;
/// How much of the labels.
const LABELS_WIDTH: usize = 40;

pub(crate) async fn list(client: &Client, output: &Output, args: ListArgs) -> Result<(), Failure> {
    let query = query(&args)?;
    let most = if args.all {
        usize::MAX
    } else {
        args.limit as usize
    };
    let (items, next) = if args.blocked {
        (blocked(client, output, &query, most).await?, None)
    } else if let Some(name) = &args.waiting_for {
        (waiting_for(client, output, query, name, most).await?, None)
    } else {
        up_to(client, query, most).await?
    };
    if output.json {
        let items: Vec<_> = items.iter().map(as_json).collect();
        return output.document(&serde_json::json!({ "items": items, "next": next }));
    }
    if items.is_empty() {
        output.note("no instance matches");
        let is_ready = |ready: Vec<ReadyWork>| !ready.is_empty();
        let is_plain = args.filter.is_empty() && !args.blocked && args.waiting_for.is_none();
        if is_plain && client.list_ready_work(1).await?.is_some_and(is_ready) {
            // A start becomes an instance with its first turn.
            output.note("work is ready that no node has taken: `duroxide stats` shows it");
        }
        return Ok(());
    }
    output.table(table(&items))?;
    if let Some(next) = next {
        output.note(format!("there are more: --after {next}"));
    }
    Ok(())
}

/// So many of the instances that a query admits, and where the rest begins. The store answers in pages of its own.
async fn up_to(
    client: &Client,
    mut query: InstanceQuery,
    most: usize,
) -> Result<(Vec<InstanceSummary>, Option<PageCursor>), Failure> {
    let mut found = Vec::new();
    loop {
        let left = most.saturating_sub(found.len());
        query = query.with_page_size(u32::try_from(left).unwrap_or(u32::MAX));
        let page = client.query_instances(&query).await?;
        found.extend(page.items);
        match page.next {
            Some(next) if found.len() < most => query = query.after(next),
            next => return Ok((found, next)),
        }
    }
}

/// The blocked instances that a query admits.
async fn blocked(
    client: &Client,
    output: &Output,
    query: &InstanceQuery,
    most: usize,
) -> Result<Vec<InstanceSummary>, Failure> {
    let prefix = query.id_prefix.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for one in client.blocked_instances().await? {
        if !one.instance_id.starts_with(prefix) {
            continue;
        }
        let mut query = query.clone();
        query.id_prefix = Some(one.instance_id.clone());
        let named = filter::all(client, query).await?;
        let is_it = |it: &InstanceSummary| it.instance_id == one.instance_id;
        let Some(one) = named.into_iter().find(is_it) else {
            continue;
        };
        if found.len() == most {
            return Ok(cut(output, found));
        }
        found.push(one);
    }
    Ok(found)
}

/// What was found, when there is more that no cursor leads to.
fn cut(output: &Output, found: Vec<InstanceSummary>) -> Vec<InstanceSummary> {
    let most = found.len();
    output.note(format!(
        "there are more than {most}: --limit or --all shows them"
    ));
    found
}

/// The running instances that a query admits and that wait for something of this name. No index knows that: their
/// histories are read.
async fn waiting_for(
    client: &Client,
    output: &Output,
    mut query: InstanceQuery,
    name: &str,
    most: usize,
) -> Result<Vec<InstanceSummary>, Failure> {
    query.statuses = vec![InstanceStatus::Running];
    let mut pages = Pages::of(client, query);
    let mut found = Vec::new();
    while let Some(page) = pages.next().await? {
        for one in page {
            let waits = client.waits(&one.instance_id).await?;
            if !waits.iter().any(|wait| wait.name() == Some(name)) {
                continue;
            }
            if found.len() == most {
                return Ok(cut(output, found));
            }
            found.push(one);
        }
    }
    Ok(found)
}

pub(crate) fn table(items: &[InstanceSummary]) -> Rows {
    let mut rows = Rows::new(&[
        "ID", "NAME", "VERSION", "STATUS", "RUN", "EVENTS", "CREATED", "UPDATED", "LABELS", "SAYS",
    ]);
    for one in items {
        let says = one.custom_status.as_deref().unwrap_or_default();
        rows.push([
            one.instance_id.clone(),
            one.name.clone(),
            one.version.clone(),
            status(one),
            one.execution_id.to_string(),
            one.event_count.to_string(),
            ago(one.created_at_ms),
            ago(one.updated_at_ms),
            shorten(&labels(one), LABELS_WIDTH),
            shorten(says, STATUS_WIDTH),
        ]);
    }
    rows
}

/// With the memo as a value of its own.
fn as_json(one: &InstanceSummary) -> serde_json::Value {
    let mut value = serde_json::json!(one);
    value["memo"] = super::show::memo(one.memo.as_deref());
    value
}

fn labels(one: &InstanceSummary) -> String {
    let pairs = one.labels.iter();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

/// The status, and whether an operator holds the instance back.
fn status(one: &InstanceSummary) -> String {
    match one.paused_at_ms {
        Some(_) => format!("{}, paused", one.status),
        None => one.status.to_string(),
    }
}

pub(crate) async fn count(
    client: &Client,
    output: &Output,
    args: CountArgs,
) -> Result<(), Failure> {
    if let Some(key) = &args.by_label {
        let query = args.filter.query()?;
        let counts = client.count_instances_by_label(&query, key).await?;
        return counted(output, counts, &["COUNT", "VALUE"]);
    }
    let by = match args.by {
        GroupBy::Nothing => CountBy::Nothing,
        GroupBy::Status => CountBy::Status,
        GroupBy::Name => CountBy::Name,
        GroupBy::Version => CountBy::Version,
    };
    let counts = client.count_instances(&args.filter.query()?, by).await?;
    let heading = match args.by {
        GroupBy::Nothing => "",
        GroupBy::Status => "STATUS",
        GroupBy::Name => "NAME",
        GroupBy::Version => "VERSION",
    };
    counted(output, counts, &["COUNT", heading])
}

fn counted(
    output: &Output,
    counts: Vec<InstanceCount>,
    headings: &[&'static str],
) -> Result<(), Failure> {
    if output.json {
        return output.document(&counts);
    }
    let mut rows = Rows::new(headings);
    for one in counts {
        rows.push([one.count.to_string(), one.key]);
    }
    output.table(rows)
}

fn query(args: &ListArgs) -> Result<InstanceQuery, Failure> {
    let by = match args.sort {
        SortBy::Created => SortKey::Created,
        SortBy::Updated => SortKey::Updated,
    };
    let order = if args.oldest_first {
        SortOrder::OldestFirst
    } else {
        SortOrder::NewestFirst
    };
    let query = args.filter.query()?.sorted(by, order);
    Ok(match &args.after {
        Some(after) => query.after(PageCursor::from_text(after)),
        None => query,
    })
}
