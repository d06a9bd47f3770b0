//! What a case may need beyond the required methods, and the sentence for the report if it is not there.

/// Something optional that a case may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// The store has an administrative half.
    Management,
    /// A fetch returns at once when there is nothing.
    ShortPoll,
    /// A fetch waits for work.
    LongPoll,
    /// The factory can damage a history.
    CorruptHistory,
    /// The factory can read attempt counts.
    AttemptCounts,
    /// The factory can damage queued messages and activities.
    CorruptMessages,
    /// The factory can open the same store twice.
    SecondHandle,
    /// The factory can open the same store from a machine with a wrong clock.
    SkewedHandle,
    /// The factory says after which time the store consumes messages that belong to no instance.
    UnknownInstanceGrace,
    /// The store keeps dead letters.
    DeadLetters,
    /// The store claims several instances in one step.
    BatchedTurns,
    /// The store claims several activities in one step.
    BatchedWork,
    /// The store reports the attempts of each message.
    MessageAttempts,
    /// The store reports which activity leases are lost.
    LostWork,
    /// The store reports which life of an id was claimed.
    Incarnations,
    /// The store hands work only to those who have code for it.
    Handlers,
    /// The store bounds what one claim takes.
    Bounds,
    /// The store bounds what one claim takes of all its instances together.
    BoundsInAll,
    /// The store lists ready work by handler.
    ReadyWork,
    /// The store reports what lies in its queues for one instance.
    PendingWork,
    /// The store puts dead letters back into their queues.
    Requeue,
    /// The store pauses instances.
    Pausing,
    /// The store lets claimed instances rest.
    Resting,
    /// The store holds queue messages back while the code wants none.
    HeldQueueMessages,
    /// The store lets a failed instance begin another execution with a part of its record.
    Rewinding,
    /// The store changes labels for an operator.
    Labelling,
    /// The store keeps a list of its nodes.
    Nodes,
    /// The store gives a duty to one node at a time.
    Duties,
    /// The store takes and restores snapshots of instances.
    Snapshots,
    /// The store can be closed for the engine and its clients.
    Closing,
    /// The factory can set the store's clock back.
    ClockSetBack,
    /// The factory can close the store and open it again.
    Reopen,
    /// The store keeps what activities say about their progress.
    Heartbeats,
    /// The store takes a start and its messages in one step, by a rule about the id.
    Submissions,
    /// The store does things to one life of an id alone.
    Lives,
    /// The store keeps what nodes note of instances that they cannot go on with.
    Blocking,
    /// The store wakes those who wait for an instance.
    Watch,
}

impl Capability {
    /// What only a factory can offer: each stands for a method of [`ProviderFactory`](crate::ProviderFactory).
    pub const OF_FACTORIES: &'static [Self] = &[
        Self::CorruptHistory,
        Self::AttemptCounts,
        Self::CorruptMessages,
        Self::SecondHandle,
        Self::SkewedHandle,
        Self::Reopen,
        Self::ClockSetBack,
        Self::UnknownInstanceGrace,
    ];

    /// Everything that a store which waits for work and its factory can offer, but these: what a factory declares in
    /// [`must_offer`](crate::ProviderFactory::must_offer) that names the few things it cannot do.
    ///
    /// ```
    /// use duroxide_validation::Capability;
    ///
    /// let declared = Capability::all_but(&[Capability::SkewedHandle]);
    /// assert!(declared.contains(&Capability::SecondHandle) && declared.contains(&Capability::Watch));
    /// assert!(!declared.contains(&Capability::SkewedHandle));
    /// ```
    #[must_use]
    pub fn all_but(absent: &[Self]) -> Vec<Self> {
        let all = Self::OF_STORES.iter().chain(Self::OF_FACTORIES);
        let offered = all.filter(|capability| !absent.contains(capability));
        offered.copied().collect()
    }

    /// What a store can offer that implements all of the contract and waits for work.
    pub const OF_STORES: &'static [Self] = &[
        Self::Management,
        Self::LongPoll,
        Self::DeadLetters,
        Self::BatchedTurns,
        Self::BatchedWork,
        Self::MessageAttempts,
        Self::LostWork,
        Self::Incarnations,
        Self::Handlers,
        Self::Bounds,
        Self::BoundsInAll,
        Self::ReadyWork,
        Self::PendingWork,
        Self::Requeue,
        Self::Pausing,
        Self::Resting,
        Self::HeldQueueMessages,
        Self::Rewinding,
        Self::Labelling,
        Self::Nodes,
        Self::Duties,
        Self::Snapshots,
        Self::Closing,
        Self::Heartbeats,
        Self::Submissions,
        Self::Lives,
        Self::Blocking,
        Self::Watch,
    ];

    /// Why a case cannot run without it.
    pub(crate) fn without_it(self) -> &'static str {
        match self {
            Self::Management => "the store has no administrative half",
            Self::ShortPoll => "the store long-polls",
            Self::LongPoll => "the store does not long-poll",
            Self::CorruptHistory => "the factory cannot damage a history",
            Self::AttemptCounts => "the factory cannot read attempt counts",
            Self::CorruptMessages => "the factory cannot damage queued messages",
            Self::SecondHandle => "the factory cannot open the store twice",
            Self::SkewedHandle => "the factory cannot open the store with a skewed clock",
            Self::UnknownInstanceGrace => {
                "the factory names no grace period for messages to unknown instances"
            }
            Self::DeadLetters => "the store keeps no dead letters",
            Self::BatchedTurns => "the store claims one instance at a time",
            Self::BatchedWork => "the store claims one activity at a time",
            Self::MessageAttempts => "the store does not report attempts per message",
            Self::LostWork => "the store does not report lost activity leases",
            Self::Incarnations => "the store does not tell the lives of an id apart",
            Self::Handlers => "the store hands out work without regard to handlers",
            Self::Bounds => "the store does not bound its claims",
            Self::BoundsInAll => "the store bounds its claims for each instance only",
            Self::ReadyWork => "the store does not list ready work",
            Self::PendingWork => "the store does not report what lies in its queues",
            Self::Requeue => "the store does not put dead letters back in one step",
            Self::Pausing => "the store does not pause instances",
            Self::Resting => "the store lets no claimed instance rest",
            Self::HeldQueueMessages => "the store holds no queue messages back",
            Self::Rewinding => "the store cannot rewind a failed instance",
            Self::Labelling => "the store does not change labels for an operator",
            Self::Nodes => "the store keeps no list of its nodes",
            Self::Duties => "the store gives no duties to nodes",
            Self::Snapshots => "the store takes no snapshots of instances",
            Self::Closing => "the store cannot be closed",
            Self::Heartbeats => "the store keeps nothing of what activities say",
            Self::Submissions => "the store looks and writes in two steps",
            Self::Lives => "the store does nothing to one life of an id alone",
            Self::Blocking => "the store keeps no notes about blocked instances",
            Self::ClockSetBack => "the factory cannot set the clock back",
            Self::Reopen => "the factory cannot open the store again",
            Self::Watch => "the store cannot wake waiting clients",
        }
    }
}
