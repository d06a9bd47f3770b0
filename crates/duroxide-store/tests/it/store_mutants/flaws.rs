//! The promises that mutants break.

macro_rules! flaws {
    ($($name:ident: $story:literal;)*) => {
        /// The promise that a mutant breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Flaw {
            /// None: the store as it is.
            None,
            $(#[doc = $story] $name,)*
        }

        impl Flaw {
            /// Every one of them.
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

flaws! {
    LeaseIsNoLease: "a lease runs out at once";
    LeaseIsEndless: "a lease never runs out";
    LabelsIgnored: "a claim takes what has another label";
    KindsIgnored: "a claim takes what is of another kind";
    AlarmOpensNothing: "an old alarm does not open its group";
    AlarmOpensAtOnce: "a young alarm opens its group";
    BatchOfOne: "a claim takes one of several";
    BatchTooLarge: "a claim takes one more than was asked for";
    MessageBoundIgnored: "a claim takes all messages of a group, whatever was asked for";
    MessageBoundOfAllIgnored: "a claim takes group after group, however many messages it has";
    ByteBoundOfAllIgnored: "a claim takes group after group, however many bytes it has";
    ByteBoundIgnored: "a claim takes all bytes of a group, whatever was asked for";
    FollowerBoundIgnored: "a claim takes all followers, whatever was asked for";
    NewKeysUnbounded: "an owner gets every free key";
    OwnersIgnored: "keys are for nobody";
    KeysAreForEver: "an owner never loses a key";
    NeverWaits: "a claim does not wait";
    AlwaysWaits: "a claim waits though nobody asked it to";
    HandedOutTwice: "a claim hands the last of what it takes out twice";
    LooksEveryNineSeconds: "a waiting claim looks from time to time";
    ClaimGuardsIgnored: "the guards of a claim are not looked at";
    NothingAttached: "a claim comes without the entry of its group";
    MessagesReversed: "the messages of a group come newest first";
    LastMessageLost: "the last message of a larger claim is not handed out";
    AttemptsFromZero: "attempts are counted from zero";
    AttemptsForgotten: "every attempt is the first";
    LeadToComeHidden: "a claim does not say that a lead is to come";
    NewestGroupFirst: "a claim of several hands them out newest first";
    EntryGuardsIgnored: "guards on entries are not looked at";
    LeaseGuardsIgnored: "a lost lease does not stop a batch";
    DisturbanceIgnored: "a group that was stirred is taken for calm";
    LeadGuardsIgnored: "guards on leads are not looked at";
    GuardsBeforehand: "guards are looked at before the transaction, not in it";
    OneByOne: "the operations of a batch are stored one by one";
    LastFirst: "the operations of a batch are applied last first";
    CountsNothing: "a batch counts nothing";
    TopicsLost: "no watch notices anything";
    TopicsMixed: "a watch notices commits of other topics";
    NeverForgives: "a forgiven claim counts";
    AlwaysForgives: "a claim never counts";
    ReleaseAtOnce: "a delayed release is not delayed";
    RestIsNoRest: "a group that should rest does not";
    RestIsDeaf: "a message that comes does not end a rest";
    RenewalOfOneLength: "a renewal is of one length, whatever was asked for";
    RenewalRevives: "a renewal of a lost lease succeeds";
    CompletionOfTheLost: "a lost lease can be completed, without effect";
    ReleaseOfTheLost: "a lost lease can be released, without effect";
    NumbersSkipped: "an event whose number is taken is left out silently";
    DelaysIgnored: "delayed messages are visible at once";
    LabelsLost: "messages are stored without their labels";
    KindsLost: "messages are stored without their kinds";
    RolesLost: "messages are stored without their roles";
    KeysLost: "messages are stored without their keys";
    AffinitiesLost: "messages are stored without their affinity";
    FollowersAlwaysCome: "followers come with a successor that should keep them back";
    UrgentIsNotUrgent: "an urgent alarm is like any other";
    ScopesByPrefix: "deleting a scope deletes those that begin alike";
    EntitiesByPrefix: "deleting an entity deletes those that begin alike";
    GroupsByPrefix: "deleting a group deletes those that begin alike";
    DeletedGroupIsRemembered: "a deleted group keeps its lease, its label and what it holds back";
    GroupLabelsLost: "a group has no label";
    GroupKindsLost: "a group has no kind of its own";
    NothingHeldBack: "followers that should be held back are not";
    NothingShown: "messages cannot be shown before their time";
    KeyedTakesTheGroup: "a deletion by key deletes the whole group";
    IdleKeysRenewed: "keys that are idle are renewed";
    KeysNeverRenewed: "keys are not renewed";
    KeysNeverSwept: "keys that nobody needs stay";
    EventsReversed: "events are read newest first";
    LimitsIgnored: "a page is as long as there is to tell";
    PagesFromTheStart: "every page is the first";
    EntriesReversed: "entries are read in another order than that of their keys";
    AnswersApart: "queries asked together are answered one by one";
    LapsedLeasesTold: "a lease is told after it has run out";
    LeasesUntold: "leases of a group are not told";
    LeaseUnknown: "a lease cannot be looked up";
    BacklogNewestFirst: "a backlog is told newest first";
    DepthsWithoutLeases: "depths do not tell what is leased";
    CharactersCounted: "the size of a partition is counted in characters";
    PartitionsAsText: "partitions are listed as texts are sorted";
    NulCut: "texts end at their first NUL";
    StepBackHides: "nothing can be claimed after the clock was set back";
    StepBackLengthens: "a clock that is set back lengthens the leases";
    StepBackMakesEarly: "a time told after the clock was set back is early";
    DeliveriesMix: "a queue can be used for groups and for single messages";
    TwoStores: "a second handle sees a store of its own";
    KeepsNothing: "nothing is there when the store is opened again";
    LeasesDieWithTheProcess: "leases are over when the store is opened again";
}
