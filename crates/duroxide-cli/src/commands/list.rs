//! Lists and counts.

use duroxide_core::provider::{
    CountBy, HandlerKind, InstanceCount, InstanceQuery, InstanceSummary, PageCursor, ReadyWork,
    SortKey, SortOrder,
};
use duroxide_runtime::client::Client;

use crate::args::{CountArgs, GroupBy, ListArgs, SortBy};
use crate::failure::Failure;
use crate::output::{Output, Rows, age_ms, ago, shorten};

/// How much of a custom status a list shows.
const STATUS_WIDTH: usize = 40;
/// How much of the labels.
const LABELS_WIDTH: usize = 40;
/// How many handlers are looked through for what no node has taken.
const HANDLERS_MAX: u32 = 1_000;
/// For so long it is no news that nodes have not taken something.
const NEW_MS: u64 = 1_000;

pub(crate) async fn list(client: &Client, output: &Output, args: ListArgs) -> Result<(), Failure> {
    let query = query(&args)?;
    let most = if args.all {
        usize::MAX
    } else {
        args.limit as usize
    };
    let (items, next) = up_to(client, query, most).await?;
    let not_taken = match not_taken(client, &args).await {
        Ok(ready) => ready,
        // The list itself has been read, and stands without this.
        Err(error) => {
            output.note(format!("what is ready for a node cannot be told: {error}"));
            None
        }
    };
    if output.json {
        let items: Vec<_> = items.iter().map(as_json).collect();
        let not_taken: Option<Vec<_>> =
            not_taken.map(|ready| ready.iter().map(super::stats::ready_as_json).collect());
        return output.document(
            &serde_json::json!({ "items": items, "next": next, "not_taken": not_taken }),
        );
    }
    if items.is_empty() {
        output.note("no instance matches");
    } else {
        output.table(table(&items))?;
    }
    if let Some(next) = next {
        output.note(format!("there are more: --after {next}"));
    }
    if let Some(line) = not_taken_in_words(&not_taken.unwrap_or_default()) {
        output.note(line);
    }
    Ok(())
}

/// What is ready for a node to take a turn of, by handler. A start becomes an instance with its first turn, so whoever
/// misses one in a list finds it here. `None` if the store cannot tell, and for a later page or a filter that starts
/// cannot be held against: they have a name, and no status, labels or times yet.
async fn not_taken(client: &Client, args: &ListArgs) -> Result<Option<Vec<ReadyWork>>, Failure> {
    let mut rest = args.filter.query()?;
    let name = rest.name.take();
    if rest != InstanceQuery::new() || args.after.is_some() {
        return Ok(None);
    }
    let ready = client.list_ready_work(HANDLERS_MAX).await?;
    let is_meant = |work: &ReadyWork| {
        work.kind == HandlerKind::Orchestration && name.as_ref().is_none_or(|it| *it == work.name)
    };
    Ok(ready.map(|ready| ready.into_iter().filter(is_meant).collect()))
}

/// Nothing if all of it is so new that nodes may be about to take it.
fn not_taken_in_words(ready: &[ReadyWork]) -> Option<String> {
    let oldest = ready.iter().map(|work| work.ready_since_ms).min()?;
    let age = ago(oldest);
    let what = match ready.iter().map(|work| work.count).sum::<u64>() {
        _ if age_ms(oldest) < NEW_MS => return None,
        1 => format!("1 start or turn has been ready for {age}, and no node has taken it"),
        n => format!(
            "{n} starts or turns are ready, the oldest for {age}, and no node has taken them"
        ),
    };
    Some(format!(
        "{what}: `duroxide stats` shows the code; a start is listed once it has begun"
    ))
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
