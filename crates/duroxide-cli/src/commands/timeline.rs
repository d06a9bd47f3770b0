//! The history of an instance in words and bars, with the lines of its children between its own, as `git log --graph`
//! draws branches. In: a history. Out: a table. What is left out is said.

use std::collections::{BTreeMap, HashSet};

use duroxide_core::{Event, EventKind, build_child_instance_id};
use duroxide_runtime::client::{Client, ClientError};

use super::words;
use crate::failure::Failure;
use crate::output::{Output, Rows, count_of, shorten, span};

/// How wide the bars are, in characters.
const BAR: usize = 24;
/// How much of an event's words is shown.
const WORDS: usize = 60;
/// How many children are drawn over all, and how many lines each.
const CHILDREN_MAX: usize = 20;
const LINES_MAX: usize = 40;

/// An instance and the children that are drawn below it, by the event that scheduled them.
struct Drawn {
    history: Vec<Event>,
    children: BTreeMap<u64, (String, Drawn)>,
}

/// Reads children until enough are read.
struct Reader<'a> {
    client: &'a Client,
    seen: HashSet<String>,
    left_out: u64,
}

impl Reader<'_> {
    async fn read(&mut self, id: &str, history: Vec<Event>, depth: u32) -> Result<Drawn, Failure> {
        let mut children = BTreeMap::new();
        for event in &history {
            let Some(child) = child_of(id, event).filter(|_| depth > 0) else {
                continue;
            };
            if self.seen.len() == CHILDREN_MAX {
                self.left_out += 1;
                continue;
            }
            if !self.seen.insert(child.clone()) {
                continue;
            }
            if let Some(history) = self.history_of(&child, id).await? {
                let below = Box::pin(self.read(&child, history, depth - 1)).await?;
                children.insert(event.event_id, (child, below));
            }
        }
        Ok(Drawn { history, children })
    }

    /// The current execution of a child; `None` if the id is gone, has not begun or belongs to somebody else.
    async fn history_of(&self, child: &str, parent: &str) -> Result<Option<Vec<Event>>, Failure> {
        let info = match self.client.get_instance_info(child).await {
            Ok(info) => info,
            Err(ClientError::InstanceNotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if info.parent_instance_id.as_deref() != Some(parent) {
            return Ok(None);
        }
        let execution = info.current_execution_id;
        let history = self.client.read_execution_history(child, execution).await?;
        Ok(Some(history))
    }
}

/// The child that an event asked for.
fn child_of(parent: &str, event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => {
            Some(build_child_instance_id(parent, instance))
        }
        _ => None,
    }
}

/// One line per thing that took time or happened, with a bar for its share of the whole.
pub(crate) async fn draw(
    client: &Client,
    output: &Output,
    (id, history): (&str, Vec<Event>),
    depth: u32,
) -> Result<(), Failure> {
    let mut reader = Reader {
        client,
        seen: HashSet::new(),
        left_out: 0,
    };
    let drawn = reader.read(id, history, depth).await?;
    let Some(begin) = drawn.history.first().map(|first| first.timestamp_ms) else {
        return Ok(());
    };
    let whole = Whole {
        begin,
        length: last_of(&drawn).saturating_sub(begin).max(1),
    };
    let mut rows = Rows::new(&["EVENT", "AT", "TOOK", "TIMELINE", "WHAT"]);
    lines(&mut rows, &drawn, whole, &Graph::default());
    output.table(rows)?;
    if reader.left_out > 0 {
        let more = reader.left_out;
        output.note(format!(
            "{more} more children are not drawn; `duroxide tree {id}` lists all of them"
        ));
    }
    Ok(())
}

/// When the last event of an instance or its children was made.
fn last_of(drawn: &Drawn) -> u64 {
    let own = drawn.history.last().map_or(0, |last| last.timestamp_ms);
    let below = drawn.children.values().map(|(_, below)| last_of(below));
    below.fold(own, u64::max)
}

