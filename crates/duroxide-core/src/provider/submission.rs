//! What a client gives a store for one instance in one step: a start, messages, or both, under a rule about what has
//! the id. In: a submission and what a store finds. Out: what the store does, and what it answers. Nothing is written
//! here.

use std::time::Duration;

use super::Incarnation;
use super::rules::Refusal;
use crate::event::Event;
use crate::start::StartExtras;
use crate::work_item::WorkItem;

/// What a store finds under an instance id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdState {
    /// Nothing: no instance, and no start that is queued. Messages that came early do not count.
    Unknown,
    /// A start is queued, delayed or not, and its first turn is not committed.
    Starting,
    /// The instance runs, or is between two executions.
    Running,
    /// The instance has completed or failed.
    Ended,
    /// The instance has ended and cannot go alone: something that it started runs, or its parent is there.
    Unfinished,
}

impl IdState {
    /// What a store may find for one id, in the order of [`Submission::steps`].
    pub const FOUND: [Self; 4] = [Self::Unknown, Self::Starting, Self::Running, Self::Ended];

    /// Whether the instance will take messages.
    #[must_use]
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// What a start asks of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartRule {
    /// Nothing may have it.
    MustBeNew,
    /// What has it is used: the start is dropped, and its messages go to what is there, unless that has ended.
    UseWhatIsThere,
    /// Nothing may have it but an instance that has ended; that one is deleted with its tree in the same step.
    ReplaceFinished,
}

/// What messages ask of their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageRule {
    /// An instance runs, or a start is queued.
    MustBeAlive,
    /// As that, or nothing has the id yet.
    MustNotHaveEnded,
    /// The instance has completed or failed: the message is about that, as a request to retry is.
    MustHaveEnded,
}

/// Work items for one instance that a store takes together, or not at all.
///
/// ```
/// use duroxide_core::WorkItem;
/// use duroxide_core::provider::{IdState, MessageRule, Step, Submission};
/// let message = WorkItem::QueueMessage {
///     instance: "order-7".to_owned(),
///     name: "payments".to_owned(),
///     data: "2500".to_owned(),
/// };
/// let send = Submission::messages("order-7", MessageRule::MustBeAlive, vec![message]);
/// assert_eq!(send.step(IdState::Running), Step::StoreMessages);
/// assert_eq!(send.step(IdState::Ended), Step::Nothing);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    instance: String,
    start: Option<Beginning>,
    messages: Vec<WorkItem>,
    rule: Rule,
    /// The only life of the id that it is for.
    life: Option<Incarnation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Beginning {
    item: WorkItem,
    delay: Option<Duration>,
    /// The id of the request that asks for it.
    request: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Start(StartRule),
    Messages(MessageRule),
}

/// What a store does with a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// It stores the start, then the messages in their order.
    StoreAll,
    /// It stores the messages in their order.
    StoreMessages,
    /// It deletes the instance with its tree, if nothing of the tree runs, and stores the start and the messages.
    Replace,
    /// It writes nothing.
    Nothing,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Submitted {
    /// The start and its messages are stored. Nothing had the id, or only what the same request had asked for before.
    Started,
    /// What had the id is deleted; the start and its messages are stored.
    Replaced,
    /// The messages are stored for what has the id; a start is not.
    Joined(IdState),
    /// Nothing is written, because of what has the id.
    Refused(IdState),
}

impl Submission {
    /// A start, visible after `delay`, and messages that are there when it begins.
    #[must_use]
    pub fn start(
        start: WorkItem,
        delay: Option<Duration>,
        rule: StartRule,
        messages: Vec<WorkItem>,
    ) -> Self {
        let request = request_of(&start);
        let item = start;
        Self {
            instance: item.target_instance().to_owned(),
            start: Some(Beginning {
                item,
                delay,
                request,
            }),
            messages,
            rule: Rule::Start(rule),
            life: None,
        }
    }

    /// Messages without a start.
    #[must_use]
    pub fn messages(
        instance: impl Into<String>,
        rule: MessageRule,
        messages: Vec<WorkItem>,
    ) -> Self {
        Self {
            instance: instance.into(),
            start: None,
            messages,
            rule: Rule::Messages(rule),
            life: None,
        }
    }

    /// The same, for this life of the id alone. If another life has the id, a start that is queued included, a store
    /// takes the id for [unknown](IdState::Unknown) and writes nothing; it judges that in the transaction that writes.
    ///
    /// ```
    /// use duroxide_core::WorkItem;
    /// use duroxide_core::provider::{IdState, Incarnation, MessageRule, Step, Submission};
    /// let reason = "enough".to_owned();
    /// let cancel = WorkItem::CancelInstance { instance: "order-7".into(), reason };
    /// let send = Submission::messages("order-7", MessageRule::MustNotHaveEnded, vec![cancel]);
    /// assert_eq!(send.step(IdState::Unknown), Step::StoreMessages);
    /// let fenced = send.of_life(Incarnation::from_random(14));
    /// assert_eq!(fenced.step(IdState::Unknown), Step::Nothing);
    /// assert_eq!(fenced.step(IdState::Running), Step::StoreMessages);
    /// ```
    #[must_use]
    pub fn of_life(mut self, life: Incarnation) -> Self {
        self.life = Some(life);
        self
    }

