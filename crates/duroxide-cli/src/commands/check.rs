//! The engine's own invariants over every history of a store.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use duroxide_core::provider::{InstanceQuery, InstanceStatus, InstanceSummary};
use duroxide_core::{Event, EventKind};
use duroxide_runtime::client::Client;
use serde::Serialize;
use serde_json::json;

use super::files;
use crate::failure::Failure;
use crate::filter;
use crate::output::Output;

/// Something that no run of the engine leaves behind.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    instance_id: String,
    execution_id: u64,
    what: String,
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    sqlite_file: Option<PathBuf>,
) -> Result<(), Failure> {
    let instances = filter::all(client, InstanceQuery::new()).await?;
    let known: HashSet<&str> = instances
        .iter()
        .map(|one| one.instance_id.as_str())
        .collect();
    let bar = output.progress(instances.len(), "check");
    let (mut problems, mut executions, mut events) = (Vec::new(), 0, 0);
    for instance in &instances {
        let mut note = |execution_id: u64, what: String| {
            problems.push(Problem {
                instance_id: instance.instance_id.clone(),
                execution_id,
                what,
            });
        };
        if let Some(parent) = instance.parent.as_deref().filter(|p| !known.contains(p)) {
            note(
                instance.execution_id,
                format!("its parent {parent} is gone"),
            );
        }
        let ids = client.list_executions(&instance.instance_id).await?;
        if ids.last() != Some(&instance.execution_id) {
            note(
                instance.execution_id,
                format!("is current, and the executions are {ids:?}"),
            );
        }
        for execution in ids {
            executions += 1;
            let history = client
                .read_execution_history(&instance.instance_id, execution)
                .await;
            match history {
                Ok(history) => {
                    events += history.len();
                    let is_current = execution == instance.execution_id;
                    for what in flaws(&history, execution, is_current.then_some(instance)) {
                        note(execution, what);
                    }
                }
                Err(error) => note(execution, format!("the history cannot be read: {error}")),
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(file) = sqlite_file {
        for what in files::integrity(file).await? {
            problems.push(Problem {
                instance_id: "the file".to_owned(),
                execution_id: 0,
                what,
            });
        }
    }
    report(output, instances.len(), executions, events, &problems)
}

fn report(
    output: &Output,
    instances: usize,
    executions: usize,
    events: usize,
    problems: &[Problem],
) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "instances": instances, "executions": executions,
                                 "events": events, "problems": problems }))?;
    } else {
        for problem in problems {
            let (id, execution, what) = (&problem.instance_id, problem.execution_id, &problem.what);
            output.line(format!("{id}, execution {execution}: {what}"))?;
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

/// What is wrong with one history.
fn flaws(history: &[Event], execution: u64, current: Option<&InstanceSummary>) -> Vec<String> {
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
    if let Some(summary) = current {
        let told = match &last.kind {
            EventKind::OrchestrationCompleted { .. } => InstanceStatus::Completed,
            EventKind::OrchestrationFailed { .. } => InstanceStatus::Failed,
            EventKind::OrchestrationContinuedAsNew { .. } => InstanceStatus::ContinuedAsNew,
            _ => InstanceStatus::Running,
        };
        if told != summary.status {
            flaws.push(format!(
                "the store says {} and the history says {told}",
                summary.status
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
        let running = InstanceSummary::new("i", "order", "1.0.0");
        flaws(&history, 1, Some(&running))
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
