//! Cancel, terminate, pause and resume, one instance or all that a filter admits.

use duroxide_core::provider::{InstanceStatus, InstanceSummary};
use duroxide_runtime::client::{Client, ClientError};
use serde_json::json;

use super::list;
use crate::args::SteerArgs;
use crate::failure::Failure;
use crate::filter;
use crate::instance;
use crate::output::{Output, count_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Terminate,
    Pause,
    Resume,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Terminate => "terminate",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    verb: Verb,
    args: SteerArgs,
) -> Result<(), Failure> {
    let word = verb.word();
    let named = args.filter.or_one(args.id.as_deref())?;
    let chosen = match named {
        Some(id) => {
            if instance::find(client, id).await?.has_ended() {
                return ended(output, word, id);
            }
            vec![Chosen::named(id)]
        }
        None => {
            let chosen = chosen(client, verb, &args).await?;
            if args.consent.dry_run && !output.json && !chosen.is_empty() {
                output.table(list::table(&chosen))?;
            }
            chosen.into_iter().map(Chosen::of).collect()
        }
    };
    let ids = |of: &[Chosen]| of.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let needs_yes = verb == Verb::Terminate || named.is_none();
    if args.consent.dry_run {
        return answer(output, verb, &ids(&chosen), false);
    }
    if needs_yes && !args.consent.yes {
        return Err(Failure::NeedsYes(format!(
            "{word} would reach {}",
            count_of(chosen.len() as u64, "instance")
        )));
    }
    let bar = output.progress(chosen.len(), word);
    let mut reached = Vec::new();
    for one in chosen {
        if one.is_current(client).await? {
            let reason = args.reason.as_str();
            match verb {
                Verb::Cancel => client.cancel_instance(&one.id, reason).await?,
                Verb::Terminate => client.terminate_instance(&one.id, reason).await?,
                Verb::Pause | Verb::Resume => {
                    let many = named.is_none();
                    if !set_paused(client, &one.id, verb == Verb::Pause, many).await? {
                        bar.inc(1);
                        continue;
                    }
                }
            }
            reached.push(one);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let (Some(id), true, false) = (named, reached.is_empty(), output.json) {
        return output.line(match verb {
            Verb::Pause => format!("{id} is paused already"),
            _ => format!("{id} is not paused"),
        });
    }
    answer(output, verb, &ids(&reached), true)
}

/// Pauses or resumes; returns whether that changed anything. Of many, one that ended or was deleted meanwhile needs
/// neither: the rest is reached all the same.
async fn set_paused(client: &Client, id: &str, pause: bool, many: bool) -> Result<bool, Failure> {
    let answer = if pause {
        client.pause_instance(id).await
    } else {
        client.resume_instance(id).await
    };
    match answer {
        Err(ClientError::InvalidInput { .. } | ClientError::InstanceNotFound { .. }) if many => {
            Ok(false)
        }
        answer => Ok(answer?),
    }
}

/// An instance that was named or that the filter admitted.
struct Chosen {
    id: String,
    /// When the life that the filter admitted began.
    created_at_ms: Option<u64>,
}

impl Chosen {
    fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            created_at_ms: None,
        }
    }

    fn of(summary: InstanceSummary) -> Self {
        Self {
            id: summary.instance_id,
            created_at_ms: Some(summary.created_at_ms),
        }
    }

    /// Whether the id still stands for what the filter admitted: reaching many takes a while, and an id may be deleted
    /// and used again meanwhile.
    async fn is_current(&self, client: &Client) -> Result<bool, Failure> {
        let Some(created) = self.created_at_ms else {
            return Ok(true);
        };
        match client.get_instance_info(&self.id).await {
            Ok(info) => {
                Ok(info.created_at == created
                    && !InstanceStatus::of_stored(&info.status).is_ended())
            }
            Err(ClientError::InstanceNotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn ended(output: &Output, word: &str, id: &str) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "verb": word, "instances": [], "done": false }))
    } else {
        output.line(format!("{id} has ended; there is nothing to {word}"))
    }
}

/// Instances that the filter admits and that have not ended. A filter that names nothing would mean everything:
/// refused.
async fn chosen(
    client: &Client,
    verb: Verb,
    args: &SteerArgs,
) -> Result<Vec<InstanceSummary>, Failure> {
    if !args.filter.narrows() {
        return Err(Failure::Usage("give an instance or a filter".to_owned()));
    }
    let mut query = args.filter.query()?;
    if query.statuses.is_empty() {
        query.statuses = vec![InstanceStatus::Running, InstanceStatus::ContinuedAsNew];
    }
    match verb {
        Verb::Pause => query.paused = query.paused.or(Some(false)),
        Verb::Resume => query.paused = Some(true),
        Verb::Cancel | Verb::Terminate => {}
    }
    let mut found = filter::all(client, query).await?;
    found.retain(|one| !one.status.is_ended());
    Ok(found)
}

fn answer(output: &Output, verb: Verb, ids: &[String], done: bool) -> Result<(), Failure> {
    let word = verb.word();
    let done_to = match verb {
        Verb::Cancel | Verb::Terminate => format!("asked to {word}"),
        Verb::Pause => "paused".to_owned(),
        Verb::Resume => "resumed".to_owned(),
    };
    if output.json {
        return output.document(&json!({ "verb": word, "instances": ids, "done": done }));
    }
    let count = ids.len();
    output.line(match (ids, done) {
        ([one], true) => format!("{one} was {done_to}"),
        ([one], false) => format!("{one} would be {done_to}"),
        (_, true) => format!("{count} instances were {done_to}"),
        (_, false) => format!("{count} instances would be {done_to}"),
    })
}
