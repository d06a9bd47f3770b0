//! What a claimed group holds: decoded messages of a known instance, of one that has no row, or messages that must go.

use duroxide_core::defect::Defect;
use duroxide_core::provider::{DeadLetterOrigin, Incarnation};
use duroxide_core::{INITIAL_EXECUTION_ID, WorkItem};

use super::unclaimable::Unclaimable;
use crate::adapter::dead_letters;
use crate::adapter::error::Result;
use crate::adapter::names::TURNS;
use crate::adapter::rows::{self, InstanceRow};
use crate::adapter::token::{self, Asker, TurnToken};
use crate::atomic::Operation;
use crate::lease::After;
use crate::message::{Claimed, Message};

/// A claimed instance whose messages decode.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) claimed: Claimed,
    pub(super) items: Vec<WorkItem>,
    pub(super) known: InstanceIdentity,
}

/// Who an instance is.
#[derive(Debug)]
pub(super) struct InstanceIdentity {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) execution: u64,
    /// Its life; without a row, the one that the commit of this turn gives it.
    pub(super) incarnation: Incarnation,
    /// Its last event, if its row has it.
    pub(super) last_event: u64,
    /// Why it cannot be read.
    pub(super) error: Option<String>,
}

impl InstanceIdentity {
    pub(super) fn new(name: String, version: String, execution: u64) -> Self {
        Self {
            name,
            version,
            execution,
            incarnation: token::new_incarnation(),
            last_event: 0,
            error: None,
        }
    }

    /// History without a beginning: delivered all the same, so that the runtime can fail it for good.
    pub(super) fn nameless(execution: u64) -> Self {
        Self::new("Unknown".to_owned(), "unknown".to_owned(), execution)
    }

    fn of_row(row: std::result::Result<InstanceRow, String>, instance: &str) -> Self {
        match row {
            Ok(row) => Self {
                incarnation: row.incarnation().unwrap_or_else(token::new_incarnation),
                last_event: row.last_event,
                ..Self::new(row.name, row.version, row.execution)
            },
            Err(reason) => Self {
                error: Some(format!(
                    "row of instance {instance} does not decode: {reason}"
                )),
                ..Self::nameless(InstanceRow::unknown().execution)
            },
        }
    }
}

impl Opened {
    pub(super) fn lock_token(&self) -> TurnToken<'_> {
        let sent = self.claimed.messages.iter().zip(&self.items);
        let starts = sent.filter(|(_, item)| item.is_start());
        let parent_incarnation = starts.clone().next();
        let askers: Vec<Asker> = match starts.clone().nth(1) {
            Some(_) => starts.filter_map(asker).collect(),
            None => Vec::new(),
        };
        TurnToken {
            lease: self.claimed.token.clone(),
            instance: &self.claimed.group,
            incarnation: Some(self.known.incarnation),
            parent_incarnation: parent_incarnation
                .and_then(|(message, _)| token::incarnation_of(message.stamp)),
            askers,
        }
    }
}

/// The operation that a start is for.
fn asker((message, item): (&Message, &WorkItem)) -> Option<Asker> {
    let WorkItem::StartOrchestration {
        parent_instance: Some(parent),
        parent_id,
        parent_execution_id,
        ..
    } = item
    else {
        return None;
    };
    Some(Asker {
        parent: parent.clone(),
        execution: parent_execution_id.unwrap_or(INITIAL_EXECUTION_ID),
        id: parent_id.unwrap_or_default(),
        incarnation: token::incarnation_of(message.stamp),
    })
}

/// A claimed group, sorted by what has to be done with it.
#[derive(Debug)]
pub(super) enum Sorted {
    Opened(Opened),
    /// Its messages decode, and it has no row.
    Nameless(Nameless),
    /// Messages that must go; the rest comes with the next claim.
    Broken(Unclaimable),
}

/// Messages of an instance without a row.
#[derive(Debug)]
pub(super) struct Nameless {
    pub(super) claimed: Claimed,
    pub(super) items: Vec<WorkItem>,
}

pub(super) fn sort(claimed: Claimed) -> Result<Sorted> {
    let row = claimed.attached.as_deref().map(InstanceRow::read);
    let incarnation = match &row {
        None => ClaimedIncarnation::Unborn,
        Some(row) => {
            let incarnation = row.as_ref().ok().and_then(InstanceRow::incarnation);
            incarnation.map_or(ClaimedIncarnation::Unknown, ClaimedIncarnation::Known)
        }
    };
    let mut items = Vec::with_capacity(claimed.messages.len());
    let mut broken = Vec::new();
    for message in &claimed.messages {
        match rows::decode(&message.payload, || format!("message {}", message.id)) {
            Ok(item) if is_of_another_incarnation(message, &item, incarnation) => {
                broken.push((message, OTHER_INCARNATION.to_owned(), None));
            }
            Ok(item) => items.push(item),
            Err(error) => {
                let reason = error.to_string();
                let instead = dead_letters::instead_of(message, &reason)?;
                broken.push((message, reason, instead));
            }
        }
    }
    if !broken.is_empty() {
        return dead_letter(&claimed, broken).map(Sorted::Broken);
    }
    Ok(match row {
        None => Sorted::Nameless(Nameless { claimed, items }),
        Some(row) => Sorted::Opened(Opened {
            known: InstanceIdentity::of_row(row, &claimed.group),
            claimed,
            items,
        }),
    })
}

const OTHER_INCARNATION: &str = "it is for an earlier instance of this id, which was deleted";

/// Which life of the instance was claimed.
#[derive(Debug, Clone, Copy)]
enum ClaimedIncarnation {
    /// It does not exist yet.
    Unborn,
    /// Its row is older than incarnations are, or does not decode.
    Unknown,
    Known(Incarnation),
}

/// Whether a message was sent to another life of the instance than the one that was claimed. The stamp of a start
/// names its sender.
fn is_of_another_incarnation(
    message: &Message,
    item: &WorkItem,
    incarnation: ClaimedIncarnation,
) -> bool {
    let Some(stamp) = token::incarnation_of(message.stamp).filter(|_| !item.is_start()) else {
        return false;
    };
    if Defect::OtherLifeAccepted.is_on() {
        return false;
    }
    match incarnation {
        ClaimedIncarnation::Unborn => true,
        ClaimedIncarnation::Unknown => false,
        ClaimedIncarnation::Known(incarnation) => stamp != incarnation,
    }
}

type Broken<'m> = (&'m Message, String, Option<Operation>);

/// Keeps the broken messages as dead letters, fails what waits for them, and gives the instance back.
///
/// The release is the fence of the batch: it fails once another holder has taken the lease over, but not because the
/// lease has run out. A caller that asks for very short leases could otherwise claim the same messages for ever.
fn dead_letter(claimed: &Claimed, broken: Vec<Broken<'_>>) -> Result<Unclaimable> {
    let mut operations = vec![Operation::Release {
        lease: claimed.token.clone(),
        after: After::Now,
        forgive: true,
    }];
    operations.push(Operation::DeleteMessages {
        queue: TURNS,
        ids: broken.iter().map(|(message, ..)| message.id).collect(),
    });
    for (message, reason, instead) in broken {
        let origin = DeadLetterOrigin {
            answered: instead.is_some(),
            ..dead_letters::stamped(message)
        };
        operations.push(dead_letters::keep(&TURNS, message, &reason, origin)?);
        operations.extend(instead);
    }
    Ok(Unclaimable {
        lease: claimed.token.clone(),
        guard: None,
        operations,
    })
}
