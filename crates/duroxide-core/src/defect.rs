//! Defects that engines of this kind have had, one of which can be put back on purpose. In: which one. Out: whether the code
//! at hand shall have it. For the proof that the simulation finds them (`cargo xtask sim --defects`).
//!
//! Only a build with `--cfg duroxide_mutants` can have one. In every other build [`Defect::is_on`] is the constant `false`,
//! and nothing of this is left.

/// A defect that can be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// A late answer to a commit puts an older state into memory in the way of a newer one (A0).
    LateAnswerReplacesNewer,
    /// An id that was deleted and started again is continued with the future of its earlier life (A1).
    OldFutureAfterRestart,
    /// A node claims instances that it has no code for, and each claim counts as an attempt (A2).
    MissingOrchestrationCounts,
    /// A node claims activities that it has no code for, and each claim counts as an attempt (A2).
    MissingActivityCounts,
    /// The result of an activity is thrown away when the store is away for a second (A5).
    CompletionDroppedAfterOutage,
    /// A shutdown leaves aborted work under its lease (A6).
    WorkKeptAtShutdown,
    /// A batch claim takes more sessions than the node may serve (A7).
    SessionsPinnedByBatch,
    /// Continue-as-new carries one unread queue message and drops the rest (A9).
    LettersLostAtContinue,
    /// Each attempt of a retried activity has an idempotency key of its own (A10).
    KeyPerAttempt,
    /// An activity that waited for its session begins though its lease is lost (A11).
    LostLeaseBegins,
    /// A second request to cancel ends code that is winding down (A12).
    SecondCancelKills,
    /// A request to cancel that comes with the message that lets the code continue as new ends it, and nothing is put right.
    LateCancelKills,
    /// Messages that come between two executions are dropped (U1).
    MessagesLostBetweenExecutions,
    /// A child that continues as new forgets its parent (U2).
    ParentLostAtContinue,
    /// A child whose id is taken is never answered (U3).
    CollisionUnanswered,
    /// A dropped read of a queue still takes a message (U4).
    DroppedReaderTakes,
    /// The key-values that replay begins with are those of the running execution (U6).
    SnapshotOfCurrent,
    /// A commit takes messages with it that came after its claim (U7).
    CommitTakesLaterMessages,
    /// Leases are not renewed any more while a shutdown lets work finish (U9).
    RenewalEndsAtStop,
    /// Replay runs the newest version instead of the recorded one (U11).
    LatestVersionReplays,
    /// A completion that is delivered twice is recorded twice (U14).
    DuplicateAccepted,
    /// A turn is committed without a check of its lease (U18).
    UnfencedCommit,
    /// The store takes writes of a lease that has lapsed (U18).
    LapsedLeaseCounts,
    /// Due times are computed by the node's clock (U20).
    NodeClockDecides,
    /// An activity that is scheduled and cancelled in one turn runs (U22).
    CancelBeforeSchedule,
    /// A commit does not wake the claims that wait for its messages (U24).
    LostWakeUp,
    /// A child whose future was dropped is not cancelled (U33).
    DroppedChildRunsOn,
    /// A lease is not renewed after one failure (U28).
    LeasesNotRenewed,
    /// An activity that was cancelled stays queued (U22).
    CancelLeavesWork,
    /// Messages of a deleted instance reach the next one of its id (A1).
    DeleteLeavesMessages,
    /// A completion of an earlier life of an id is accepted by a later one (A1).
    OtherLifeAccepted,
    /// A request to cancel that comes with other messages is dropped (U1).
    CancelLost,
    /// A worker takes activities whose tag it does not serve (U24).
    TagIgnored,
    /// Two activities of a session that belongs to one slot run at once (A7).
    SessionRunsTwice,
    /// Work that is given back uncounted is counted all the same (A6).
    ForgivenessForgotten,
    /// Key-values do not outlive continue-as-new (U6).
    KeyValuesLostAtContinue,
    /// The custom status does not outlive continue-as-new (U2).
    StatusLostAtContinue,
    /// The refusal of a child's start goes to an earlier life of its parent (A1).
    RefusalToEarlierLife,
    /// A child that was asked for by a life of its parent that is deleted begins all the same (A1).
    UnbornOutlivesParent,
    /// Recorded time goes back when a clock does (U20).
    TimeGoesBack,
    /// Messages of a turn that an outage spoilt rest, and later ones overtake them (U7).
    SpoiltTurnRests,
}

