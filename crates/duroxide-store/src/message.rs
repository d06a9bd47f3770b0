//! What queues hold and what claims say: messages, their roles, labels, claims and what claims hand out.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::guard::Guard;
use crate::lease::{LeaseToken, Owner};
pub use crate::queue_name::{Delivery, Queue};

/// When a message can be claimed. The store computes it with its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visible {
    /// From the commit on.
    #[default]
    Now,
    /// From this time on, in milliseconds since the Unix epoch, by the clock that the store was given. A store whose
    /// time is ahead of that clock, because it was set back, adds the difference: see
    /// [`StoreClock`](crate::StoreClock).
    At(u64),
    /// This many milliseconds after the commit.
    AfterMs(u64),
}

impl Visible {
    /// The absolute time, for a commit at `now_ms`. "At once" is no time: a clock that is set back cannot hide it.
    #[must_use]
    pub fn at_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Now => 0,
            Self::At(time) => time.min(LAST_MS),
            Self::AfterMs(delay) => later_ms(now_ms, delay),
        }
    }
}

/// The last time there is: what every database can store as an integer.
pub(crate) const LAST_MS: u64 = i64::MAX.cast_unsigned();

/// This much later than now, at most the last time there is.
#[must_use]
pub fn later_ms(now_ms: u64, by_ms: u64) -> u64 {
    now_ms.saturating_add(by_ms).min(LAST_MS)
}

/// When an alarm opens its group, for a claim that says how old it must be.
pub(crate) fn opens_at_ms(rings_from_ms: u64, after_ms: u64) -> u64 {
    match rings_from_ms {
        0 => 0,
        from => later_ms(from, after_ms),
    }
}

/// A message to enqueue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// Group it belongs to.
    pub group: String,
    /// Key by which it can be deleted; unique within a group by the caller's choice only.
    pub key: Option<String>,
    /// Affinity key: while one owner holds it, no other owner can claim the message. Single delivery only.
    pub affinity: Option<String>,
    /// Label: selects messages at the claim in a queue of single messages, and is counted in [`Depth`].
    pub label: Option<String>,
    /// Kind: a second label. Selects messages at the claim in a queue of single messages; of a lead or successor, the
    /// kind that it gives its group.
    pub kind: Option<String>,
    /// The effect on its group.
    pub role: Role,
    /// A number that travels with the message, at most `i64::MAX`; the store does not look at it.
    pub stamp: Option<u64>,
    /// Bytes the store does not look into.
    pub payload: Vec<u8>,
    /// The time from which it can be claimed.
    pub visible: Visible,
    /// Claims that are counted already: of a message that takes the place of another one.
    pub attempts: u32,
}

impl NewMessage {
    /// A message that is visible at once, without key, affinity or label.
    pub fn new(group: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            group: group.into(),
            payload: payload.into(),
            ..Self::default()
        }
    }

    /// The stored form, for a commit at `now_ms`.
    #[must_use]
    pub fn stored_as(self, id: u64, now_ms: u64) -> Message {
        Message {
            id,
            group: self.group,
            key: self.key,
            affinity: self.affinity,
            label: self.label,
            kind: self.kind,
            role: self.role,
            stamp: self.stamp,
            payload: self.payload,
            visible_at: self.visible.at_ms(now_ms),
            enqueued_at: now_ms,
            attempts: self.attempts,
        }
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its number; grows in the order of enqueueing, unique in the store.
    pub id: u64,
    /// The group that it waits in.
    pub group: String,
    /// Key by which it can be deleted.
    pub key: Option<String>,
    /// Affinity key.
    pub affinity: Option<String>,
    /// The label that it was enqueued with.
    pub label: Option<String>,
    /// The kind that it was enqueued with.
    pub kind: Option<String>,
    /// The effect on its group.
    pub role: Role,
    /// The number that travels with it.
    pub stamp: Option<u64>,
    /// Bytes the store does not look into.
    pub payload: Vec<u8>,
    /// Time from which it can be claimed, in milliseconds since the Unix epoch; 0 for at once.
    pub visible_at: u64,
    /// Time at which it was enqueued, in milliseconds since the Unix epoch.
    pub enqueued_at: u64,
    /// Number of claims so far.
    pub attempts: u32,
}

impl Message {
    /// Since when it can be claimed.
    #[must_use]
    pub fn since_ms(&self) -> u64 {
        self.visible_at.max(self.enqueued_at)
    }

    /// From when on the age of an alarm counts; an urgent one is as old as any claim wants.
    pub(crate) fn rings_from_ms(&self) -> u64 {
        match self.role {
            Role::UrgentAlarm => 0,
            _ => self.enqueued_at,
        }
    }
}

/// What a message does to its group, beyond waiting in it. Grouped delivery only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// It only waits in its group.
    #[default]
    Plain,
    /// It begins what the group does next: a group without a kind of its own has the kind of its oldest lead, and the
    /// oldest visible lead is part of every claim of the group.
    Lead,
    /// A lead that goes before those that are none, whatever their age: it alone gives the kind and is part of every
    /// claim.
    Successor(Followers),
    /// It comes after what a successor brings along, see [`Followers::Stay`], and while its group wants more, see
    /// [`Operation::HoldFollowers`](crate::Operation::HoldFollowers).
    Follower,
    /// It opens its group to claims of any kind, once it is visible and as old as the claim says.
    Alarm,
    /// An alarm that opens its group as soon as it is visible, and goes before those that are not urgent.
    UrgentAlarm,
}

/// Whether a claim that takes a successor takes the group's followers too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followers {
    /// It takes them like other messages.
    Come,
    /// It takes none: what they follow came with the successor and is not done yet. They stay in their order. They
    /// still count towards the bounds of the claim, so that looking for other messages behind them has an end.
    Stay,
}

