//! Recorded histories against today's code, for an application's CI.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::replay::{Divergence, Execution, FailedBy, Outcome};
use duroxide_core::{Event, EventKind, OrchestrationHandler};
use duroxide_runtime::registry::OrchestrationRegistry;
use semver::Version;
use serde::Deserialize;

use crate::ending::{end_of, next_turn, other_end};

/// Why a history does not replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The text is no history.
    Unreadable(String),
    /// Code and history do not fit together: what is recorded against what the code attempted.
    Diverged(Divergence),
    /// The code panics where the record ends.
    Panicked(String),
    /// The code fits all that is recorded, and ends otherwise than the history did.
    EndsOtherwise {
        /// The recorded end.
        recorded: String,
        /// What the code decides there.
        attempted: String,
    },
    /// The code does not have the handler, or the version, that the history was recorded with.
    WithoutCode {
        /// The handler.
        name: String,
        /// Its version.
        version: String,
    },
}

impl ReplayError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "D0701",
            Self::Diverged(_) => "D0702",
            Self::Panicked(_) => "D0703",
            Self::EndsOtherwise { .. } => "D0704",
            Self::WithoutCode { .. } => "D0705",
        }
    }
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "not a recorded history: {why}"),
            Self::Diverged(report) => write!(f, "the code does not fit the history: {report}"),
            Self::Panicked(text) => write!(f, "the code panics where the record ends: {text}"),
            Self::EndsOtherwise {
                recorded,
                attempted,
            } => {
                writeln!(f, "the code ends otherwise than the history did")?;
                writeln!(f, "recorded:  {recorded}")?;
                write!(f, "attempted: {attempted}")
            }
            Self::WithoutCode { name, version } => {
                write!(f, "the code has no {name} {version}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// A history that replays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Executions that were replayed.
    pub executions: usize,
    /// Events that were replayed.
    pub events: usize,
}

/// Either a list of events, or an export with executions.
#[derive(Deserialize)]
#[serde(untagged)]
enum Export {
    Events(Vec<Event>),
    Executions { executions: Vec<Recorded> },
}

#[derive(Deserialize)]
struct Recorded {
    /// A line of `duroxide export` calls them its history.
    #[serde(alias = "history")]
    events: Vec<Event>,
}

/// Replays a recorded history, as JSON: a list of events, or an object with `executions`, each with `events` or, as in
/// a line of `duroxide export`, with a `history`. The handler must be the one of the recorded version.
///
/// # Errors
///
/// When the text is no history, or when the code decides something else than what is recorded, panics where the record
/// ends, or ends otherwise.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write `Arc::new(handler)` in place"
)]
pub fn replay(
    history_json: &str,
    handler: Arc<dyn OrchestrationHandler>,
) -> Result<Replayed, ReplayError> {
    replay_executions(&executions_of(history_json)?, |_| Ok(Arc::clone(&handler)))
}

/// Replays a recorded history with the code of a program: each execution with the handler and version that it was
/// recorded with. The text is as in [`replay`].
///
/// # Errors
///
/// As [`replay`], and when the code does not have that handler or version.
pub fn replay_with(
    history_json: &str,
    code: &OrchestrationRegistry,
) -> Result<Replayed, ReplayError> {
    replay_executions(&executions_of(history_json)?, |history| {
        let (name, version) = history
            .first()
            .and_then(Event::started_handler)
            .ok_or_else(|| ReplayError::Unreadable("it has no start".to_owned()))?;
        Version::parse(&version)
            .ok()
            .and_then(|version| code.resolve_handler_exact(&name, &version))
            .ok_or(ReplayError::WithoutCode { name, version })
    })
}

/// A history that does not replay: its file, its line, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1, in a file of JSON Lines; 1 otherwise.
    pub line: usize,
    /// Reason why it does not replay.
    pub error: ReplayError,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.error)
    }
}

