//! Lists and counts.

use duroxide_core::provider::{
    CountBy, InstanceQuery, InstanceSummary, PageCursor, SortKey, SortOrder,
};
use duroxide_runtime::client::Client;

use crate::args::{CountArgs, GroupBy, ListArgs, SortBy};
use crate::failure::Failure;
use crate::filter;
use crate::output::{Output, Rows, ago, shorten};

/// How much of a custom status a list shows.
const STATUS_WIDTH: usize = 40;

pub(crate) async fn list(client: &Client, output: &Output, args: ListArgs) -> Result<(), Failure> {
    let query = query(&args)?;
    let (items, next) = if args.all {
        (filter::all(client, query).await?, None)
    } else {
        let page = client.query_instances(&query).await?;
        (page.items, page.next)
    };
    if output.json {
        return output.document(&serde_json::json!({ "items": items, "next": next }));
    }
    if items.is_empty() {
        output.note("no instance matches");
        return Ok(());
    }
    output.table(table(&items))?;
    if let Some(next) = next {
        output.note(format!("there are more: --after {next}"));
    }
    Ok(())
}

pub(crate) fn table(items: &[InstanceSummary]) -> Rows {
    let mut rows = Rows::new(&[
        "ID", "NAME", "VERSION", "STATUS", "RUN", "EVENTS", "CREATED", "UPDATED", "SAYS",
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
            shorten(says, STATUS_WIDTH),
        ]);
    }
    rows
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
    let by = match args.by {
        GroupBy::Nothing => CountBy::Nothing,
        GroupBy::Status => CountBy::Status,
        GroupBy::Name => CountBy::Name,
        GroupBy::Version => CountBy::Version,
    };
    let counts = client.count_instances(&args.filter.query()?, by).await?;
    if output.json {
        return output.document(&counts);
    }
    let mut rows = match args.by {
        GroupBy::Nothing => Rows::new(&["COUNT", ""]),
        GroupBy::Status => Rows::new(&["COUNT", "STATUS"]),
        GroupBy::Name => Rows::new(&["COUNT", "NAME"]),
        GroupBy::Version => Rows::new(&["COUNT", "VERSION"]),
    };
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
    let order = match args.oldest_first {
        true => SortOrder::OldestFirst,
        false => SortOrder::NewestFirst,
    };
    let query = args.filter.query()?.sorted(by, order);
    let query = query.with_page_size(args.limit);
    Ok(match &args.after {
        Some(after) => query.after(PageCursor::from_text(after)),
        None => query,
    })
}
