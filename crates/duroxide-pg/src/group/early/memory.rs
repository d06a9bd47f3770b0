//! What the early hand-out remembers of the instances and activities that this process works on. In: what the process
//! claimed and committed. Out: the code that an instance needs, and whether a result is the last that its instance
//! waits for. Never reads the store.

use std::collections::{HashMap, HashSet};

use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::Ack;

/// How many instances and activities are remembered; then they are learnt anew.
const KNOWN_MAX: usize = 20_000;

/// The code of an instance in one of its incarnations.
#[derive(Debug)]
pub(in crate::group) struct Code {
    pub(super) incarnation: i64,
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// Activities that it asked for in this process and that are not completed. While there are some, results are
    /// gathered: one turn takes many of them.
    open: usize,
    /// Whether it sent itself something, a timer for example: it may have an inbox.
    sends_itself: bool,
}

#[derive(Debug, Default)]
pub(in crate::group) struct Memory {
    /// Activities that this process claimed at their first attempt.
    first_tries: HashSet<i64>,
    codes: HashMap<String, Code>,
}

impl Memory {
    /// An activity was handed out by the store.
    pub(in crate::group) fn work_began(&mut self, id: i64, attempts: u32) {
        if self.first_tries.len() >= KNOWN_MAX {
            self.first_tries.clear();
        }
        match attempts {
            1 => self.first_tries.insert(id),
            _ => self.first_tries.remove(&id),
        };
    }

    /// The store said which code an instance needs.
    pub(in crate::group) fn learn(
        &mut self,
        instance: &str,
        incarnation: i64,
        name: &str,
        version: Option<&str>,
    ) {
        if self.codes.len() >= KNOWN_MAX {
            self.codes.clear();
        }
        let code = Code {
            incarnation,
            name: name.to_owned(),
            version: version.map(str::to_owned),
            open: self.codes.get(instance).map_or(0, |code| code.open),
            sends_itself: self.sends_itself(instance),
        };
        self.codes.insert(instance.to_owned(), code);
    }

    /// A turn says which code its instance needs, or that the instance has ended.
    pub(in crate::group) fn learn_from(&mut self, commit: &Commit) {
        let known = self
            .codes
            .get(&commit.instance)
            .map(|code| code.incarnation);
        match commit.begun() {
            _ if commit.ended.is_some() => drop(self.codes.remove(&commit.instance)),
            Some((incarnation, name, version)) => {
                // Later executions are of the same incarnation.
                let incarnation = known
                    .filter(|_| commit.execution_id > 1)
                    .unwrap_or(incarnation);
                self.learn(&commit.instance, incarnation, name, Some(version));
            }
            None => {}
        }
        if let Some(code) = self.codes.get_mut(&commit.instance) {
            code.open = (code.open + commit.to_workers.len()).saturating_sub(commit.cancels());
            let mut sent = commit.to_orchestrators.iter();
            code.sends_itself |= sent.any(|message| message.instance == commit.instance);
        }
    }

    pub(in crate::group) fn sends_itself(&self, instance: &str) -> bool {
        let code = self.codes.get(instance);
        code.is_some_and(|code| code.sends_itself)
    }

    pub(in crate::group) fn code(&self, instance: &str) -> Option<&Code> {
        self.codes.get(instance)
    }

    /// Whether this is the result of a first try, and no other activity of its instance is open in this process.
    pub(in crate::group) fn is_last_result(&mut self, ack: &Ack) -> bool {
        let is_first_try = self.first_tries.remove(&ack.id);
        let instance = ack.completion.as_ref().map(|it| it.instance.as_str());
        let code = instance.and_then(|it| self.codes.get_mut(it));
        let is_last = code.is_some_and(|code| {
            code.open = code.open.saturating_sub(1);
            code.open == 0
        });
        is_first_try && is_last
    }
}
