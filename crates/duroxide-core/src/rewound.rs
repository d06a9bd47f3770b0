//! What the record of a rewound execution says about itself. In: the first event of an execution. Out: a value. The
//! engine carries it under a queue of its own, which no author's code reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventKind};

/// The queue under which a rewound execution carries its [`Rewound`], and on which requests to
/// rewind travel.
#[doc(hidden)]
pub const REWIND_QUEUE: &str = "duroxide:rewind";

/// What sets a rewound execution apart: it shares its first events with an earlier one.
///
/// Carried by its first event, so that the record tells where it comes from, and a replay knows which answers are its
/// own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// The executions that it shares events with, the latest first, each with the last event that both have.
    pub shares: Vec<(u64, u64)>,
    /// The scheduling events whose work was asked for anew.
    #[serde(default)]
    pub again: Vec<u64>,
    /// The scheduling events of children that ran at the time of the rewind: a failure that they report belongs to this
    /// execution.
    #[serde(default)]
    pub running: Vec<u64>,
    /// The labels that the dropped part of the record had changed, as they were before; `None`: there was none.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// The deadlines of the earlier executions, for code that asks for its own in the part that it shares with one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deadlines: BTreeMap<u64, u64>,
    /// Signals, by name and data, that came before the rewind. Each reaches the first wait of its name that is recorded
    /// since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<(String, String)>,
}

impl Rewound {
    /// What the first event of an execution says; `None` if it began in any other way.
    ///
    /// ```
    /// use duroxide_core::{EventKind, Rewound};
    /// assert_eq!(Rewound::recorded_in(&EventKind::KeyValuesCleared), None);
    /// ```
    #[must_use]
    pub fn recorded_in(started: &EventKind) -> Option<Self> {
        let EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } = started
        else {
            return None;
        };
        let (_, json) = carried.iter().find(|(queue, _)| queue == REWIND_QUEUE)?;
        serde_json::from_str(json).ok()
    }

    /// What a history says about itself; `None` if it is not that of a rewound execution.
    #[must_use]
    pub fn of(history: &[Event]) -> Option<Self> {
        Self::recorded_in(&history.first()?.kind)
    }

    /// Whether an answer to this operation of that execution is an answer to the same operation of this one.
    pub(crate) fn shares(&self, execution_id: u64, event_id: u64) -> bool {
        let shared =
            |(execution, last): &(u64, u64)| *execution == execution_id && event_id <= *last;
        self.shares.iter().any(shared)
    }

    /// The first execution that had an event; `None` if it is this one's own.
    ///
    /// ```
    /// use duroxide_core::Rewound;
    /// let mut third = Rewound::default();
    /// third.shares = vec![(2, 9), (1, 4)];
    /// assert_eq!([4, 5, 10].map(|event| third.first_with(event)), [Some(1), Some(2), None]);
    /// ```
    #[must_use]
    pub fn first_with(&self, event_id: u64) -> Option<u64> {
        let had = |(execution, last): &(u64, u64)| (event_id <= *last).then_some(*execution);
        self.shares.iter().filter_map(had).min()
    }

    pub(crate) fn written(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are JSON")
    }
}
