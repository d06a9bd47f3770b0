//! Instances without a row: their handler, from their history, else from a start among the messages. What is unknown is
//! an orphan. All of a claim are looked up in one query.

use duroxide_core::provider::ClaimedTurn;
use duroxide_core::{Event, INITIAL_EXECUTION_ID, WorkItem};

use super::load::{self, Content};
use super::open::{InstanceIdentity, Nameless, Opened};
use crate::EventStore;
use crate::adapter::error::Result;
use crate::adapter::kept::Seen;
use crate::adapter::{StoreProvider, names};
use crate::atomic::{Answer, Query};

#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) turns: Vec<ClaimedTurn>,
    pub(super) orphans: Vec<Nameless>,
}

pub(super) async fn run<S: EventStore>(
    provider: &StoreProvider<S>,
    nameless: Vec<Nameless>,
) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    if nameless.is_empty() {
        return Ok(resolved);
    }
    let store = &*provider.store;
    let asked: Vec<_> = nameless.iter().map(Nameless::queries).collect();
    let mut older = Vec::new();
    for (one, answers) in nameless
        .into_iter()
        .zip(load::ask_each(store, asked).await?)
    {
        let (lease, executions, events, key_values) = match answers.map(split) {
            Ok(answers) => answers?,
            // What cannot be read is handed out as such, counted, so that it ends one day.
            Err(reason) => {
                resolved.turns.push(unreadable(one, reason));
                continue;
            }
        };
        let content = Content::of(lease, events, key_values)?;
        if content.is_taken_over() {
            continue;
        }
        let last = executions.into_entries()?.pop();
        let execution = match &last {
            Some(entry) => names::parse_execution_key(&entry.key)?,
            None => INITIAL_EXECUTION_ID,
        };
        if execution != INITIAL_EXECUTION_ID {
            older.push(one.opened(InstanceIdentity::nameless(execution)));
            continue;
        }
        match one.known(&content, execution) {
            Some(known) => {
                if last.is_none() && content.is_empty() {
                    let (token, group) = (&one.claimed.token, &one.claimed.group);
                    provider.kept.keep(token, group, Seen::Unborn);
                }
                resolved.turns.push(content.into_turn(one.opened(known)));
            }
            None => resolved.orphans.push(one),
        }
    }
    // Rare: an instance of several executions whose turns never named it. Its history has its name.
    for mut turn in load::run(provider, None, older).await? {
        if let Some((name, version)) = turn.item.history.iter().find_map(Event::started_handler) {
            turn.item.orchestration_name = name;
            turn.item.version = version;
        }
        resolved.turns.push(turn);
    }
    Ok(resolved)
}

fn unreadable(one: Nameless, reason: String) -> ClaimedTurn {
    let known = one
        .started()
        .unwrap_or_else(|| InstanceIdentity::nameless(INITIAL_EXECUTION_ID));
    let known = InstanceIdentity {
        error: Some(reason),
        ..known
    };
    Content::nothing().into_turn(one.opened(known))
}

type Answers = (Answer, Answer, Answer, Answer);

fn split(answers: Vec<Answer>) -> Result<Answers> {
    let [lease, executions, events, key_values] =
        <[Answer; 4]>::try_from(answers).map_err(|_| load::too_few())?;
    Ok((lease, executions, events, key_values))
}

impl Nameless {
    fn queries(&self) -> Vec<Query> {
        let instance = &self.claimed.group;
        vec![
            Query::Lease {
                token: self.claimed.token.clone(),
            },
            Query::all_entries(names::executions(instance)),
            Query::Events {
                entity: instance.clone(),
                partition: INITIAL_EXECUTION_ID,
                from: 0,
                limit: usize::MAX,
            },
            Query::all_entries(names::kv_base(instance)),
        ]
    }

    fn known(&self, content: &Content, execution: u64) -> Option<InstanceIdentity> {
        if content.is_empty() {
            return self.started();
        }
        let events = content.history(&self.claimed.group, execution);
        let handler = events
            .ok()
            .and_then(|events| events.iter().find_map(Event::started_handler));
        Some(match handler {
            Some((name, version)) => InstanceIdentity::new(name, version, execution),
            None => self
                .started()
                .unwrap_or_else(|| InstanceIdentity::nameless(execution)),
        })
    }

    /// Who the instance will be, by a start among its messages.
    fn started(&self) -> Option<InstanceIdentity> {
        self.items.iter().find_map(|item| match item {
            WorkItem::StartOrchestration {
                orchestration,
                version,
                ..
            }
            | WorkItem::ContinueAsNew {
                orchestration,
                version,
                ..
            } => Some(InstanceIdentity::new(
                orchestration.clone(),
                version.clone().unwrap_or_else(|| "unknown".to_owned()),
                INITIAL_EXECUTION_ID,
            )),
            _ => None,
        })
    }

    fn opened(self, known: InstanceIdentity) -> Opened {
        Opened {
            claimed: self.claimed,
            items: self.items,
            known,
        }
    }
}
