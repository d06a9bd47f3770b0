//! An explanation in words, one line per fact, children indented.

use std::fmt::{self, Display, Formatter};

use duroxide_core::provider::HandlerKind;
use duroxide_core::termination_reason;

use super::types::{ActivityPlace, Explanation, FailedBefore, Finding, Standing, Wait};

/// How much of the last error of a call is put into words.
const ERROR_CHARS_MAX: usize = 300;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Explanation {
    /// The facts as lines: how deep each is indented, and its text.
    fn write(&self, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
        line(f, depth, &self.headline())?;
        for wait in &self.waits {
            line(f, depth + 1, &wait.in_words(self.now_ms))?;
            if let Wait::Child { why: Some(why), .. } = wait {
                why.write(f, depth + 2)?;
            }
        }
        for finding in &self.findings {
            line(f, depth + 1, &finding.in_words(self.now_ms))?;
        }
        if depth == 0 && self.waits.is_empty() && self.is_idle() {
            line(f, 1, "waits for nothing that its history names")?;
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.standing == Standing::Running && self.findings.is_empty()
    }

    fn headline(&self) -> String {
        let who = match (self.name.as_str(), self.version.as_str()) {
            ("", _) => self.instance_id.clone(),
            (name, "") => format!("{} ({name})", self.instance_id),
            (name, version) => format!("{} ({name} {version})", self.instance_id),
        };
        match &self.standing {
            Standing::NotBegun => format!("{who} has not begun: no node has run its first turn"),
            Standing::Running => match self.last_event_ms {
                Some(at) => format!("{who} runs; its last event was {}", ago(at, self.now_ms)),
                None => format!("{who} runs"),
            },
            Standing::BetweenExecutions => {
                let next = self.execution_id + 1;
                format!("{who} continued as new; execution {next} has not begun")
            }
            Standing::Completed { .. } => format!("{who} completed"),
            Standing::Failed { error } => format!("{who} failed: {error}"),
        }
    }
}

fn line(f: &mut Formatter<'_>, depth: usize, text: &str) -> fmt::Result {
    let indent = "  ".repeat(depth);
    // Names and errors are the user's: a line break among them would look like another fact.
    let text = text.replace(['\n', '\r'], " ");
    writeln!(f, "{indent}{text}")
}

impl Wait {
    /// The wait as a sentence, as seen at a time.
    #[must_use]
    pub fn in_words(&self, now_ms: u64) -> String {
        match self {
            Self::Activity {
                event_id,
                name,
                tag,
                session,
                since_ms,
                place,
                failed_before,
            } => {
                let since = ago(*since_ms, now_ms);
                let tag = tag.as_ref().map_or(String::new(), |t| format!(", tag {t}"));
                let session = session.as_ref();
                let session = session.map_or(String::new(), |s| format!(", session {s}"));
                let place = place.in_words(now_ms);
                let before = failed_before.as_ref();
                let before = before.map_or(String::new(), |b| format!("; {}", b.of_call(now_ms)));
                format!(
                    "waits for activity {name} (event {event_id}{tag}{session}), scheduled {since}: {place}{before}"
                )
            }
            Self::Timer {
                event_id,
                due_ms,
                failed_before,
                ..
            } => {
                let due = due(*due_ms, now_ms);
                let after = failed_before.as_ref();
                let after = after.map_or(String::new(), |b| format!(", {}", b.of_answer(now_ms)));
                format!("waits for a timer (event {event_id}), due {due}{after}")
            }
            Self::Signal {
                event_id,
                name,
                since_ms,
            } => {
                let since = ago(*since_ms, now_ms);
                format!("waits for signal {name} (event {event_id}), since {since}")
            }
            Self::Queue {
                event_id,
                name,
                since_ms,
            } => {
                let since = ago(*since_ms, now_ms);
                format!("waits for a message on queue {name} (event {event_id}), since {since}")
            }
            Self::Child {
                event_id,
                name,
                instance_id,
                since_ms,
                ..
            } => {
                let since = ago(*since_ms, now_ms);
                format!(
                    "waits for child {instance_id} ({name}, event {event_id}), scheduled {since}"
                )
            }
        }
    }
}

impl FailedBefore {
    /// Of a call that was asked for again.
    fn of_call(&self, now_ms: u64) -> String {
        let (often, when, error) = self.parts(now_ms);
        format!("failed {often} before, {when}: {error}")
    }

    /// Of what the code did about it.
    fn of_answer(&self, now_ms: u64) -> String {
        let (often, when, error) = self.parts(now_ms);
        let activity = &self.activity;
        format!("set when activity {activity} had failed {often}, {when}: {error}")
    }

    fn parts(&self, now_ms: u64) -> (String, String, String) {
        let (since, error) = (ago(self.at_ms, now_ms), shown(&self.last_error));
        match self.times {
            1 => ("once".to_owned(), since, error),
            n => (format!("{n} times"), format!("last {since}"), error),
        }
    }
}

/// So much of an error as a line can take; the data has all of it.
fn shown(error: &str) -> String {
    match error.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &error[..end]),
        None => error.to_owned(),
    }
}

