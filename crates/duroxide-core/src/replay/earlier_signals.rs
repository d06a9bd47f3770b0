//! Signals that came before a rewind. In: what the first event carries. Out: each one once, for the first wait of its
//! name.
//!
//! A live turn records one as soon as a wait for it is open, as an event that names the wait; a replay finds that event
//! and knows which are left. Signals that come since wait their turn: an older one goes first.

use std::collections::VecDeque;

use crate::rewound::Rewound;

/// Signals that have reached no wait yet, by name and data, the oldest first.
#[derive(Debug, Default)]
pub(super) struct EarlierSignals {
    left: VecDeque<(String, String)>,
}

impl EarlierSignals {
    /// Those that an execution carries.
    pub(super) fn of(rewound: Option<&Rewound>) -> Self {
        let left = rewound.map(|it| it.signals.iter().cloned().collect());
        Self {
            left: left.unwrap_or_default(),
        }
    }

    /// Whether all have reached a wait.
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// One was recorded.
    pub(super) fn take(&mut self, name: &str) {
        let place = self.left.iter().position(|(own, _)| own == name);
        if let Some(place) = place {
            self.left.remove(place);
        }
    }

    /// The oldest one for which there is a wait, by its event; with that event.
    pub(super) fn first_awaited(
        &self,
        wait_for: impl Fn(&str) -> Option<u64>,
    ) -> Option<(u64, String, String)> {
        self.left.iter().find_map(|(name, data)| {
            let wait = wait_for(name)?;
            Some((wait, name.clone(), data.clone()))
        })
    }
}
