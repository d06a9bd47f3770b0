//! The engine's own invariants over every history of a store.

use std::collections::BTreeMap;
use std::path::Path;

use duroxide_core::provider::{InstanceInfo, InstanceQuery, InstanceStatus, InstanceSummary};
use duroxide_core::{Event, EventKind, StartExtras};
use duroxide_runtime::client::{Client, ClientError};
use serde::Serialize;
use serde_json::json;

use super::files;
use crate::failure::Failure;
use crate::filter::Pages;
use crate::output::Output;

/// How often an instance that moves is looked at.
const LOOKS: usize = 5;

/// Something that no run of the engine leaves behind.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    instance_id: String,
    execution_id: u64,
    what: String,
}

/// What was looked at.
#[derive(Debug, Default)]
struct Seen {
    instances: usize,
    executions: usize,
    events: usize,
    problems: Vec<Problem>,
}

impl Seen {
    fn problem(&mut self, instance: &str, execution_id: u64, what: String) {
        self.problems.push(Problem {
            instance_id: instance.to_owned(),
            execution_id,
            what,
        });
    }
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    sqlite_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut seen = Seen::default();
    // First: a damaged page may be why nothing else can be read.
    if let Some(file) = sqlite_file {
        match files::integrity(file.to_owned()).await {
            Ok(found) => {
                for what in found {
                    seen.problem("the file", 0, what);
                }
            }
            Err(error) => seen.problem("the file", 0, format!("cannot be read: {error}")),
        }
    }
    let bar = output.progress(0, "check");
    let mut pages = Pages::of(client, InstanceQuery::new());
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => break,
            Err(error) => {
                seen.problem(
                    "the store",
                    0,
                    format!("instances cannot be listed: {error}"),
                );
                break;
            }
        };
        bar.inc_length(page.len() as u64);
        for instance in page {
            seen.instances += 1;
            check_instance(client, instance, &mut seen).await;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    report(output, &seen)
}

/// Looks at one instance, and again if something is wrong: a node may have moved it between two reads. What is reported
/// was seen while nothing moved.
async fn check_instance(client: &Client, listed: InstanceSummary, seen: &mut Seen) {
    let id = listed.instance_id.clone();
    for _ in 0..LOOKS {
        let before = match client.get_instance_info(&id).await {
            Ok(info) => info,
            Err(ClientError::InstanceNotFound { .. }) => return,
            Err(error) => return seen.problem(&id, 0, format!("cannot be read: {error}")),
        };
        let look = look(client, &before).await;
        if !look.problems.is_empty() && !is_unmoved(client, &before).await {
            continue;
        }
        seen.executions += look.executions;
        seen.events += look.events;
        seen.problems.extend(look.problems);
        return;
    }
    // It moves faster than it can be read, so it works.
}

/// Whether the instance is as it was: same life, execution, status and last turn.
async fn is_unmoved(client: &Client, before: &InstanceInfo) -> bool {
    let now = client.get_instance_info(&before.instance_id).await;
    now.is_ok_and(|now| {
        let moves = |info: &InstanceInfo| {
            let (execution, status) = (info.current_execution_id, info.status.clone());
            (info.created_at, info.updated_at, execution, status)
        };
        moves(&now) == moves(before)
    })
}

async fn look(client: &Client, instance: &InstanceInfo) -> Seen {
    let (id, current) = (&instance.instance_id, instance.current_execution_id);
    let mut seen = Seen::default();
    let executions = match client.list_executions(id).await {
        Ok(executions) => executions,
        Err(error) => {
            seen.problem(
                id,
                current,
                format!("its executions cannot be listed: {error}"),
            );
            return seen;
        }
    };
    if executions.last() != Some(&current) {
        let what = format!("is current, and the executions are {executions:?}");
        seen.problem(id, current, what);
    }
    for execution in executions {
        seen.executions += 1;
        match client.read_execution_history(id, execution).await {
            Ok(history) => {
                seen.events += history.len();
                let status = InstanceStatus::of_stored(&instance.status);
                let status = (execution == current).then_some(status);
                for what in flaws(&history, execution, status) {
                    seen.problem(id, execution, what);
                }
            }
            Err(error) => {
                seen.problem(
                    id,
                    execution,
                    format!("the history cannot be read: {error}"),
                );
            }
        }
    }
    seen
}

fn report(output: &Output, seen: &Seen) -> Result<(), Failure> {
    let Seen {
        instances,
        executions,
        events,
        problems,
    } = seen;
    if output.json {
        output.document(&json!({ "instances": instances, "executions": executions,
                                 "events": events, "problems": problems }))?;
    } else {
        for problem in problems {
            let (id, execution, what) = (&problem.instance_id, problem.execution_id, &problem.what);
            output.line(match execution {
                0 => format!("{id}: {what}"),
                _ => format!("{id}, execution {execution}: {what}"),
            })?;
        }
        let count = problems.len();
        output.line(format!(
            "{instances} instances, {executions} executions, {events} events, {count} problems"
        ))?;
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(Failure::Problems(count)),
    }
}