    /// The life of the id that it is for; any if `None`.
    #[must_use]
    pub fn life(&self) -> Option<Incarnation> {
        self.life
    }

    /// What a store finds that finds this, where the id is this life: nothing, if the submission is for another one.
    #[must_use]
    pub fn as_found(&self, found: IdState, life: Option<Incarnation>) -> IdState {
        if self.life.is_none_or(|wanted| life == Some(wanted)) {
            found
        } else {
            IdState::Unknown
        }
    }

    /// The instance that all of it is for.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether there is a start.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.start.is_some()
    }

    /// The id of the request that asks for the start ([`StartExtras::request`]), if it has one.
    ///
    /// A request that is repeated, because its answer was lost, is answered as the first time: if what has the id began
    /// with the same request ([`asked_for`](Self::asked_for), [`began`](Self::began)), whether it is queued, runs or
    /// has ended, the store writes nothing and answers [`Submitted::Started`], whatever the rule says.
    #[must_use]
    pub fn request(&self) -> Option<&str> {
        self.start.as_ref()?.request.as_deref()
    }

    /// Whether a start that is queued is one that the same request asked for.
    #[must_use]
    pub fn asked_for(&self, queued: &WorkItem) -> bool {
        self.request().is_some() && self.request() == request_of(queued).as_deref()
    }

    /// Whether an execution with this first event is one of an instance that the same request asked for.
    #[must_use]
    pub fn began(&self, first: &Event) -> bool {
        let recorded = || StartExtras::recorded_in(&first.kind).request;
        self.request().is_some() && self.request() == recorded().as_deref()
    }

    /// What a step stores, in order, each item with its delay.
    #[must_use]
    pub fn items(&self, step: Step) -> Vec<(&WorkItem, Option<Duration>)> {
        let start = self.start.iter().map(|start| (&start.item, start.delay));
        let messages = self.messages.iter().map(|item| (item, None));
        match step {
            Step::StoreAll | Step::Replace => start.chain(messages).collect(),
            Step::StoreMessages => messages.collect(),
            Step::Nothing => Vec::new(),
        }
    }

    /// What a store does that finds this.
    #[must_use]
    pub fn step(&self, found: IdState) -> Step {
        if self.life.is_some() && found == IdState::Unknown {
            return Step::Nothing;
        }
        match (self.rule, found) {
            (Rule::Start(_), IdState::Unknown) => Step::StoreAll,
            (Rule::Start(StartRule::ReplaceFinished), IdState::Ended) => Step::Replace,
            (Rule::Start(StartRule::UseWhatIsThere), IdState::Starting | IdState::Running)
            | (
                Rule::Messages(MessageRule::MustBeAlive | MessageRule::MustNotHaveEnded),
                IdState::Starting | IdState::Running,
            )
            | (Rule::Messages(MessageRule::MustNotHaveEnded), IdState::Unknown)
            | (Rule::Messages(MessageRule::MustHaveEnded), IdState::Ended) => Step::StoreMessages,
            (
                Rule::Start(StartRule::MustBeNew | StartRule::ReplaceFinished),
                IdState::Starting | IdState::Running,
            )
            | (Rule::Start(StartRule::MustBeNew | StartRule::UseWhatIsThere), IdState::Ended)
            | (
                Rule::Messages(MessageRule::MustBeAlive | MessageRule::MustHaveEnded),
                IdState::Unknown,
            )
            | (
                Rule::Messages(MessageRule::MustBeAlive | MessageRule::MustNotHaveEnded),
                IdState::Ended,
            )
            | (Rule::Messages(MessageRule::MustHaveEnded), IdState::Starting | IdState::Running)
            | (_, IdState::Unfinished) => Step::Nothing,
        }
    }

    /// The steps for each of [`IdState::FOUND`].
    #[must_use]
    pub fn steps(&self) -> [Step; 4] {
        IdState::FOUND.map(|found| self.step(found))
    }

    /// What a store answers that found this and did that.
    #[must_use]
    pub fn answer(found: IdState, done: Step) -> Submitted {
        match done {
            Step::StoreAll => Submitted::Started,
            Step::Replace => Submitted::Replaced,
            Step::StoreMessages => Submitted::Joined(found),
            Step::Nothing => Submitted::Refused(found),
        }
    }

    /// Whether it is what it says: a start that begins a root, and messages for the same instance that begin nothing.
    ///
    /// # Errors
    ///
    /// The first item that does not belong.
    pub fn check(&self) -> Result<(), Refusal> {
        let unfit = |item: &WorkItem, why: &str| {
            let what = format!("{} for {}", item.kind_name(), item.target_instance());
            Err(Refusal::unstorable(what, why))
        };
        if let Some(start) = &self.start {
            let is_root = matches!(
                start.item,
                WorkItem::StartOrchestration {
                    parent_instance: None,
                    ..
                }
            );
            if !is_root {
                return unfit(&start.item, "it begins no instance of its own");
            }
        }
        for item in &self.messages {
            if item.target_instance() != self.instance {
                return unfit(item, "it was submitted for another instance");
            }
            if item.begins().is_some() || matches!(item, WorkItem::ActivityExecute { .. }) {
                return unfit(item, "it is no message to an instance");
            }
        }
        Ok(())
    }
}

