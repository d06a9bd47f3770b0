//! One turn to be committed, and many of them as one call. In: everything the turns decided. Out: arrays.

use std::collections::BTreeMap;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::rules::{self, lane};
use duroxide_core::provider::{ExecutionStatus, OutcomeStatus, TurnWrites};
use duroxide_core::{LabelChange, is_label_key, label_changes, memo_at_birth};
use uuid::Uuid;

use crate::codec::{self, NewEvent, NewMessage, NewWork};
use crate::connection::call::Call;
use crate::error::Result;
use crate::text;
use crate::time::stored_ms;
use crate::token;

/// Everything one turn writes.
#[derive(Debug)]
pub(crate) struct Commit {
    /// As the engine names it, and as it is stored.
    pub(crate) shown_instance: String,
    pub(crate) instance: String,
    pub(crate) token: Uuid,
    pub(crate) execution_id: i64,
    pub(crate) events: Vec<NewEvent>,
    pub(crate) to_workers: Vec<NewWork>,
    pub(crate) to_orchestrators: Vec<NewMessage>,
    pub(super) named: Option<Named>,
    /// The code that the instance needs next, if that changes with this turn.
    pub(super) lane: Option<String>,
    pub(super) incarnation: i64,
    pub(super) status: Option<String>,
    pub(super) output: Option<String>,
    pub(super) pinned: Option<String>,
    /// The last custom status of the turn, if it changed.
    custom_status: Option<Option<String>>,
    kv: Vec<KvChange>,
    /// Each label that changes, once; `None` if it goes.
    labels: BTreeMap<String, Option<String>>,
    /// What the instance has for people who look at it, if it begins with this turn.
    memo: Option<String>,
    cancelled: Vec<(String, i64, i64)>,
    /// Whether queue messages are held back until the next commit.
    holds_queue_messages: bool,
    /// How the instance ends with this turn, if it does.
    pub(crate) ended: Option<OutcomeStatus>,
}

/// The lease under which an activity is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrower {
    pub(crate) token: Uuid,
    pub(crate) lock_ms: i64,
}

#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) version: String,
    parent: Option<String>,
}

#[derive(Debug)]
struct KvChange {
    op: i32,
    key: String,
    value: Option<String>,
    at: Option<i64>,
}