/// Which labels or kinds a claim accepts, as data that a store can look up in an index or send to a server.
///
/// ```
/// use duroxide_store::Labels;
/// let labels = Labels::of(["red", "blue"]).or_within("m", "n");
/// assert!(labels.accepts(Some("red")) && labels.accepts(Some("moss")));
/// assert!(!labels.accepts(None) && labels.or_none().accepts(None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Labels {
    /// All of them, and none.
    Any,
    /// Those that are named or lie in a range.
    Of {
        /// Whether no label is accepted too.
        none: bool,
        /// Labels by name.
        any_of: BTreeSet<String>,
        /// Labels between two others, both included, in the order of their bytes.
        within: Vec<(String, String)>,
    },
}

impl Labels {
    /// Exactly these.
    pub fn of<T: Into<String>>(labels: impl IntoIterator<Item = T>) -> Self {
        Self::Of {
            none: false,
            any_of: labels.into_iter().map(Into::into).collect(),
            within: Vec::new(),
        }
    }

    /// Only what has none.
    #[must_use]
    pub fn only_none() -> Self {
        Self::of::<String>([]).or_none()
    }

    /// These, and what has none.
    #[must_use]
    pub fn or_none(mut self) -> Self {
        if let Self::Of { none, .. } = &mut self {
            *none = true;
        }
        self
    }

    /// These, and what lies between two labels, both included.
    #[must_use]
    pub fn or_within(mut self, first: impl Into<String>, last: impl Into<String>) -> Self {
        if let Self::Of { within, .. } = &mut self {
            within.push((first.into(), last.into()));
        }
        self
    }

    /// Whether a label is accepted.
    #[must_use]
    pub fn accepts(&self, label: Option<&str>) -> bool {
        match (self, label) {
            (Self::Any, _) => true,
            (Self::Of { none, .. }, None) => *none,
            (Self::Of { any_of, within, .. }, Some(label)) => {
                let lies_in = |(first, last): &(String, String)| {
                    first.as_str() <= label && label <= last.as_str()
                };
                any_of.contains(label) || within.iter().any(lies_in)
            }
        }
    }
}

/// What a caller asks for when it claims.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Queue that is claimed from.
    pub queue: Queue,
    /// The largest number of groups or messages.
    pub max: usize,
    /// Length of each lease.
    pub lease_ms: u64,
    /// How long to wait for the first one; zero tries once.
    pub wait: Duration,
    /// The labels that the caller takes.
    pub labels: Labels,
    /// The kinds that the caller takes.
    pub kinds: Labels,
    /// A group with a visible [`Role::Alarm`] that was enqueued at least this long ago is eligible whatever its kind;
    /// one with a visible [`Role::UrgentAlarm`] is at once. `None`: alarms open nothing.
    pub any_kind_after_ms: Option<u64>,
    /// How many messages of one group at most, at least one; the oldest visible successor comes in addition, else the
    /// oldest visible lead, and the oldest visible alarm, an urgent one if there is one.
    pub messages_max: usize,
    /// How many bytes of messages of one group at most; one message comes whatever its size.
    pub bytes_max: usize,
    /// How many followers of one group at most, at least one; the claim ends before the next one.
    pub followers_max: usize,
    /// After this many messages of all its groups together the claim takes no further group; the first one comes
    /// whatever it holds. Grouped delivery only.
    pub messages_in_all_max: usize,
    /// After this many bytes of messages of all its groups together the claim takes no further group; the first one
    /// comes whatever it holds. Grouped delivery only.
    pub bytes_in_all_max: usize,
    /// Owner that claims; without an owner, messages with an affinity key are left alone.
    pub owner: Option<Owner>,
    /// Scope whose entry named like the group is read in the same step and handed out with the claim.
    pub attach: Option<String>,
    /// Conditions that must hold at every try; otherwise the claim fails with
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) and takes nothing.
    pub guards: Vec<Guard>,
}

impl Claim {
    /// A claim of one group or message, whatever its label, without waiting.
    #[must_use]
    pub fn one(queue: Queue, lease_ms: u64) -> Self {
        Self {
            queue,
            max: 1,
            lease_ms,
            wait: Duration::ZERO,
            labels: Labels::Any,
            kinds: Labels::Any,
            any_kind_after_ms: None,
            messages_max: usize::MAX,
            bytes_max: usize::MAX,
            followers_max: usize::MAX,
            messages_in_all_max: usize::MAX,
            bytes_in_all_max: usize::MAX,
            owner: None,
            attach: None,
            guards: Vec::new(),
        }
    }
}

/// What a claim handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Proof of the lease.
    pub token: LeaseToken,
    /// Group of the messages.
    pub group: String,
    /// The messages in order; exactly one in a queue of single messages.
    pub messages: Vec<Message>,
    /// Whether the group has a [`Role::Lead`] or [`Role::Successor`] that is not visible yet.
    pub lead_to_come: bool,
    /// The entry asked for with [`Claim::attach`].
    pub attached: Option<Vec<u8>>,
}

/// What is ready and not leased, of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The kind.
    pub kind: Option<String>,
    /// Groups or single messages; counting may stop at the bound that the query names.
    pub count: u64,
    /// Time since which the oldest of them is ready, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// Messages of one label in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Depth {
    /// The messages' label.
    pub label: Option<String>,
    /// Visible and not leased.
    pub ready: u64,
    /// Not visible yet and not leased.
    pub delayed: u64,
    /// Under a valid lease.
    pub leased: u64,
}