/// The id of the request that asked for a start.
fn request_of(item: &WorkItem) -> Option<String> {
    match item {
        WorkItem::StartOrchestration { input, .. } => {
            StartExtras::of_input(input.clone()).0.request
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(rule: StartRule) -> Submission {
        start_with(rule, String::new())
    }

    fn start_with(rule: StartRule, input: String) -> Submission {
        let item = WorkItem::StartOrchestration {
            instance: "i".to_owned(),
            orchestration: "o".to_owned(),
            input,
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        };
        Submission::start(item, None, rule, vec![message("i")])
    }

    fn message(instance: &str) -> WorkItem {
        WorkItem::QueueMessage {
            instance: instance.to_owned(),
            name: "q".to_owned(),
            data: String::new(),
        }
    }

    #[test]
    fn a_rule_says_what_is_done_with_what_is_found() {
        use Step::{Nothing, Replace, StoreAll, StoreMessages};
        let send = |rule| Submission::messages("i", rule, vec![message("i")]);
        for (submission, steps) in [
            (
                start(StartRule::MustBeNew),
                [StoreAll, Nothing, Nothing, Nothing],
            ),
            (
                start(StartRule::UseWhatIsThere),
                [StoreAll, StoreMessages, StoreMessages, Nothing],
            ),
            (
                start(StartRule::ReplaceFinished),
                [StoreAll, Nothing, Nothing, Replace],
            ),
            (
                send(MessageRule::MustBeAlive),
                [Nothing, StoreMessages, StoreMessages, Nothing],
            ),
            (
                send(MessageRule::MustNotHaveEnded),
                [StoreMessages, StoreMessages, StoreMessages, Nothing],
            ),
            (
                send(MessageRule::MustHaveEnded),
                [Nothing, Nothing, Nothing, StoreMessages],
            ),
            (
                send(MessageRule::MustNotHaveEnded).of_life(Incarnation::from_random(14)),
                [Nothing, StoreMessages, StoreMessages, Nothing],
            ),
        ] {
            assert_eq!(submission.steps(), steps, "{submission:?}");
            assert_eq!(submission.step(IdState::Unfinished), Nothing);
            assert!(submission.check().is_ok());
        }
    }

    #[test]
    fn a_step_stores_the_start_first_and_the_messages_in_their_order() {
        let all = start(StartRule::MustBeNew);
        let kinds = |step| -> Vec<_> {
            let items = all.items(step);
            items.iter().map(|(item, _)| item.kind_name()).collect()
        };
        assert_eq!(
            kinds(Step::StoreAll),
            ["StartOrchestration", "QueueMessage"]
        );
        assert_eq!(kinds(Step::StoreMessages), ["QueueMessage"]);
        assert!(kinds(Step::Nothing).is_empty());
    }

    #[test]
    fn a_request_knows_its_own_start_and_no_other() {
        let by = |request: &str| {
            let extras = StartExtras::default().with_request(request).unwrap();
            let input = extras.in_front_of("mine".to_owned());
            let first = crate::event::EventKind::OrchestrationStarted {
                name: "o".to_owned(),
                version: "1.0.0".to_owned(),
                input: "mine".to_owned(),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: Some(extras.carried().into_iter().collect()),
                initial_custom_status: None,
            };
            let first = Event::with_event_id(1, "i", 1, None, first);
            (start_with(StartRule::MustBeNew, input), first)
        };
        let ((mine, began), (other, began_by_other)) = (by("1"), by("2"));
        let (anonymous, queued) = (start(StartRule::MustBeNew), mine.items(Step::StoreAll)[0].0);
        assert_eq!(mine.request(), Some("1"));
        assert!(mine.asked_for(queued) && mine.began(&began));
        assert!(!other.asked_for(queued) && !mine.began(&began_by_other));
        assert!(!anonymous.asked_for(queued) && !anonymous.began(&began));
        let queued = anonymous.items(Step::StoreAll)[0].0;
        assert!(!anonymous.asked_for(queued), "nobody is not somebody");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let stray = Submission::messages("i", MessageRule::MustBeAlive, vec![message("other")]);
        assert!(stray.check().is_err());
        let no_start = Submission::start(message("i"), None, StartRule::MustBeNew, Vec::new());
        assert!(no_start.check().is_err());
    }
}