impl ActivityPlace {
    fn in_words(&self, now_ms: u64) -> String {
        match self {
            Self::Unknown => "this store cannot tell where it is".to_owned(),
            Self::Queued {
                attempts: 0,
                visible_at_ms,
            } if *visible_at_ms <= now_ms => "in the queue, no worker has claimed it".to_owned(),
            Self::Queued {
                visible_at_ms,
                attempts,
            } if *visible_at_ms <= now_ms => {
                format!("in the queue again after {}", times(*attempts))
            }
            Self::Queued {
                visible_at_ms,
                attempts,
            } => {
                let due = due(*visible_at_ms, now_ms);
                format!("in the queue, after {}, next try {due}", times(*attempts))
            }
            Self::Held {
                until_ms,
                attempts,
                worker,
                since_ms,
                silent_since_ms,
            } => {
                let due = due(*until_ms, now_ms);
                let who = holder(worker.as_deref(), *silent_since_ms, now_ms);
                let since =
                    since_ms.map_or(String::new(), |at| format!(", since {}", ago(at, now_ms)));
                format!("{who} holds it, attempt {attempts}{since}, its lease ends {due}")
            }
            Self::Claimed => "a worker has claimed it".to_owned(),
            Self::NotQueued => {
                "not in the queue: its result is on the way, or it was dead-lettered".to_owned()
            }
        }
    }
}

impl Finding {
    /// The finding as a sentence, as seen at a time.
    #[must_use]
    pub fn in_words(&self, now_ms: u64) -> String {
        match self {
            Self::CancelRequested { reason, at_ms } => {
                let since = ago(*at_ms, now_ms);
                match termination_reason(reason) {
                    Some(reason) => format!("termination was requested {since}: {reason}"),
                    None => format!("cancellation was requested {since}: {reason}"),
                }
            }
            Self::DeadLetter { id, reason, at_ms } => {
                let since = ago(*at_ms, now_ms);
                format!("a message was dead-lettered {since} (dead letter {id}): {reason}")
            }
            Self::NotClaimed {
                kind,
                name,
                version,
                count,
                since_ms,
            } => {
                let handler = handler(*kind, name, version.as_deref());
                let since = ago(*since_ms, now_ms);
                format!(
                    "no node claims {handler}: {count} ready, the oldest since {since}; is a node running that has its code?"
                )
            }
            Self::NoNodeHasIt {
                kind,
                name,
                version,
                count,
                since_ms,
                nodes,
            } => {
                let handler = handler(*kind, name, version.as_deref());
                let since = ago(*since_ms, now_ms);
                let seen = match nodes {
                    0 => "no node is up".to_owned(),
                    1 => "the one node that is up does not have it".to_owned(),
                    n => format!("none of the {n} nodes that are up has it"),
                };
                format!(
                    "no handler registered for {handler}: {seen}; {count} ready, the oldest since {since}"
                )
            }
            Self::InLine {
                kind,
                name,
                version,
                count,
                since_ms,
            } => {
                let handler = handler(*kind, name, version.as_deref());
                let since = ago(*since_ms, now_ms);
                format!("{count} of {handler} ready for a node, the oldest since {since}")
            }
            Self::Blocked {
                node,
                report,
                attempts,
            } => {
                let tried = times(*attempts);
                format!(
                    "node {node} cannot go on with it, tried {tried}, and will try again: {report}"
                )
            }
            Self::Paused { since_ms } => {
                let since = ago(*since_ms, now_ms);
                format!("it was paused {since}: nothing of it runs until it is resumed")
            }
            Self::StoreClosed { reason } => {
                format!("the store is closed, nothing in it runs: {reason}")
            }
            Self::TurnRuns { until_ms } => {
                let due = due(*until_ms, now_ms);
                format!("a node runs a turn of it, its lease ends {due}")
            }
            Self::MessagesWait {
                count,
                since_ms,
                attempts,
            } => {
                let since = ago(*since_ms, now_ms);
                let tried = match attempts {
                    0 => "not tried".to_owned(),
                    n => format!("tried {}", times(*n)),
                };
                match count {
                    1 => format!(
                        "1 message is ready since {since}, {tried}; no node has taken it in"
                    ),
                    n => format!(
                        "{n} messages are ready since {since}, {tried}; no node has taken them in"
                    ),
                }
            }
        }
    }
}

