//! What a program does when nothing goes wrong. In: a program. Out: its result, its key-values and status, the
//! activities that must run and those that may. Plain recursion, no engine.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Ending, Job, Op, Program, Step, TAKEN, answer};

/// What one root program does, its children included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// `None`: it never ends by itself.
    pub result: Option<Result<String, String>>,
    pub kv: BTreeMap<String, String>,
    pub status: Option<String>,
    /// Activities that run, by label, with how many attempts end.
    pub must_run: BTreeMap<String, u32>,
    /// Activities that may run, because they race or are dropped.
    pub may_run: BTreeSet<String>,
    /// Paths of the programs that are started detached, with what they do.
    pub detached: BTreeMap<String, Expected>,
    /// Signals it waits for.
    pub signals: Vec<String>,
    /// Queue messages it takes for certain.
    pub queue_messages: usize,
    pub labels: BTreeMap<String, String>,
    /// Requests it answers.
    pub answers: u32,
    /// Queue messages with keys that it takes.
    pub keyed: u32,
    /// The number of executions.
    pub executions: u64,
}

/// What a program does, as this life of its instance.
#[must_use]
pub fn expect(life: u32, path: &str, program: &Program) -> Expected {
    let mut expected = Expected {
        executions: 1,
        ..Expected::default()
    };
    let mut log = String::new();
    prelude(&mut expected, &mut log, path, 0, program);
    for (at, step) in program.steps.iter().enumerate() {
        let label = format!("{path}.{at}");
        if *step == Step::Continue {
            expected.executions += 1;
            prelude(&mut expected, &mut log, path, at + 1, program);
            continue;
        }
        let seen = expected.step(life, step, &label);
        log.push_str(&seen);
        log.push(';');
    }
    if program.cooperative {
        expected.may_run.insert(format!("{path}.put-right"));
    }
    expected.result = match program.ending {
        Ending::Returns | Ending::FailsUntil(_) => Some(Ok(format!("{life}:{log}{TAKEN}"))),
        Ending::Fails => Some(Err(format!("{life}:{log}"))),
        Ending::Waits => None,
    };
    expected
}

fn prelude(expected: &mut Expected, log: &mut String, path: &str, at: usize, program: &Program) {
    if program.version == 1 {
        let label = format!("{path}.{at}v2");
        log.push_str(&expected.op(&Op::Work(Job::Quick), &label));
    }
}

impl Expected {
    fn step(&mut self, life: u32, step: &Step, label: &str) -> String {
        match step {
            Step::Do(op) | Step::Wins(op) | Step::Shielded(op) | Step::Cancellable(op) => {
                self.op(op, label)
            }
            Step::All(ops) => {
                let seen = ops.iter().enumerate();
                let seen: Vec<_> = seen
                    .map(|(n, op)| self.op(op, &format!("{label}j{n}")))
                    .collect();
                seen.join("+")
            }
            Step::Race(a, b) => {
                self.maybe(a, &format!("{label}a"));
                self.maybe(b, &format!("{label}b"));
                "raced".to_owned()
            }
            Step::Dropped(op) => {
                // Work that is scheduled and dropped in one turn never runs; a child may have begun.
                if matches!(op, Op::Child(_) | Op::NamedChild(_)) {
                    self.maybe(op, &format!("{label}d"));
                }
                "dropped".to_owned()
            }
            Step::Dequeue(count) => {
                self.queue_messages += usize::from(*count);
                format!("{count} messages")
            }
            Step::Keyed(count) => {
                let first = self.keyed;
                self.keyed += u32::from(*count);
                let taken: Vec<_> = (first..self.keyed).map(|n| n.to_string()).collect();
                format!("keyed {}", taken.join("+"))
            }
            Step::OvertakenReader => {
                self.queue_messages += 2;
                "overtaken".to_owned()
            }
            Step::DequeueOrTimer(_) => "message or timer".to_owned(),
            Step::Detach(program) => {
                let path = format!("{label}~");
                let expected = expect(life, &path, program);
                self.detached.insert(label.to_owned(), expected);
                "detached".to_owned()
            }
            Step::KvAdd(n) => {
                let key = format!("k{n}");
                let old = self.kv.get(&key).and_then(|text| text.parse().ok());
                let old: u64 = old.unwrap_or(0);
                self.kv.insert(key.clone(), (old + 1).to_string());
                format!("{key}={old}")
            }
            Step::KvClear(n) => {
                self.kv.remove(&format!("k{n}"));
                format!("{} keys", self.kv.len())
            }
            Step::Status => {
                let status = format!("{life}:{label}");
                let old = self.status.replace(status);
                old.unwrap_or_else(|| "none".to_owned())
            }
            Step::ResetStatus => {
                self.status = None;
                "reset".to_owned()
            }
            Step::Label(n) => {
                let old = self.labels.insert(format!("l{n}"), label.to_owned());
                old.unwrap_or_else(|| "none".to_owned())
            }
            Step::Unlabel(n) => {
                self.labels.remove(&format!("l{n}"));
                format!("{} labels", self.labels.len())
            }
            Step::Mail(count) => (0..*count).map(|n| n.to_string()).collect(),
            Step::Await(program) => {
                let expected = expect(life, &format!("{label}~"), program);
                let seen = match &expected.result {
                    Some(Ok(text)) => text.clone(),
                    Some(Err(_)) | None => "err".to_owned(),
                };
                self.detached.insert(label.to_owned(), expected);
                seen
            }
            Step::Answer => {
                self.answers += 1;
                "answered".to_owned()
            }
            Step::Continue => "continued".to_owned(),
        }
    }

