//! Which instances a command is about. In: options. Out: an [`InstanceQuery`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use duroxide_core::provider::{
    InstanceQuery, InstanceStatus, InstanceSummary, SortKey, SortOrder, TimeRange, WaitingFor,
};
use duroxide_core::{WaitKind, check_label};
use duroxide_runtime::client::Client;

use crate::failure::Failure;

/// How many instances are read at once.
const PAGE: u32 = 1_000;

/// Times are points (2026-11-17T08:00:00Z) or spans (90m, 2h, 30d), which count back from now.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// running, completed, failed or continuedasnew; may be given several times
    #[arg(long)]
    pub(crate) status: Vec<InstanceStatus>,
    /// The orchestration's name
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// The orchestration's version
    #[arg(long = "of-version", value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) of_version: Option<String>,
    /// Ids that begin with this
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) prefix: Option<String>,
    /// Children of this instance
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) parent: Option<String>,
    /// This instance and all its descendants
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) root: Option<String>,
    /// Instances without a parent
    #[arg(long)]
    pub(crate) roots: bool,
    /// Instances that a dead letter names
    #[arg(long)]
    pub(crate) with_dead_letters: bool,
    /// Instances that are paused
    #[arg(long)]
    pub(crate) paused: bool,
    /// Instances that a node cannot go on with: code that does not fit, or a store that refuses; `why` shows the report
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Running instances that wait for a signal, queue, activity or child of this name; their histories are read
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) waiting_for: Option<String>,
    /// Running instances that wait for this kind of thing; with --waiting-for, of that name
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) waiting_kind: Option<WaitingKind>,
    /// Instances with this label, as in customer=acme; of several, all
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// Created at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) created_since: Option<String>,
    /// Created before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) created_before: Option<String>,
    /// Last turn at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) updated_since: Option<String>,
    /// Last turn before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) updated_before: Option<String>,
    /// Ended at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) ended_since: Option<String>,
    /// Ended before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) ended_before: Option<String>,
}

/// What instances wait for, as a person types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitingKind {
    Activity,
    Timer,
    Signal,
    Queue,
    Child,
}

impl WaitingKind {
    fn stored(self) -> WaitKind {
        match self {
            Self::Activity => WaitKind::Activity,
            Self::Timer => WaitKind::Timer,
            Self::Signal => WaitKind::Signal,
            Self::Queue => WaitKind::QueueMessage,
            Self::Child => WaitKind::Child,
        }
    }
}

/// A label as a person types it.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is KEY=VALUE")?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

impl FilterArgs {
    /// Whether nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.query()
            .is_ok_and(|query| query == InstanceQuery::new())
    }

    /// Whether the filter leaves something out. `--roots` alone does not say which instances are meant.
    pub(crate) fn narrows(&self) -> bool {
        self.query().is_ok_and(|mut query| {
            query.roots_only = false;
            query.id_prefix.take_if(|prefix| prefix.is_empty());
            query != InstanceQuery::new()
        })
    }

    /// The one instance that was named, or nothing if the filter says which are meant. Both together are refused: one
    /// of the two would be ignored.
    pub(crate) fn or_one<'a>(&self, id: Option<&'a str>) -> Result<Option<&'a str>, Failure> {
        match id {
            Some(_) if !self.is_empty() => Err(Failure::Usage(
                "give an instance or a filter, not both".to_owned(),
            )),
            id => Ok(id),
        }
    }

    fn waiting_for(&self) -> Option<WaitingFor> {
        if self.waiting_for.is_none() && self.waiting_kind.is_none() {
            return None;
        }
        let mut waiting = WaitingFor::default();
        waiting.name.clone_from(&self.waiting_for);
        waiting.kind = self.waiting_kind.map(WaitingKind::stored);
        Some(waiting)
    }

    pub(crate) fn query(&self) -> Result<InstanceQuery, Failure> {
        let range = |from: &Option<String>, until: &Option<String>| {
            let read = |text: &Option<String>| text.as_deref().map(time_ms).transpose();
            Ok::<_, Failure>(TimeRange {
                from_ms: read(from)?,
                until_ms: read(until)?,
            })
        };
        let mut query = InstanceQuery::new();
        query.statuses.clone_from(&self.status);
        query.name.clone_from(&self.name);
        query.version.clone_from(&self.of_version);
        query.id_prefix.clone_from(&self.prefix);
        query.parent.clone_from(&self.parent);
        query.root.clone_from(&self.root);
        query.roots_only = self.roots;
        query.has_dead_letters = self.with_dead_letters;
        query.labels = self.label.iter().cloned().collect();
        query.paused = self.paused.then_some(true);
        query.blocked = self.blocked.then_some(true);
        query.waiting_for = self.waiting_for();
        query.created = range(&self.created_since, &self.created_before)?;
        query.updated = range(&self.updated_since, &self.updated_before)?;
        query.ended = range(&self.ended_since, &self.ended_before)?;
        Ok(query)
    }
}

