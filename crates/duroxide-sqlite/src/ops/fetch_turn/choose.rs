//! Chooses which instances a claim takes. In: what the caller can run. Out: instances with visible messages and no
//! valid lease, the one that waited longest first. Only reads: rows must not move under the walk.
//!
//! Instances are found by lane, so those whose code the caller lacks are not looked at, however many there are. A lane
//! is a hint: the rows of the instance decide, and a message in the wrong lane is moved.

use std::collections::{HashSet, VecDeque};

use duroxide_core::provider::HandOut;
use duroxide_core::provider::rules::lane;
use semver::Version;

use super::Ask;
use crate::damage::Damage;
use crate::error::Result;
use crate::ops::pause;
use crate::ops::unknown_instances::{self, UnknownInstance, Unnamed};
use crate::tables::held_queue_messages::{self, Hold};
use crate::tables::instances::Handler;
use crate::tables::orchestrator_queue::{ClaimableQueueMessages, Head, MessageBatch, Stretch};
use crate::tables::{deletions, executions, instances, orchestrator_queue};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// How many instances one claim looks at in vain at most. It puts right what it met, so the next claim comes further.
const LOOKS_MAX: usize = 1_000;

/// An instance chosen to be claimed.
pub(super) struct Candidate {
    pub(super) instance: String,
    /// `None`: no row yet; the name is found in the history or in the batch.
    pub(super) handler: Option<Handler>,
    pub(super) execution_id: u64,
    /// Whether anything was ever committed for it.
    pub(super) has_execution: bool,
    /// Messages that came before the start wait to be claimed with it.
    pub(super) messages_await_start: bool,
    /// Whether it holds queue messages back.
    pub(super) hold: Option<Hold>,
    /// Its last event, if this process wrote it.
    pub(super) last_event_id: Option<u64>,
    /// Its messages, if it may be handed out before the claim is committed.
    pub(super) early: Option<MessageBatch>,
}

/// What a walk over the queue found.
pub(super) struct Chosen {
    pub(super) candidates: Vec<Candidate>,
    pub(super) unknown_instances: Vec<UnknownInstance>,
    /// Deleted instances that are not gone yet: new ones of the same id wait for that, and children that they started.
    pub(super) being_deleted: Vec<String>,
    /// Messages in a wrong lane, and the right one.
    pub(super) misplaced: Vec<(i64, String)>,
    /// Messages of paused instances.
    pub(super) held_back: Vec<HeldBack>,
    /// When something becomes visible in the lanes the caller can claim from.
    pub(super) outlook: Vec<Outlook>,
    /// When all of them are handed out.
    pub(super) hand_out: HandOut,
    /// Whether an instance was passed over that the next claim may take.
    pub(super) leaves_some: bool,
    /// How many instances that would fit are left to the next claim.
    left_to_next: usize,
}

/// A message of a paused instance.
pub(super) struct HeldBack {
    pub(super) id: i64,
    /// Whether it was found as an old request to cancel, and not by its lane.
    pub(super) is_cancel: bool,
}

/// When the next message of a lane becomes visible.
pub(super) enum Outlook {
    At(i64),
    /// The walk did not come that far in this lane.
    Unknown(String),
}

/// Where instances come from.
enum Source {
    Lane(String),
    /// Requests to cancel that have waited so long that any node may carry them out.
    OldCancels {
        enqueued_by: i64,
    },
}

/// A walk over one source, a few instances at a time.
struct Walk {
    source: Source,
    next: VecDeque<Head>,
    last: Head,
    /// Whether the source has nothing behind `last`.
    is_exhausted: bool,
}

impl Walk {
    fn new(source: Source, is_exhausted: bool, next: Vec<Head>) -> Self {
        let beginning = || Head {
            id: i64::MIN,
            instance: String::new(),
            since: i64::MIN,
        };
        Self {
            source,
            last: next.last().cloned().unwrap_or_else(beginning),
            next: next.into(),
            is_exhausted,
        }
    }

    /// Since when the next one waits, and its number.
    fn next_since(&mut self, tx: &Tx<'_>, step: usize) -> Result<Option<(i64, i64)>> {
        if self.next.is_empty() && !self.is_exhausted {
            let found = match &self.source {
                Source::Lane(lane) => orchestrator_queue::heads(tx, lane, &self.last, step)?,
                Source::OldCancels { enqueued_by } => {
                    orchestrator_queue::old_cancels(tx, *enqueued_by, &self.last, step)?
                }
            };
            self.is_exhausted = found.len() < step;
            if let Some(last) = found.last() {
                self.last = last.clone();
            }
            self.next = found.into();
        }
        Ok(self.next.front().map(|head| (head.since, head.id)))
    }
}