impl Commit {
    pub(crate) fn new(lock_token: &str, writes: TurnWrites) -> Result<Self> {
        let turn = token::turn(lock_token)?;
        let (history, metadata) = (&*writes.history, writes.metadata);
        let to_orchestrators = writes
            .to_orchestrators
            .iter()
            .map(codec::decided_message)
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            lane: lane::after_turn(&metadata, &writes.to_orchestrators),
            ended: rules::ended_by(history, metadata.status.as_deref()),
            shown_instance: turn.instance.to_owned(),
            instance: codec::key("the instance id", turn.instance)?,
            token: turn.random,
            incarnation: turn.next_incarnation().to_stored(),
            execution_id: codec::number("execution", writes.execution_id)?,
            events: codec::events(turn.instance, history)?,
            to_workers: writes
                .to_workers
                .iter()
                .map(codec::work)
                .collect::<Result<_>>()?,
            to_orchestrators,
            named: match (metadata.orchestration_name, metadata.orchestration_version) {
                (Some(name), Some(version)) => Some(Named {
                    name: text::owned(&name),
                    version: text::owned(&version),
                    parent: metadata
                        .parent_instance_id
                        .map(|parent| text::owned(&parent)),
                }),
                _ => None,
            },
            output: metadata
                .output
                .filter(|_| metadata.status.is_some())
                .map(|output| text::owned(&output)),
            status: metadata.status,
            pinned: metadata
                .pinned_duroxide_version
                .map(|version| version.to_string()),
            custom_status: rules::last_custom_status(history).map(|status| status.map(text::owned)),
            kv: history.iter().filter_map(kv_change).collect(),
            labels: labels(history),
            memo: memo_at_birth(history).map(|memo| text::owned(&memo)),
            cancelled: writes
                .cancelled
                .iter()
                .map(|one| {
                    Ok((
                        codec::key("the instance id", &one.instance)?,
                        codec::number("execution", one.execution_id)?,
                        codec::number("activity", one.activity_id)?,
                    ))
                })
                .collect::<Result<_>>()?,
            holds_queue_messages: false,
        })
    }

    /// The same turn; queue messages of its instance are held back until the next one, if there is one.
    pub(crate) fn holding_queue_messages(mut self) -> Self {
        self.holds_queue_messages = self.merely_moves();
        self
    }

    /// The incarnation, name and version of an instance that begins with this turn.
    pub(crate) fn begun(&self) -> Option<(i64, &str, &str)> {
        let named = self.named.as_ref()?;
        Some((self.incarnation, &named.name, &named.version))
    }

    /// How many activities it cancels.
    pub(crate) fn cancels(&self) -> usize {
        self.cancelled.len()
    }

    /// Whether it says something about its execution beyond that it runs.
    fn is_loud(&self) -> bool {
        match self.status.as_deref() {
            None => false,
            Some(status) => status != ExecutionStatus::Running.as_str() || self.output.is_some(),
        }
    }

    fn known_status(&self) -> Option<ExecutionStatus> {
        self.status.as_deref().and_then(ExecutionStatus::parse)
    }

    pub(super) fn ends_execution(&self) -> bool {
        self.known_status().is_some_and(ExecutionStatus::has_ended)
    }

    /// Whether the turn moves the instance without ending it.
    pub(crate) fn merely_moves(&self) -> bool {
        let moves = [ExecutionStatus::Running, ExecutionStatus::ContinuedAsNew];
        self.status.is_none() || self.known_status().is_some_and(|it| moves.contains(&it))
    }

    /// Whether it does nothing but record events, ask for at most one activity, and end or go on.
    pub(super) fn is_plain(&self) -> bool {
        let has_parent = self.named.as_ref().is_some_and(|it| it.parent.is_some());
        let is_described = !self.labels.is_empty() || self.memo.is_some();
        let says_more = self.custom_status.is_some() || !self.kv.is_empty() || is_described;
        let sends = !self.to_orchestrators.is_empty() || !self.cancelled.is_empty();
        let mut work = self.to_workers.iter();
        let is_one = work.len() <= 1 && work.all(|one| one.session.is_none());
        is_one && !has_parent && !says_more && !sends && !self.holds_queue_messages
    }

    /// How large it is on the wire, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|one| one.json.len()).sum();
        let work: usize = self.to_workers.iter().map(|one| one.json.len()).sum();
        let sent: usize = self.to_orchestrators.iter().map(|one| one.json.len()).sum();
        events + work + sent + self.output.as_ref().map_or(0, String::len)
    }
}