/// The worker that holds an activity, as far as it is known.
fn holder(worker: Option<&str>, silent_since_ms: Option<u64>, now_ms: u64) -> String {
    match (worker, silent_since_ms) {
        (None, _) => "a worker".to_owned(),
        (Some(name), None) => format!("worker {name}"),
        (Some(name), Some(at_ms)) => {
            let silent = span(now_ms.saturating_sub(at_ms));
            format!("worker {name}, which has not been heard from for {silent},")
        }
    }
}

fn times(attempts: u32) -> String {
    match attempts {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    }
}

fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(at_ms) {
        0..1_000 => "just now".to_owned(),
        ms => format!("{} ago", span(ms)),
    }
}

fn due(at_ms: u64, now_ms: u64) -> String {
    match at_ms.checked_sub(now_ms) {
        Some(0..1_000) => "now".to_owned(),
        Some(ms) => format!("in {}", span(ms)),
        None => match now_ms - at_ms {
            0..1_000 => "now".to_owned(),
            ms => format!("{} ago", span(ms)),
        },
    }
}

/// The two largest units of a span of time.
fn span(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m {}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h {}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d {}h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// A handler in words.
fn handler(kind: HandlerKind, name: &str, version: Option<&str>) -> String {
    let kind = match kind {
        HandlerKind::Orchestration => "orchestration",
        HandlerKind::Activity => "activity",
    };
    let version = version.map_or(String::new(), |version| format!(" {version}"));
    format!("{kind} {name}{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_their_two_largest_units() {
        assert_eq!(span(59_999), "59s");
        assert_eq!(span(61_000), "1m 1s");
        assert_eq!(span(3_600_000 * 25), "1d 1h");
        assert_eq!(due(500, 0), "now");
        assert_eq!(due(0, 5_000), "5s ago");
        assert_eq!(ago(5_000, 0), "just now", "a clock that was set back");
    }
    #[test]
    fn the_worker_that_holds_an_activity_is_told_as_far_as_it_is_known() {
        let held = |worker: Option<&str>, since_ms, silent_since_ms| {
            let place = ActivityPlace::Held {
                until_ms: 65_000,
                attempts: 2,
                worker: worker.map(str::to_owned),
                since_ms,
                silent_since_ms,
            };
            place.in_words(60_000)
        };
        assert_eq!(
            held(None, None, None),
            "a worker holds it, attempt 2, its lease ends in 5s"
        );
        assert_eq!(
            held(Some("harbour-1"), Some(50_000), None),
            "worker harbour-1 holds it, attempt 2, since 10s ago, its lease ends in 5s"
        );
        assert_eq!(
            held(Some("harbour-1"), Some(30_000), Some(40_000)),
            "worker harbour-1, which has not been heard from for 20s, holds it, attempt 2, since 30s ago, \
             its lease ends in 5s"
        );
    }
    #[test]
    fn a_wait_tells_how_its_call_failed_before() {
        let failed = |times, last_error: String| {
            Some(FailedBefore {
                activity: "charge".to_owned(),
                times,
                last_error,
                at_ms: 57_000,
            })
        };
        let wait = Wait::Activity {
            event_id: 5,
            name: "charge".to_owned(),
            tag: None,
            session: None,
            since_ms: 58_000,
            place: ActivityPlace::Claimed,
            failed_before: failed(2, "no funds".to_owned()),
        };
        assert_eq!(
            wait.in_words(60_000),
            "waits for activity charge (event 5), scheduled 2s ago: a worker has claimed it; failed 2 times before, \
             last 3s ago: no funds"
        );
        let wait = Wait::Timer {
            event_id: 4,
            due_ms: 90_000,
            since_ms: 57_000,
            failed_before: failed(1, "é".repeat(301)),
        };
        let error = "é".repeat(300);
        assert_eq!(
            wait.in_words(60_000),
            format!(
                "waits for a timer (event 4), due in 30s, set when activity charge had failed once, 3s ago: {error}…"
            )
        );
    }
}