/// Walks over instances until enough are found. The first one decides whether the claim is handed out before the
/// commit; others that cannot go with it are left to the next claim.
pub(super) fn choose(tx: &WriterTx<'_>, ask: &Ask) -> Result<Chosen> {
    // One more than is asked for: whether there is another is part of the answer.
    let step = ask.max.saturating_add(1).min(LOOKS_MAX);
    let fits = |lane: &str| ask.abilities.fit_lane(lane);
    let mut stretches = orchestrator_queue::survey(tx, step, fits)?;
    let in_flight = tx.writer().in_flight;
    let unwritten =
        orchestrator_queue::unwritten_heads(tx, fits, |instance| in_flight.contains(instance));
    stretches.extend(unwritten);
    let outlook = stretches.iter().filter_map(outlook).collect();
    let mut walks: Vec<Walk> = stretches
        .into_iter()
        .map(|it| Walk::new(Source::Lane(it.lane), !it.is_cut, it.heads))
        .collect();
    walks.extend(old_cancels(tx, ask, step)?);
    let mut seen = HashSet::new();
    let mut chosen = Chosen {
        candidates: Vec::new(),
        unknown_instances: Vec::new(),
        being_deleted: Vec::new(),
        misplaced: Vec::new(),
        held_back: Vec::new(),
        outlook,
        hand_out: ask.hand_out,
        leaves_some: false,
        left_to_next: 0,
    };
    let mut looks = 0;
    while looks < LOOKS_MAX.max(ask.max) {
        let Some((head, source)) = next(tx, &mut walks, step)? else {
            return Ok(chosen);
        };
        // Messages that cannot be read cannot be handed out, and other instances must not wait for them. They do not
        // count: no claim puts anything right about them.
        if tx.writer().damaged.has_unreadable_messages(&head.instance) {
            continue;
        }
        looks += 1;
        if seen.insert(head.instance.clone()) {
            chosen.look_at(tx, ask, &head, source)?;
        }
        // Those that are left are the first of the next claim.
        if chosen.candidates.len() >= ask.max || chosen.left_to_next >= ask.max {
            return Ok(chosen);
        }
    }
    // What was put right is not looked at again, so the next claim comes further.
    chosen.leaves_some |= !chosen.misplaced.is_empty()
        || !chosen.unknown_instances.is_empty()
        || !chosen.held_back.is_empty();
    Ok(chosen)
}

fn outlook(stretch: &Stretch) -> Option<Outlook> {
    if stretch.is_cut {
        Some(Outlook::Unknown(stretch.lane.clone()))
    } else {
        stretch.next_due.map(Outlook::At)
    }
}

/// A walk over requests to cancel that any node may carry out, if there are any.
fn old_cancels(tx: &WriterTx<'_>, ask: &Ask, step: usize) -> Result<Option<Walk>> {
    let enqueued_by = tx.earlier(ask.cancel_without_code_after);
    if ask.abilities.handlers.is_none() || orchestrator_queue::cancels_from(tx)? > enqueued_by {
        return Ok(None);
    }
    let mut walk = Walk::new(Source::OldCancels { enqueued_by }, false, Vec::new());
    if walk.next_since(tx, step)?.is_none() {
        tx.writer().memory.forget_cancels();
    }
    Ok(Some(walk))
}

/// The instance that waited longest in any of the walks.
fn next<'w>(tx: &Tx<'_>, walks: &'w mut [Walk], step: usize) -> Result<Option<(Head, &'w Source)>> {
    let mut first: Option<(usize, (i64, i64))> = None;
    for (place, walk) in walks.iter_mut().enumerate() {
        if let Some(since) = walk.next_since(tx, step)?
            && first.is_none_or(|(_, earliest)| since < earliest)
        {
            first = Some((place, since));
        }
    }
    let Some((place, _)) = first else {
        return Ok(None);
    };
    let walk = &mut walks[place];
    let head = walk.next.pop_front();
    Ok(head.map(|head| (head, &walk.source)))
}

impl Chosen {
    /// Whether the claim changes rows of the queue besides those of the instances that it chose.
    pub(super) fn moves_rows(&self) -> bool {
        !(self.unknown_instances.is_empty()
            && self.being_deleted.is_empty()
            && self.misplaced.is_empty()
            && self.held_back.is_empty())
    }

    fn look_at(
        &mut self,
        tx: &WriterTx<'_>,
        ask: &Ask,
        head: &Head,
        source: &Source,
    ) -> Result<()> {
        let instance = &head.instance;
        let in_flight = tx.writer().in_flight;
        let is_turn_over = in_flight.is_turn_over(instance);
        self.leaves_some |= is_turn_over;
        if is_turn_over || in_flight.contains(instance) {
            return Ok(());
        }
        if pause::holds_back(tx, instance)? {
            self.held_back.push(HeldBack {
                id: head.id,
                is_cancel: matches!(source, Source::OldCancels { .. }),
            });
            return Ok(());
        }
        let examined = examine(tx, ask, instance);
        let examined = super::noting_damage(tx, instance, Damage::Messages, examined)?;
        let (candidate, pinned, right) = match examined {
            Examined::Unknown(unknown) => {
                self.unknown_instances.push(unknown);
                return Ok(());
            }
            Examined::BeingDeleted(deleted) => {
                if self.being_deleted.last() != Some(&deleted) {
                    self.being_deleted.push(deleted);
                }
                return Ok(());
            }
            Examined::Candidate {
                candidate,
                pinned,
                lane,
            } => (candidate, pinned, lane),
        };
        let mut fits = ask.abilities.can_replay(pinned.as_ref());
        if let Source::Lane(lane) = source
            && *lane != right
        {
            fits &= ask.abilities.fit_lane(&right);
            self.misplaced.push((head.id, right));
        }
        if fits && !self.consider(candidate) {
            self.left_to_next += 1;
        }
        Ok(())
    }