/// The instances that a query admits, a page at a time, so that a large store need not fit into memory.
pub(crate) struct Pages<'a> {
    client: &'a Client,
    /// The query of the next page; `None` after the last one.
    next: Option<InstanceQuery>,
}

impl<'a> Pages<'a> {
    pub(crate) fn of(client: &'a Client, query: InstanceQuery) -> Self {
        let next = Some(query.with_page_size(PAGE));
        Self { client, next }
    }

    /// The next page; `None` after the last one. After an error there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<InstanceSummary>>, Failure> {
        let Some(query) = self.next.take() else {
            return Ok(None);
        };
        let page = self.client.query_instances(&query).await?;
        self.next = page.next.map(|next| query.after(next));
        Ok(Some(page.items))
    }
}

/// One instance, as a list shows it.
pub(crate) async fn one(client: &Client, id: &str) -> Result<InstanceSummary, Failure> {
    // Among its descendants whose ids begin with its own, an instance is the oldest and has the shortest id.
    let query = InstanceQuery::new().with_root(id).with_id_prefix(id);
    let query = query.sorted(SortKey::Created, SortOrder::OldestFirst);
    let page = client.query_instances(&query.with_page_size(1)).await?;
    let found = page.items.into_iter().find(|one| one.instance_id == id);
    found.ok_or_else(|| Failure::NotFound(format!("Instance {id} not found")))
}

/// Every instance that a query admits.
pub(crate) async fn all(
    client: &Client,
    query: InstanceQuery,
) -> Result<Vec<InstanceSummary>, Failure> {
    let mut pages = Pages::of(client, query);
    let mut found = Vec::new();
    while let Some(page) = pages.next().await? {
        found.extend(page);
    }
    Ok(found)
}

/// A point in time, or a span that counts back from now, in milliseconds since the Unix epoch.
pub(crate) fn time_ms(text: &str) -> Result<u64, Failure> {
    if let Ok(span) = humantime::parse_duration(text) {
        let at = SystemTime::now().checked_sub(span).unwrap_or(UNIX_EPOCH);
        return Ok(since_epoch(at));
    }
    match humantime::parse_rfc3339_weak(text) {
        Ok(at) => Ok(since_epoch(at)),
        Err(_) => Err(Failure::Usage(format!(
            "`{text}` is neither a time like 2026-11-17T08:00:00Z nor a span like 2h"
        ))),
    }
}

fn since_epoch(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_leaves_nothing_out_does_not_narrow() {
        let with = |set: fn(&mut FilterArgs)| {
            let mut filter = FilterArgs::default();
            set(&mut filter);
            filter.narrows()
        };
        assert!(!with(|_| {}));
        assert!(!with(|filter| filter.prefix = Some(String::new())));
        assert!(!with(|filter| filter.roots = true));
        assert!(with(|filter| filter.prefix = Some("a".to_owned())));
        assert!(with(|filter| filter.status = vec![InstanceStatus::Failed]));
    }

    #[test]
    fn a_time_is_a_point_or_a_span() {
        assert_eq!(time_ms("1970-01-01T00:00:01Z").expect("a point"), 1_000);
        assert!(time_ms("2h").expect("a span") < since_epoch(SystemTime::now()));
        assert!(time_ms("soon").is_err());
    }
}
