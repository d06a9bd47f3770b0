//! Events as they are stored: JSON, appended once, never changed.

use duroxide_core::Event;
use duroxide_core::provider::ProviderError;

use super::state::{Execution, Result, State};

impl State {
    pub(crate) fn read(&self, instance: &str) -> Result<Vec<Event>> {
        self.read_execution(instance, self.latest(instance).unwrap_or(1))
    }

    pub(crate) fn read_execution(&self, instance: &str, execution: u64) -> Result<Vec<Event>> {
        let Some(execution) = self.execution(instance, execution) else {
            return Ok(Vec::new());
        };
        let decode = |json: &String| {
            serde_json::from_str(json).map_err(|error| {
                ProviderError::permanent("read", format!("an event of {instance}: {error}"))
            })
        };
        execution.events.values().map(decode).collect()
    }

    /// Whether these events can be appended; says why not.
    pub(crate) fn check_events(
        &self,
        instance: &str,
        execution: u64,
        events: &[Event],
    ) -> Result<()> {
        let known = self.execution(instance, execution);
        let mut seen = std::collections::BTreeSet::new();
        for event in events {
            let id = event.event_id;
            if id == 0 {
                return Err(ProviderError::permanent("append", "an event needs an id"));
            }
            if !seen.insert(id) || known.is_some_and(|known| known.events.contains_key(&id)) {
                let text = format!("event {id} of {instance}, execution {execution}, exists");
                return Err(ProviderError::permanent("append", text));
            }
        }
        Ok(())
    }

    /// Appends events that were checked.
    pub(crate) fn append(&mut self, instance: &str, execution: u64, events: &[Event], now: u64) {
        let key = (instance.to_owned(), execution);
        let rows = self
            .executions
            .entry(key)
            .or_insert_with(|| Execution::begun(now));
        for event in events {
            let json = serde_json::to_string(event).expect("an event serialises");
            rows.events.insert(event.event_id, json);
        }
    }
}
