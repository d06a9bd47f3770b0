//! Cancel, terminate, pause and resume. In: a client, and one instance or a filter. Out: the requests at the store, and
//! what became of each.

use duroxide_runtime::client::{self, Client};
use serde_json::json;

use super::many;
use crate::args::SteerArgs;
use crate::failure::Failure;
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

    /// As the client applies it to many.
    fn of_client(self, reason: String) -> client::Verb {
        match self {
            Self::Cancel => client::Verb::Cancel { reason },
            Self::Terminate => client::Verb::Terminate { reason },
            Self::Pause => client::Verb::Pause,
            Self::Resume => client::Verb::Resume,
        }
    }
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    verb: Verb,
    args: SteerArgs,
) -> Result<(), Failure> {
    if let Some(id) = args.filter.or_one(args.id.as_deref())? {
        return one(client, output, verb, (id, &args)).await;
    }
    let word = verb.word();
    let applied = (verb.of_client(args.reason), word);
    let reached = many::run(client, output, (&args.filter, args.consent), applied).await?;
    answer(output, verb, &reached.ids, reached.done)?;
    reached.or_refusals(output, &format!("reached by {word}"))
}

async fn one(
    client: &Client,
    output: &Output,
    verb: Verb,
    (id, args): (&str, &SteerArgs),
) -> Result<(), Failure> {
    let word = verb.word();
    if instance::find(client, id).await?.has_ended() {
        return ended(output, word, id);
    }
    let ids = [id.to_owned()];
    if args.consent.dry_run {
        return answer(output, verb, &ids, false);
    }
    if verb == Verb::Terminate && !args.consent.yes {
        let would = format!("{word} would reach {}", count_of(1, "instance"));
        return Err(Failure::NeedsYes(would));
    }
    let reason = args.reason.as_str();
    let changed = match verb {
        Verb::Cancel => client.cancel_instance(id, reason).await.map(|()| true)?,
        Verb::Terminate => client.terminate_instance(id, reason).await.map(|()| true)?,
        Verb::Pause => client.pause_instance(id).await?,
        Verb::Resume => client.resume_instance(id).await?,
    };
    if !changed && !output.json {
        return output.line(match verb {
            Verb::Pause => format!("{id} is paused already"),
            _ => format!("{id} is not paused"),
        });
    }
    answer(output, verb, if changed { &ids } else { &[] }, true)
}

fn ended(output: &Output, word: &str, id: &str) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "verb": word, "instances": [], "done": false }))
    } else {
        output.line(format!("{id} has ended; there is nothing to {word}"))
    }
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
