//! Chance, drawn from a seed. Everything that a run leaves to chance comes from here, so the seed is the run.

use std::time::Duration;

/// A source of numbers that one seed determines.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Another source, which depends on this one and does not disturb it later.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.0.u64(..))
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => self.0.usize(..end),
        }
    }

    /// A number in a range, both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high.max(low))
    }

    /// Whether something happens that does so `permille` times in a thousand.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.0.u32(0..1_000) < permille
    }

    /// One of several.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A duration in a range of milliseconds, short ones more often than long ones.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        let span = high.saturating_sub(low).max(1) as f64;
        let skewed = self.0.f64().powi(3) * span;
        Duration::from_millis(low + skewed as u64)
    }
}