/// What all bars are shares of.
#[derive(Debug, Clone, Copy)]
struct Whole {
    begin: u64,
    length: u64,
}

/// What stands before the words of an instance's lines.
#[derive(Debug, Clone, Default)]
struct Graph {
    branch: String,
    last: String,
    trunk: String,
}

impl Graph {
    /// That of a child.
    fn below(&self) -> Self {
        let trunk = &self.trunk;
        Self {
            branch: format!("{trunk}├─ "),
            last: format!("{trunk}└─ "),
            trunk: format!("{trunk}│  "),
        }
    }
}

fn lines(rows: &mut Rows, drawn: &Drawn, whole: Whole, graph: &Graph) {
    let history = &drawn.history;
    let answers: BTreeMap<u64, &Event> = history
        .iter()
        .filter_map(|event| event.source_event_id.map(|source| (source, event)))
        .collect();
    let is_child = !graph.branch.is_empty();
    let own: Vec<&Event> = history
        .iter()
        .filter(|event| event.source_event_id.is_none())
        .collect();
    let shown = if is_child {
        LINES_MAX.min(own.len())
    } else {
        own.len()
    };
    for (at, event) in own.iter().take(shown).enumerate() {
        let is_last = is_child && at + 1 == own.len();
        let head = if is_last {
            graph.last.as_str()
        } else {
            graph.branch.as_str()
        };
        line(
            rows,
            event,
            answers.get(&event.event_id).copied(),
            (whole, head),
        );
        if let Some((_, below)) = drawn.children.get(&event.event_id) {
            lines(rows, below, whole, &graph.below());
        }
    }
    if shown < own.len() {
        let (head, more) = (&graph.last, own.len() - shown);
        let what = format!("{head}{}", count_of(more as u64, "more line"));
        let empty = String::new;
        rows.push([empty(), empty(), empty(), empty(), what]);
    }
}

fn line(rows: &mut Rows, event: &Event, answer: Option<&Event>, (whole, head): (Whole, &str)) {
    let since = |event: &Event| event.timestamp_ms.saturating_sub(whole.begin);
    let at = since(event);
    let end = match (answer, takes_time(event)) {
        (Some(answer), _) => since(answer),
        (None, true) => whole.length,
        (None, false) => at,
    };
    let took = match (answer, takes_time(event)) {
        (Some(_), _) => span(end.saturating_sub(at)),
        (None, true) => "open".to_owned(),
        (None, false) => String::new(),
    };
    let mut what = words::of(event);
    if let Some(answer) = answer {
        what = format!("{}; {}", shorten(&what, WORDS), words::of(answer));
    }
    rows.push([
        event.event_id.to_string(),
        format!("+{}", span(at)),
        took,
        bar(at, end, whole.length),
        format!("{head}{}", shorten(&what, 2 * WORDS)),
    ]);
}

fn takes_time(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::SubOrchestrationScheduled { .. }
    )
}

/// From `at` to `end` of the whole.
fn bar(at: u64, end: u64, whole: u64) -> String {
    let place = |ms: u64| {
        let share = u128::from(ms) * BAR as u128 / u128::from(whole);
        usize::try_from(share).unwrap_or(BAR).min(BAR)
    };
    let begin = place(at).min(BAR - 1);
    let end = place(end).max(begin + 1);
    let (before, after) = (begin, BAR - end);
    format!(
        "{}{}{}",
        "·".repeat(before),
        "█".repeat(end - begin),
        "·".repeat(after)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_which_part_of_the_whole_it_is() {
        assert_eq!(bar(0, 100, 100), "█".repeat(BAR));
        assert_eq!(
            bar(50, 100, 100),
            format!("{}{}", "·".repeat(12), "█".repeat(12))
        );
        assert_eq!(bar(100, 100, 100).chars().filter(|c| *c == '█').count(), 1);
    }
}