/// What is wrong with one history; the store says the status of the current one.
fn flaws(history: &[Event], execution: u64, current: Option<InstanceStatus>) -> Vec<String> {
    let mut flaws = Vec::new();
    let Some((first, last)) = history.first().zip(history.last()) else {
        return vec!["it has no history".to_owned()];
    };
    if first.started_handler().is_none() {
        flaws.push("the first event is not its start".to_owned());
    }
    let mut open = BTreeMap::new();
    for (at, event) in history.iter().enumerate() {
        let id = event.event_id;
        if id != at as u64 + 1 {
            flaws.push(format!("event {id} stands at position {}", at + 1));
        }
        if event.execution_id != execution {
            flaws.push(format!(
                "event {id} belongs to execution {}",
                event.execution_id
            ));
        }
        if at > 0 && event.started_handler().is_some() {
            flaws.push(format!("event {id} is a second start"));
        }
        if event.is_terminal() && id != last.event_id {
            flaws.push(format!("event {id} ends it and is not the last"));
        }
        flaws.extend(answered_wrongly(event, &mut open));
    }
    if let Some(status) = current {
        let recorded = match &last.kind {
            EventKind::OrchestrationCompleted { .. } => InstanceStatus::Completed,
            EventKind::OrchestrationFailed { .. } => InstanceStatus::Failed,
            EventKind::OrchestrationContinuedAsNew { .. } => InstanceStatus::ContinuedAsNew,
            _ => InstanceStatus::Running,
        };
        if recorded != status {
            flaws.push(format!(
                "the store says {status} and the history says {recorded}"
            ));
        }
    } else if !last.is_terminal() {
        flaws.push("a later execution exists and it has not ended".to_owned());
    }
    flaws
}

/// Whether an answer has no question, or the wrong one, or is the second. `open` holds the questions so far.
fn answered_wrongly(event: &Event, open: &mut BTreeMap<u64, Question>) -> Option<String> {
    let id = event.event_id;
    if let Some(question) = Question::of(event) {
        open.insert(id, question);
        return None;
    }
    let wanted = Question::answered_by(event)?;
    let Some(source) = event.source_event_id else {
        return Some(format!("event {id} does not say what it answers"));
    };
    match open.get(&source) {
        Some(question) if *question == wanted => {
            open.insert(source, Question::Answered);
            None
        }
        Some(Question::Answered) => Some(format!("event {id} answers event {source} again")),
        Some(_) => Some(format!(
            "event {id} answers event {source}, which is of another kind"
        )),
        None => Some(format!(
            "event {id} answers event {source}, which asked nothing"
        )),
    }
}

/// What an event asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Activity,
    Timer,
    Child,
    Answered,
}

impl Question {
    fn of(event: &Event) -> Option<Self> {
        match event.kind {
            EventKind::ActivityScheduled { .. } => Some(Self::Activity),
            // The deadline of an instance is a timer of its start.
            EventKind::OrchestrationStarted { .. }
                if StartExtras::recorded_in(&event.kind).deadline_ms.is_some() =>
            {
                Some(Self::Timer)
            }
            EventKind::TimerCreated { .. } => Some(Self::Timer),
            EventKind::SubOrchestrationScheduled { .. } => Some(Self::Child),
            _ => None,
        }
    }

    fn answered_by(event: &Event) -> Option<Self> {
        match event.kind {
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                Some(Self::Activity)
            }
            EventKind::TimerFired { .. } => Some(Self::Timer),
            EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. } => Some(Self::Child),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> (Option<u64>, EventKind) {
        let kind = EventKind::OrchestrationStarted {
            name: "order".into(),
            version: "1.0.0".into(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        };
        (None, kind)
    }

    fn timer() -> (Option<u64>, EventKind) {
        (None, EventKind::TimerCreated { fire_at_ms: 9 })
    }

    fn fired(source: u64) -> (Option<u64>, EventKind) {
        (Some(source), EventKind::TimerFired { fire_at_ms: 9 })
    }

    fn found(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<String> {
        let number = |(at, (source, kind)): (usize, (Option<u64>, EventKind))| {
            Event::with_event_id(at as u64 + 1, "i", 1, source, kind)
        };
        let history: Vec<_> = kinds.into_iter().enumerate().map(number).collect();
        flaws(&history, 1, Some(InstanceStatus::Running))
    }

    #[test]
    fn a_history_of_the_engine_has_no_flaw() {
        assert_eq!(
            found(vec![start(), timer(), fired(2)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_invariant_is_looked_at() {
        let missing = found(vec![timer()]);
        assert_eq!(missing, ["the first event is not its start"]);
        let twice = found(vec![start(), timer(), fired(2), fired(2)]);
        assert_eq!(twice, ["event 4 answers event 2 again"]);
        let nothing = found(vec![start(), fired(7)]);
        assert_eq!(nothing, ["event 2 answers event 7, which asked nothing"]);
        let result = String::new();
        let wrong = found(vec![
            start(),
            timer(),
            (Some(2), EventKind::ActivityCompleted { result }),
        ]);
        assert_eq!(wrong, ["event 3 answers event 2, which is of another kind"]);
        let output = String::new();
        let ended = found(vec![
            start(),
            (None, EventKind::OrchestrationCompleted { output }),
            timer(),
        ]);
        assert_eq!(ended, ["event 2 ends it and is not the last"]);
        let status = found(vec![
            start(),
            (
                None,
                EventKind::OrchestrationCompleted {
                    output: String::new(),
                },
            ),
        ]);
        assert_eq!(
            status,
            ["the store says Running and the history says Completed"]
        );
    }
}