impl Defect {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::LateAnswerReplacesNewer,
        Self::OldFutureAfterRestart,
        Self::MissingOrchestrationCounts,
        Self::MissingActivityCounts,
        Self::CompletionDroppedAfterOutage,
        Self::WorkKeptAtShutdown,
        Self::SessionsPinnedByBatch,
        Self::LettersLostAtContinue,
        Self::KeyPerAttempt,
        Self::LostLeaseBegins,
        Self::SecondCancelKills,
        Self::LateCancelKills,
        Self::MessagesLostBetweenExecutions,
        Self::ParentLostAtContinue,
        Self::CollisionUnanswered,
        Self::DroppedReaderTakes,
        Self::SnapshotOfCurrent,
        Self::CommitTakesLaterMessages,
        Self::RenewalEndsAtStop,
        Self::LatestVersionReplays,
        Self::DuplicateAccepted,
        Self::UnfencedCommit,
        Self::LapsedLeaseCounts,
        Self::NodeClockDecides,
        Self::CancelBeforeSchedule,
        Self::LostWakeUp,
        Self::DroppedChildRunsOn,
        Self::LeasesNotRenewed,
        Self::CancelLeavesWork,
        Self::DeleteLeavesMessages,
        Self::OtherLifeAccepted,
        Self::CancelLost,
        Self::TagIgnored,
        Self::SessionRunsTwice,
        Self::ForgivenessForgotten,
        Self::KeyValuesLostAtContinue,
        Self::StatusLostAtContinue,
        Self::RefusalToEarlierLife,
        Self::UnbornOutlivesParent,
        Self::TimeGoesBack,
        Self::SpoiltTurnRests,
    ];

    /// What is wrong with code that has it, and where that was seen: A in reviews of this engine, U in published ones.
    #[must_use]
    pub const fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::LateAnswerReplacesNewer => (
                "A0",
                "a late answer to a commit puts an older state into memory in the way of a newer one",
            ),
            Self::OldFutureAfterRestart => (
                "A1",
                "an id that was deleted and started again is continued with the future of its earlier life",
            ),
            Self::MissingOrchestrationCounts => (
                "A2",
                "a node claims instances that it has no code for, and each claim counts as an attempt",
            ),
            Self::MissingActivityCounts => (
                "A2",
                "a node claims activities that it has no code for, and each claim counts as an attempt",
            ),
            Self::CompletionDroppedAfterOutage => (
                "A5",
                "the result of an activity is thrown away when the store is away for a second",
            ),
            Self::WorkKeptAtShutdown => ("A6", "a shutdown leaves aborted work under its lease"),
            Self::SessionsPinnedByBatch => (
                "A7",
                "a batch claim takes more sessions than the node may serve",
            ),
            Self::LettersLostAtContinue => (
                "A9",
                "continue-as-new carries one unread queue message and drops the rest",
            ),
            Self::KeyPerAttempt => (
                "A10",
                "each attempt of a retried activity has an idempotency key of its own",
            ),
            Self::LostLeaseBegins => (
                "A11",
                "an activity that waited for its session begins though its lease is lost",
            ),
            Self::SecondCancelKills => (
                "A12",
                "a second request to cancel ends code that is winding down",
            ),
            Self::LateCancelKills => (
                "A12",
                "a request to cancel that comes with the message that lets code continue as new ends it",
            ),
            Self::MessagesLostBetweenExecutions => (
                "U1",
                "messages that come between two executions are dropped",
            ),
            Self::ParentLostAtContinue => {
                ("U2", "a child that continues as new forgets its parent")
            }
            Self::CollisionUnanswered => ("U3", "a child whose id is taken is never answered"),
            Self::DroppedReaderTakes => ("U4", "a dropped read of a queue still takes a message"),
            Self::SnapshotOfCurrent => (
                "U6",
                "the key-values that replay begins with are those of the running execution",
            ),
            Self::CommitTakesLaterMessages => (
                "U7",
                "a commit takes messages with it that came after its claim",
            ),
            Self::RenewalEndsAtStop => (
                "U9",
                "leases are not renewed any more while a shutdown lets work finish",
            ),
            Self::LatestVersionReplays => (
                "U11",
                "replay runs the newest version instead of the recorded one",
            ),
            Self::DuplicateAccepted => (
                "U14",
                "a completion that is delivered twice is recorded twice",
            ),
            Self::UnfencedCommit => ("U18", "a turn is committed without a check of its lease"),
            Self::LapsedLeaseCounts => ("U18", "the store takes writes of a lease that has lapsed"),
            Self::NodeClockDecides => ("U20", "due times are computed by the node's clock"),
            Self::CancelBeforeSchedule => (
                "U22",
                "an activity that is scheduled and cancelled in one turn runs",
            ),
            Self::LostWakeUp => (
                "U24",
                "a commit does not wake the claims that wait for its messages",
            ),
            Self::DroppedChildRunsOn => {
                ("U33", "a child whose future was dropped is not cancelled")
            }
            Self::LeasesNotRenewed => ("U28", "a lease is not renewed after one failure"),
            Self::CancelLeavesWork => ("U22", "an activity that was cancelled stays queued"),
            Self::DeleteLeavesMessages => (
                "A1",
                "messages of a deleted instance reach the next one of its id",
            ),
            Self::OtherLifeAccepted => (
                "A1",
                "a completion of an earlier life of an id is accepted by a later one",
            ),
            Self::CancelLost => (
                "U1",
                "a request to cancel that comes with other messages is dropped",
            ),
            Self::TagIgnored => (
                "U24",
                "a worker takes activities whose tag it does not serve",
            ),
            Self::SessionRunsTwice => (
                "A7",
                "two activities of a session that belongs to one slot run at once",
            ),
            Self::ForgivenessForgotten => (
                "A6",
                "work that is given back uncounted is counted all the same",
            ),
            Self::KeyValuesLostAtContinue => ("U6", "key-values do not outlive continue-as-new"),
            Self::StatusLostAtContinue => {
                ("U2", "the custom status does not outlive continue-as-new")
            }
            Self::RefusalToEarlierLife => (
                "A1",
                "the refusal of a child's start goes to an earlier life of its parent",
            ),
            Self::UnbornOutlivesParent => (
                "A1",
                "a child that a deleted life of its parent asked for begins all the same",
            ),
            Self::SpoiltTurnRests => (
                "U7",
                "messages of a turn that an outage spoilt rest, and later ones overtake them",
            ),
            Self::TimeGoesBack => ("U20", "recorded time goes back when a clock does"),
        }
    }

    /// Whether the code at hand shall have it.
    #[cfg(not(duroxide_mutants))]
    #[must_use]
    #[inline(always)]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether the code at hand shall have it.
    #[cfg(duroxide_mutants)]
    #[must_use]
    pub fn is_on(self) -> bool {
        ON.with(|on| on.get() == Some(self))
    }

    /// From now on code that this thread runs has this defect, or none.
    #[cfg(duroxide_mutants)]
    pub fn put_back(defect: Option<Self>) {
        ON.with(|on| on.set(defect));
    }
}

#[cfg(duroxide_mutants)]
thread_local! {
    static ON: std::cell::Cell<Option<Defect>> = const { std::cell::Cell::new(None) };
}
