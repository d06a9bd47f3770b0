//! What activities did to the world outside: which ran, where, when, and how they ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One run of an activity's handler.
#[derive(Debug, Clone)]
pub struct Effect {
    pub label: String,
    pub instance: String,
    pub execution: u64,
    pub activity: u64,
    /// The key under which the world would recognise a repetition.
    pub key: String,
    pub session: Option<String>,
    /// The node it ran on, and which of its lives.
    pub node: usize,
    pub life: String,
    pub began_ms: u64,
    pub ended_ms: Option<u64>,
    /// Ended by itself, and was not dropped or cancelled.
    pub is_finished: bool,
}

/// All runs of all activities.
#[derive(Debug, Default)]
pub struct Effects(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    runs: Vec<Effect>,
    /// Attempts of one call, by its key.
    attempts: BTreeMap<String, Vec<u64>>,
    /// By label: what an activity said last, and what an attempt of it heard last.
    beats: BTreeMap<String, (u32, u32)>,
}

impl Effects {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handler begins. Returns its number, and which attempt of the call it is, from 0.
    pub fn begin(&self, effect: Effect) -> (usize, usize) {
        let mut book = self.book();
        let attempts = book.attempts.entry(effect.key.clone()).or_default();
        let attempt = match attempts.iter().position(|id| *id == effect.activity) {
            Some(place) => place,
            None => {
                attempts.push(effect.activity);
                attempts.len() - 1
            }
        };
        book.runs.push(effect);
        (book.runs.len() - 1, attempt)
    }

    /// A handler ended.
    pub fn end(&self, number: usize, now_ms: u64, is_finished: bool) {
        let mut book = self.book();
        let run = &mut book.runs[number];
        run.ended_ms = Some(now_ms);
        run.is_finished = is_finished;
    }

    /// An attempt says how far it is.
    pub fn say(&self, label: &str, done: u32) {
        let mut book = self.book();
        let (said, _) = book.beats.entry(label.to_owned()).or_default();
        *said = done.max(*said);
    }

    /// An attempt hears how far those before it said they were. What is wrong with that: it is of another call, was
    /// never said, or is less than an attempt before this one heard.
    pub fn hear(&self, label: &str, heard: Option<&(String, u32)>) -> Option<String> {
        let mut book = self.book();
        // What was said goes with the execution: an attempt that the answer of another one forestalled may find
        // nothing.
        let is_over = book
            .runs
            .iter()
            .any(|run| run.label == label && run.is_finished);
        let (said, before) = book.beats.entry(label.to_owned()).or_default();
        let done = heard.map_or(0, |(_, done)| *done);
        let is_strange = heard.is_some_and(|(of, _)| of != label);
        let wrong = is_strange || done > *said || (done < *before && !is_over);
        let complaint = format!(
            "activity {label} said {said} last, heard {before} before, and hears {heard:?}"
        );
        *before = done.max(*before);
        wrong.then_some(complaint)
    }

    /// All runs, in the order they began.
    #[must_use]
    pub fn all(&self) -> Vec<Effect> {
        self.book().runs.clone()
    }
}
