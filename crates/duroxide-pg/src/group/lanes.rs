//! Lanes that this process has met. In: lanes that a claim found. Out: for each caller, those it may claim from and
//! those it may not; the server reports lanes that are on neither list.

use std::collections::HashMap;

use crate::calls::claim_turns::Claimed;

/// How many lanes are remembered; then they are learnt anew.
const LANES_MAX: usize = 10_000;

/// The lanes of one queue, with what each needs of a claimer.
pub(super) struct Lanes<N> {
    /// `None` as needs: this build cannot read the lane.
    known: HashMap<String, Option<N>>,
    /// Lanes that every caller may claim from.
    always: Vec<String>,
}

impl<N> Lanes<N> {
    pub(super) fn new(always: &[&str]) -> Self {
        Self {
            known: HashMap::new(),
            always: always.iter().map(|&lane| lane.to_owned()).collect(),
        }
    }

    /// Remembers the lanes that a claim found and the group did not know.
    pub(super) fn learn<T>(
        &mut self,
        claimed: &Result<Claimed<T>, crate::error::PgError>,
        needs: impl Fn(&str) -> Option<N>,
    ) {
        let Ok(claimed) = claimed else {
            return;
        };
        for lane in &claimed.lanes {
            if self.known.len() >= LANES_MAX {
                self.known.clear();
            }
            let shown = crate::text::shown(lane.clone());
            self.known.insert(lane.clone(), needs(&shown));
        }
    }

    /// Those that fit, and those that do not.
    pub(super) fn sorted(&self, fits: impl Fn(Option<&N>) -> bool) -> (Vec<String>, Vec<String>) {
        let mut fit = self.always.clone();
        let mut unfit = Vec::new();
        for (lane, needs) in &self.known {
            if !is_paused(lane) && fits(needs.as_ref()) {
                fit.push(lane.clone())
            } else {
                unfit.push(lane.clone())
            }
        }
        (fit, unfit)
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<String> {
        self.always
            .iter()
            .chain(self.known.keys())
            .cloned()
            .collect()
    }

    pub(super) fn needs(&self, lane: &str) -> Option<&N> {
        self.known.get(lane).and_then(Option::as_ref)
    }
}

/// Whether a lane holds what is paused: no claim takes it, but for an instance that is to be terminated.
fn is_paused(lane: &str) -> bool {
    lane.starts_with(duroxide_core::provider::rules::lane::PAUSED)
}
