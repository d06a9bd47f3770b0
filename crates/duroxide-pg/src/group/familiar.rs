//! What this process knows of instances and activities that it works on. In: what it claimed and committed. Out: which
//! code an instance needs, and whether a result is the last that its instance waits for.

use std::collections::{HashMap, HashSet};

use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::Ack;

/// How many instances and activities are remembered; then they are learnt anew.
const KNOWN_MAX: usize = 20_000;

/// The code of an instance in one of its lives.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) life: i64,
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// Activities that it asked for in this process and that are not completed. While there are some, results are
    /// gathered: one turn takes many of them.
    open: usize,
    /// Whether it sent itself something, a timer for example: it may have an inbox.
    sends_itself: bool,
}

#[derive(Debug, Default)]
pub(super) struct Familiar {
    /// Activities of this process that nobody tried before.
    first_tries: HashSet<i64>,
    codes: HashMap<String, Code>,
}

impl Familiar {
    /// An activity was handed out by the store.
    pub(super) fn work_began(&mut self, id: i64, attempts: u32) {
        if self.first_tries.len() >= KNOWN_MAX {
            self.first_tries.clear();
        }
        match attempts {
            1 => self.first_tries.insert(id),
            _ => self.first_tries.remove(&id),
        };
    }

    /// The store said which code an instance needs.
    pub(super) fn learn(&mut self, instance: &str, life: i64, name: &str, version: Option<&str>) {
        if self.codes.len() >= KNOWN_MAX {
            self.codes.clear();
        }
        let code = Code {
            life,
            name: name.to_owned(),
            version: version.map(str::to_owned),
            open: self.codes.get(instance).map_or(0, |code| code.open),
            sends_itself: self.sends_itself(instance),
        };
        self.codes.insert(instance.to_owned(), code);
    }

    /// A turn says which code its instance needs, or that the instance has ended.
    pub(super) fn learn_from(&mut self, commit: &Commit) {
        let known = self.codes.get(&commit.instance).map(|code| code.life);
        match commit.begun() {
            _ if commit.ended.is_some() => drop(self.codes.remove(&commit.instance)),
            Some((life, name, version)) => {
                // Later executions are of the same life.
                let life = known.filter(|_| commit.execution_id > 1).unwrap_or(life);
                self.learn(&commit.instance, life, name, Some(version));
            }
            None => {}
        }
        if let Some(code) = self.codes.get_mut(&commit.instance) {
            code.open = (code.open + commit.to_workers.len()).saturating_sub(commit.cancels());
            let mut sent = commit.to_orchestrators.iter();
            code.sends_itself |= sent.any(|message| message.instance == commit.instance);
        }
    }

    pub(super) fn sends_itself(&self, instance: &str) -> bool {
        let code = self.codes.get(instance);
        code.is_some_and(|code| code.sends_itself)
    }

    pub(super) fn code(&self, instance: &str) -> Option<&Code> {
        self.codes.get(instance)
    }

    /// Whether this is the result of a first try, and no other activity of its instance is open in this process.
    pub(super) fn is_last_result(&mut self, ack: &Ack) -> bool {
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