    fn op(&mut self, op: &Op, label: &str) -> String {
        match op {
            Op::Work(job) | Op::Rare(job) | Op::Tagged(job) | Op::OnSession(_, job) => {
                let (attempts, seen) = match job {
                    Job::Quick | Job::Slow(_) | Job::Beats(_) => (1, answer(label)),
                    Job::Fails | Job::Panics => (1, "err".to_owned()),
                    Job::Flaky(times) => (u32::from(*times) + 1, answer(label)),
                    // It is given up, and may not even have begun.
                    Job::Stuck => (0, "err".to_owned()),
                };
                match attempts {
                    0 => drop(self.may_run.insert(label.to_owned())),
                    attempts => drop(self.must_run.insert(label.to_owned(), attempts)),
                }
                seen
            }
            Op::Timer(_) => "fired".to_owned(),
            Op::Signal => {
                let name = format!("s-{label}");
                self.signals.push(name.clone());
                format!("go {name}")
            }
            Op::Child(program) | Op::NamedChild(program) => {
                let child = expect(0, &format!("{label}/"), program);
                self.must_run.extend(child.must_run);
                self.may_run.extend(child.may_run);
                self.detached.extend(child.detached);
                match child.result {
                    Some(Ok(text)) => text,
                    Some(Err(_)) | None => "err".to_owned(),
                }
            }
            Op::RetriedChild(program, attempts) => {
                let child = expect(0, &format!("{label}/"), program);
                let succeeds = match program.ending {
                    Ending::FailsUntil(attempt) => attempt <= u32::from(*attempts),
                    _ => child.result.as_ref().is_some_and(Result::is_ok),
                };
                match (child.result, succeeds) {
                    (Some(Ok(text)), true) => text,
                    _ => "err".to_owned(),
                }
            }
            Op::Collide => "err".to_owned(),
            Op::Guid => "guid".to_owned(),
            Op::Now => "now".to_owned(),
            Op::InPlace(true) => "err".to_owned(),
            Op::InPlace(false) => "7".to_owned(),
        }
    }

    /// An operation that may be cut short.
    fn maybe(&mut self, op: &Op, label: &str) {
        let mut whole = Self::default();
        whole.op(op, label);
        self.may_run.extend(whole.must_run.into_keys());
        self.may_run.extend(whole.may_run);
        for detached in whole.detached.into_values() {
            self.may_all(detached);
        }
    }

    fn may_all(&mut self, other: Self) {
        self.may_run.extend(other.must_run.into_keys());
        self.may_run.extend(other.may_run);
        for detached in other.detached.into_values() {
            self.may_all(detached);
        }
    }
}