/// All of them as one call. `sent_to`: those of their instances to which the same transaction sends something later.
/// `strict`: a lost lease takes the transaction back. `borrowers`: the lease of each activity that is lent.
pub(crate) fn call<'a>(
    commits: &[&'a Commit],
    sent_to: &[&'a str],
    borrowers: &[Option<Borrower>],
    strict: bool,
    expected: i64,
) -> Call<'a> {
    let of = || commits.iter().copied();
    let events = || of().flat_map(|c| c.events.iter().map(move |event| (c, event)));
    let work = || of().flat_map(|c| c.to_workers.iter());
    let sent = || {
        (1..)
            .zip(of())
            .flat_map(|(turn, c)| c.to_orchestrators.iter().map(move |one| (turn, one)))
    };
    let kv = || of().flat_map(|c| c.kv.iter().map(move |change| (c, change)));
    let labels = || of().flat_map(|c| c.labels.iter().map(move |label| (c, label)));
    let memos = || of().filter_map(|c| Some((c, c.memo.as_deref()?)));
    let cancelled = || of().flat_map(|c| c.cancelled.iter());
    let named = |c: &'a Commit| c.named.as_ref();
    Call::new("commit_turns")
        .int(expected)
        .texts(of().map(|c| c.instance.as_str()))
        .uuids(of().map(|c| c.token))
        .ints(of().map(|c| c.execution_id))
        .opt_texts(of().map(|c| named(c).map(|it| it.name.as_str())))
        .opt_texts(of().map(|c| named(c).map(|it| it.version.as_str())))
        .opt_texts(of().map(|c| named(c).and_then(|it| it.parent.as_deref())))
        .opt_texts(of().map(|c| c.lane.as_deref()))
        .ints(of().map(|c| c.incarnation))
        .opt_texts(of().map(|c| c.status.as_deref()))
        .opt_texts(of().map(|c| c.output.as_deref()))
        .opt_texts(of().map(|c| c.pinned.as_deref()))
        .smalls(of().map(|c| match &c.custom_status {
            None => 0,
            Some(None) => 1,
            Some(Some(_)) => 2,
        }))
        .opt_texts(of().map(|c| c.custom_status.as_ref().and_then(|it| it.as_deref())))
        .flags(of().map(Commit::is_loud))
        .flags(of().map(Commit::ends_execution))
        .flags(of().map(|c| c.holds_queue_messages))
        .texts(events().map(|(c, _)| c.instance.as_str()))
        .ints(events().map(|(c, _)| c.execution_id))
        .ints(events().map(|(_, event)| event.id))
        .texts(events().map(|(_, event)| event.kind))
        .texts(events().map(|(_, event)| event.json.as_str()))
        .texts(work().map(|one| one.instance.as_str()))
        .ints(work().map(|one| one.execution_id))
        .ints(work().map(|one| one.activity_id))
        .texts(work().map(|one| one.name.as_str()))
        .texts(work().map(|one| one.json.as_str()))
        .opt_texts(work().map(|one| one.session.as_deref()))
        .opt_texts(work().map(|one| one.tag.as_deref()))
        .texts(work().map(|one| one.lane.as_str()))
        .opt_uuids(borrowers.iter().map(|one| one.map(|it| it.token)))
        .opt_ints(borrowers.iter().map(|one| one.map(|it| it.lock_ms)))
        .smalls(sent().map(|(turn, _)| turn))
        .texts(sent().map(|(_, one)| one.instance.as_str()))
        .texts(sent().map(|(_, one)| one.kind))
        .texts(sent().map(|(_, one)| one.json.as_str()))
        .opt_ints(sent().map(|(_, one)| one.due))
        .opt_texts(sent().map(|(_, one)| one.begins.as_deref()))
        .opt_ints(sent().map(|(_, one)| one.answers.map(|(execution, _)| execution)))
        .opt_ints(sent().map(|(_, one)| one.answers.map(|(_, operation)| operation)))
        .opt_texts(sent().map(|(_, one)| one.starts_child_of.as_deref()))
        .flags(sent().map(|(_, one)| one.is_notice()))
        .texts(kv().map(|(c, _)| c.instance.as_str()))
        .smalls(kv().map(|(_, change)| change.op))
        .texts(kv().map(|(_, change)| change.key.as_str()))
        .opt_texts(kv().map(|(_, change)| change.value.as_deref()))
        .opt_ints(kv().map(|(_, change)| change.at))
        .texts(labels().map(|(c, _)| c.instance.as_str()))
        .texts(labels().map(|(_, (key, _))| key.as_str()))
        .opt_texts(labels().map(|(_, (_, value))| value.as_deref()))
        .texts(memos().map(|(c, _)| c.instance.as_str()))
        .texts(memos().map(|(_, memo)| memo))
        .texts(cancelled().map(|(instance, _, _)| instance.as_str()))
        .ints(cancelled().map(|(_, execution, _)| *execution))
        .ints(cancelled().map(|(_, _, activity)| *activity))
        .texts(sent_to.iter().copied())
        .flag(strict)
}

/// The labels that these events change; of several changes of one label the last counts.
fn labels(events: &[Event]) -> BTreeMap<String, Option<String>> {
    let stored = |change: LabelChange| {
        let value = change.value.map(|value| text::owned(&value));
        (text::owned(&change.key), value)
    };
    label_changes(events).into_iter().map(stored).collect()
}

fn kv_change(event: &Event) -> Option<KvChange> {
    let (op, key, value, at) = match &event.kind {
        EventKind::KeyValueSet { key, .. } | EventKind::KeyValueCleared { key }
            if is_label_key(key) =>
        {
            return None;
        }
        EventKind::KeyValueSet {
            key,
            value,
            last_updated_at_ms,
        } => (0, key.as_str(), Some(value), Some(*last_updated_at_ms)),
        EventKind::KeyValueCleared { key } => (1, key.as_str(), None, None),
        EventKind::KeyValuesCleared => (2, "", None, None),
        _ => return None,
    };
    Some(KvChange {
        op,
        key: text::owned(key),
        value: value.map(|value| text::owned(value)),
        at: at.map(stored_ms),
    })
}
