//! Cancel and terminate, one instance or all that a filter admits.

use duroxide_core::provider::{InstanceStatus, InstanceSummary};
use duroxide_runtime::client::Client;
use serde_json::json;

use super::list;
use crate::args::SteerArgs;
use crate::failure::Failure;
use crate::filter;
use crate::output::Output;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Terminate,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Terminate => "terminate",
        }
    }
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    verb: Verb,
    args: SteerArgs,
) -> Result<(), Failure> {
    let by_filter = args.id.is_none();
    let ids = match &args.id {
        Some(id) => {
            if !args.filter.is_empty() {
                return Err(Failure::Usage(
                    "give an instance or a filter, not both".to_owned(),
                ));
            }
            vec![id.clone()]
        }
        None => {
            let chosen = chosen(client, &args).await?;
            if args.consent.dry_run && !output.json && !chosen.is_empty() {
                output.table(list::table(&chosen))?;
            }
            chosen.into_iter().map(|one| one.instance_id).collect()
        }
    };
    let word = verb.word();
    let needs_yes = verb == Verb::Terminate || by_filter;
    if args.consent.dry_run {
        return answer(output, word, &ids, false);
    }
    if needs_yes && !args.consent.yes {
        return Err(Failure::NeedsYes(format!(
            "{word} would reach {} instances",
            ids.len()
        )));
    }
    let bar = output.progress(ids.len(), word);
    for id in &ids {
        let reason = args.reason.as_str();
        match verb {
            Verb::Cancel => client.cancel_instance(id, reason).await?,
            Verb::Terminate => client.terminate_instance(id, reason).await?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    answer(output, word, &ids, true)
}

/// Instances that the filter admits and that have not ended. A filter that names nothing would mean everything: refused.
async fn chosen(client: &Client, args: &SteerArgs) -> Result<Vec<InstanceSummary>, Failure> {
    if args.filter.is_empty() {
        return Err(Failure::Usage("give an instance or a filter".to_owned()));
    }
    let mut query = args.filter.query()?;
    if query.statuses.is_empty() {
        query.statuses = vec![InstanceStatus::Running, InstanceStatus::ContinuedAsNew];
    }
    let mut found = filter::all(client, query).await?;
    found.retain(|one| !one.status.is_ended());
    Ok(found)
}

fn answer(output: &Output, word: &str, ids: &[String], done: bool) -> Result<(), Failure> {
    if output.json {
        return output.document(&json!({ "verb": word, "instances": ids, "done": done }));
    }
    let count = ids.len();
    output.line(match (ids, done) {
        ([one], true) => format!("{one} was asked to {word}"),
        ([one], false) => format!("{one} would be asked to {word}"),
        (_, true) => format!("{count} instances were asked to {word}"),
        (_, false) => format!("{count} instances would be asked to {word}"),
    })
}
