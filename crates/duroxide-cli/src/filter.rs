//! Which instances a command is about. In: options. Out: an [`InstanceQuery`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use duroxide_core::provider::{InstanceQuery, InstanceStatus, InstanceSummary, TimeRange};
use duroxide_runtime::client::Client;

use crate::failure::Failure;

/// Times are points (2026-11-17T08:00:00Z) or spans (90m, 2h, 30d), which count back from now.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// running, completed, failed or continuedasnew; may be given several times
    #[arg(long)]
    pub(crate) status: Vec<InstanceStatus>,
    /// The orchestration's name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The orchestration's version
    #[arg(long = "of-version", value_name = "VERSION")]
    pub(crate) of_version: Option<String>,
    /// Ids that begin with this
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Children of this instance
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,
    /// This instance and all its descendants
    #[arg(long, value_name = "ID")]
    pub(crate) root: Option<String>,
    /// Instances without a parent
    #[arg(long)]
    pub(crate) roots: bool,
    /// Instances that a dead letter names
    #[arg(long)]
    pub(crate) with_dead_letters: bool,
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

impl FilterArgs {
    /// Whether nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.query()
            .is_ok_and(|query| query == InstanceQuery::new())
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
        query.created = range(&self.created_since, &self.created_before)?;
        query.updated = range(&self.updated_since, &self.updated_before)?;
        query.ended = range(&self.ended_since, &self.ended_before)?;
        Ok(query)
    }
}

/// Every instance that a query admits, page by page.
pub(crate) async fn all(
    client: &Client,
    mut query: InstanceQuery,
) -> Result<Vec<InstanceSummary>, Failure> {
    let mut found = Vec::new();
    query.limit = Some(1_000);
    loop {
        let page = client.query_instances(&query).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(found),
        }
    }
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
    fn a_time_is_a_point_or_a_span() {
        assert_eq!(time_ms("1970-01-01T00:00:01Z").expect("a point"), 1_000);
        assert!(time_ms("2h").expect("a span") < since_epoch(SystemTime::now()));
        assert!(time_ms("soon").is_err());
    }
}