    /// Takes the candidate, or leaves it to the next claim (`false`).
    fn consider(&mut self, candidate: Candidate) -> bool {
        if self.candidates.is_empty() && candidate.early.is_none() {
            self.hand_out = HandOut::AfterCommit;
        }
        if self.hand_out == HandOut::BeforeCommit && candidate.early.is_none() {
            self.leaves_some = true;
            return false;
        }
        self.candidates.push(candidate);
        true
    }
}

/// An instance that came up in the queue.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly always the large one, and never kept"
)]
enum Examined {
    /// A node can claim it that has the code of this lane and can replay executions of this engine version.
    Candidate {
        candidate: Candidate,
        pinned: Option<Version>,
        lane: String,
    },
    Unknown(UnknownInstance),
    /// What is left of this instance has to go first: an earlier one of the same id, or the parent that sent the start.
    BeingDeleted(String),
}

fn examine(tx: &WriterTx<'_>, ask: &Ask, instance: &str) -> Result<Examined> {
    let recent = tx.writer().memory.get(instance);
    let is_recent = recent.is_some();
    let last_event_id = recent.as_ref().and_then(|recent| recent.last_event_id);
    let handler = match recent {
        Some(recent) => Some(recent.handler),
        None => instances::handler(tx, instance)?,
    };
    if let Some(handler) = handler {
        // Of many that came before the start, one claim takes only some.
        let messages_await_start = orchestrator_queue::messages_await_start(tx, instance)?;
        let hold = held_queue_messages::of(tx, instance)?;
        let mut lane = handler.lane.clone();
        if lane == lane::BETWEEN
            && let Some((named, at)) = orchestrator_queue::beginning_lane(tx, instance)?
            && at <= tx.now
        {
            lane = named;
        }
        return Ok(Examined::Candidate {
            pinned: handler.pinned.clone(),
            lane,
            candidate: Candidate {
                instance: instance.to_owned(),
                execution_id: handler.execution_id,
                handler: Some(handler),
                has_execution: true,
                messages_await_start,
                hold,
                last_event_id,
                early: if is_recent && !messages_await_start && hold.is_none() {
                    early_batch(tx, ask, instance)?
                } else {
                    None
                },
            },
        });
    }
    if deletions::contains(tx, instance)? {
        return Ok(Examined::BeingDeleted(instance.to_owned()));
    }
    if let Some(parent) = deletions::parent_of(tx, instance)? {
        return Ok(Examined::BeingDeleted(parent));
    }
    let latest = executions::latest(tx, instance)?;
    let has_execution = latest.is_some();
    let (execution_id, pinned) = latest.unwrap_or((1, None));
    Ok(
        match unknown_instances::examine(tx, instance, execution_id)? {
            Unnamed::Unknown(unknown) => Examined::Unknown(unknown),
            Unnamed::Known {
                messages_await_start,
                lane,
            } => Examined::Candidate {
                pinned,
                lane: lane.unwrap_or_else(|| lane::ANY_NODE.to_owned()),
                candidate: Candidate {
                    instance: instance.to_owned(),
                    handler: None,
                    execution_id,
                    has_execution,
                    messages_await_start,
                    hold: None,
                    last_event_id: None,
                    early: if !has_execution && !messages_await_start {
                        early_batch(tx, ask, instance)?
                    } else {
                        None
                    },
                },
            },
        },
    )
}

/// The messages of an instance, if the turn may be handed out before the commit: the caller accepts that, and none of
/// the messages can have ended a process before (see `early`, "Which turns").
fn early_batch(tx: &WriterTx<'_>, ask: &Ask, instance: &str) -> Result<Option<MessageBatch>> {
    let caution = tx.writer().caution;
    if ask.hand_out == HandOut::AfterCommit || !caution.allows(instance) {
        return Ok(None);
    }
    let read =
        orchestrator_queue::visible(tx, instance, ask.messages_max, ClaimableQueueMessages::All);
    let batch = super::noting_damage(tx, instance, Damage::Messages, read)?;
    let are_new = batch
        .messages
        .iter()
        .all(|message| message.attempts == 1 && caution.came_since_opening(message.created_at));
    Ok(are_new.then_some(batch))
}