/// Replays all histories of a folder and the folders in it: files that end in `.json`, each with one history, and in
/// `.jsonl`, with one per line, as `duroxide export` writes them. Other files are left alone.
///
/// ```
/// use duroxide::testing::replay_all;
/// use duroxide::{OrchestrationContext, OrchestrationRegistry};
///
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
///     ctx.schedule_activity("greet", name).await
/// }
///
/// # let folder = std::env::temp_dir().join(format!("replay-all-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("hello.json"), r#"[{"event_id":1,"source_event_id":null,"instance_id":"i",
/// #   "execution_id":1,"timestamp_ms":1,"duroxide_version":"0.2.0","type":"OrchestrationStarted","name":"hello",
/// #   "version":"1.0.0","input":"Ada","parent_instance":null,"parent_id":null}]"#)?;
/// let code = OrchestrationRegistry::builder().register("hello", hello).build();
/// let replayed = replay_all(&folder, &code).unwrap_or_else(|misfits| panic!("{misfits:?}"));
/// assert_eq!(replayed.executions, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// All histories that do not replay. A folder without any history is one.
pub fn replay_all(
    folder: impl AsRef<Path>,
    code: &OrchestrationRegistry,
) -> Result<Replayed, Vec<Misfit>> {
    let mut misfits = Vec::new();
    let mut all = Replayed::default();
    let files = match histories_in(folder.as_ref()) {
        Ok(files) => files,
        Err(error) => return Err(vec![unreadable(folder.as_ref(), &error.to_string())]),
    };
    if files.is_empty() {
        return Err(vec![unreadable(folder.as_ref(), "no history is here")]);
    }
    for file in files {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                misfits.push(unreadable(&file, &error.to_string()));
                continue;
            }
        };
        let is_lines = file
            .extension()
            .is_some_and(|extension| extension == "jsonl");
        let histories: Vec<&str> = if is_lines {
            text.lines().collect()
        } else {
            vec![&text]
        };
        for (history, line) in histories.into_iter().zip(1..) {
            match replay_with(history, code) {
                Ok(replayed) => {
                    all.executions += replayed.executions;
                    all.events += replayed.events;
                }
                Err(error) => misfits.push(Misfit {
                    file: file.clone(),
                    line,
                    error,
                }),
            }
        }
    }
    if misfits.is_empty() {
        Ok(all)
    } else {
        Err(misfits)
    }
}

fn unreadable(file: &Path, why: &str) -> Misfit {
    Misfit {
        file: file.to_owned(),
        line: 1,
        error: ReplayError::Unreadable(why.to_owned()),
    }
}

/// Files with histories, in the order of their names.
fn histories_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_history = path
            .extension()
            .is_some_and(|extension| extension == "json" || extension == "jsonl");
        if path.is_dir() {
            files.extend(histories_in(&path)?);
        } else if is_history {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn executions_of(history_json: &str) -> Result<Vec<Vec<Event>>, ReplayError> {
    let export: Export =
        serde_json::from_str(history_json).map_err(|e| ReplayError::Unreadable(e.to_string()))?;
    Ok(match export {
        Export::Events(events) => vec![events],
        Export::Executions { executions } => executions.into_iter().map(|e| e.events).collect(),
    })
}

fn replay_executions(
    executions: &[Vec<Event>],
    handler_of: impl Fn(&[Event]) -> Result<Arc<dyn OrchestrationHandler>, ReplayError>,
) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed::default();
    let mut kv = HashMap::new();
    for history in executions {
        replay_events(history, &handler_of(history)?, &kv)?;
        replayed.executions += 1;
        replayed.events += history.len();
        fold_key_values(&mut kv, history);
    }
    Ok(replayed)
}

/// Replays one execution; `kv` are the key-values at its beginning. Where the record ends, the code runs on for one
/// turn: it must not panic there, and if it ended the execution it must end it in the same way.
///
/// # Errors
///
/// When the code decides something else than what is recorded, panics, or ends otherwise.
pub fn replay_events(
    history: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) -> Result<(), ReplayError> {
    Execution::load(history, Arc::clone(handler), kv.clone()).map_err(ReplayError::Diverged)?;
    let end = end_of(history);
    let turn = next_turn(&history[..end], handler, kv).map_err(ReplayError::Diverged)?;
    let Some(turn) = turn else {
        return Ok(());
    };
    let has_failed = history
        .get(end)
        .is_some_and(|event| matches!(event.kind, EventKind::OrchestrationFailed { .. }));
    if let (Some(FailedBy::Panic), Outcome::Failed { details }, false) =
        (turn.failed_by, &turn.outcome, has_failed)
    {
        return Err(ReplayError::Panicked(details.display_message()));
    }
    let decided: Vec<EventKind> = turn.events.into_iter().map(|event| event.kind).collect();
    match other_end(history, &decided) {
        None => Ok(()),
        Some((recorded, attempted)) => Err(ReplayError::EndsOtherwise {
            recorded,
            attempted,
        }),
    }
}
