//! Lanes: which code an instance or an activity needs, as text that an index can hold. In: handler, engine version,
//! tag, session. Out: a lane, and whether a caller may claim from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use semver::Version;

use super::super::{
    DispatcherCapabilityFilter, ExecutionMetadata, ExecutionStatus, OrchestrationHandlers,
    TagFilter,
};
use crate::work_item::WorkItem;

/// The lane of instances that any node may take.
pub const ANY_NODE: &str = "";

/// Stands for the lane of an instance whose next execution is still to be named, by the message that begins it.
pub const BETWEEN: &str = "between";

/// The lane of an instance that is paused: no caller may claim from it.
pub const PAUSED: &str = "paused";

/// The lane of an instance that needs this handler. A start may leave the version to the node; only an execution that
/// has begun has an engine version.
#[must_use]
pub fn of(name: &str, version: Option<&str>, pinned: Option<&Version>) -> String {
    let pinned = pinned.map(Version::to_string);
    // Strings always encode.
    serde_json::to_string(&(name, version, pinned)).unwrap_or_default()
}

/// The lane of the execution that a message begins; `None` if it begins none.
#[must_use]
pub fn begun_by(item: &WorkItem) -> Option<String> {
    item.begins().map(|(name, version)| of(name, version, None))
}

/// The lane of an instance after a turn: that of the execution that continues it, any node's once it has ended, else
/// the one that the turn names. `None` if the turn names nothing: the lane stays.
#[must_use]
pub fn after_turn(metadata: &ExecutionMetadata, sent: &[WorkItem]) -> Option<String> {
    let status = metadata.status.as_deref().and_then(ExecutionStatus::parse);
    match status {
        Some(ExecutionStatus::Completed | ExecutionStatus::Failed) => Some(ANY_NODE.to_owned()),
        Some(ExecutionStatus::ContinuedAsNew) => {
            let next = sent
                .iter()
                .filter(|item| matches!(item, WorkItem::ContinueAsNew { .. }))
                .find_map(begun_by);
            Some(next.unwrap_or_else(|| BETWEEN.to_owned()))
        }
        Some(ExecutionStatus::Running) | None => {
            let name = metadata.orchestration_name.as_deref()?;
            let version = metadata.orchestration_version.as_deref()?;
            let pinned = metadata.pinned_duroxide_version.as_ref();
            Some(of(name, Some(version), pinned))
        }
    }
}

/// What the instances of a lane need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The handler; `None` for an instance that was never named.
    pub name: Option<String>,
    /// Its version, if the start named one.
    pub version: Option<String>,
    /// The engine version that began the execution.
    pub pinned: Option<Version>,
}

/// `None` for a lane that any node may take, and for one that cannot be read: the claim that takes it finds out.
#[must_use]
pub fn needs(lane: &str) -> Option<Needs> {
    let (name, version, pinned): (Option<String>, Option<String>, Option<String>) =
        serde_json::from_str(lane).ok()?;
    Some(Needs {
        name,
        version,
        pinned: pinned.and_then(|text| Version::parse(&text).ok()),
    })
}

/// Which instances a caller may claim.
///
/// ```
/// use duroxide_core::provider::{OrchestrationHandlers, rules::lane};
/// let caller = lane::Abilities {
///     handlers: Some(OrchestrationHandlers::default().with("order", "1.0.0").into()),
///     ..Default::default()
/// };
/// assert!(caller.fit_lane(&lane::of("order", None, None)));
/// assert!(!caller.fit_lane(&lane::of("invoice", None, None)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Abilities {
    /// The executions that the caller can replay; `None` for all.
    pub filter: Option<DispatcherCapabilityFilter>,
    /// The handlers that the caller has; `None` for all.
    pub handlers: Option<Arc<OrchestrationHandlers>>,
}

impl Abilities {
    /// Whether no execution can ever match.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.supported_duroxide_versions.is_empty())
    }

    /// Whether everything matches.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.filter.is_none() && self.handlers.is_none()
    }

    /// Whether the caller can run what is in this lane.
    #[must_use]
    pub fn fit_lane(&self, lane: &str) -> bool {
        lane != PAUSED && (self.are_all() || self.fit(needs(lane).as_ref()))
    }

    /// Whether the caller has the code that is needed; without a need, it has.
    #[must_use]
    pub fn fit(&self, needs: Option<&Needs>) -> bool {
        let Some(needs) = needs else {
            return true;
        };
        let has_code = match (&self.handlers, &needs.name) {
            (Some(handlers), Some(name)) => handlers.starts(name, needs.version.as_deref()),
            (None, _) | (_, None) => true,
        };
        has_code && self.can_replay(needs.pinned.as_ref())
    }

    /// Whether the caller can replay an execution begun by this engine version.
    #[must_use]
    pub fn can_replay(&self, pinned: Option<&Version>) -> bool {
        match (&self.filter, pinned) {
            (Some(filter), Some(pinned)) => filter.is_compatible(pinned),
            (None, _) | (_, None) => true,
        }
    }
}

/// What an activity needs of a worker: its tag, its name, and whether it belongs to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkNeeds {
    /// The tag.
    pub tag: Option<String>,
    /// The name of the activity.
    pub name: String,
    /// Whether it names a session.
    pub in_session: bool,
}

impl WorkNeeds {
    /// The lane of such activities.
    #[must_use]
    pub fn lane(&self) -> String {
        // Strings always encode.
        serde_json::to_string(&(&self.tag, &self.name, self.in_session)).unwrap_or_default()
    }

    /// What the activities of a lane need; `None` if the lane cannot be read.
    #[must_use]
    pub fn of(lane: &str) -> Option<Self> {
        let (tag, name, in_session) = serde_json::from_str(lane).ok()?;
        Some(Self {
            tag,
            name,
            in_session,
        })
    }

    /// Whether a caller with this filter and this code may take it; the store checks the session.
    #[must_use]
    pub fn fit(&self, tags: &TagFilter, activities: Option<&BTreeSet<String>>) -> bool {
        tags.matches(self.tag.as_deref())
            && activities.is_none_or(|names| names.contains(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able(handlers: &[(&str, &str)]) -> Abilities {
        let handlers = handlers
            .iter()
            .fold(OrchestrationHandlers::default(), |all, (name, version)| {
                all.with(*name, *version)
            });
        Abilities {
            filter: None,
            handlers: Some(Arc::new(handlers)),
        }
    }

    #[test]
    fn a_lane_says_what_it_was_made_of() {
        let pinned = Version::new(0, 2, 0);
        for (name, version) in [("order", Some("1.0.0")), ("a\",\"b", None), ("", Some(""))] {
            let needs = needs(&of(name, version, Some(&pinned))).unwrap();
            assert_eq!(needs.name.as_deref(), Some(name));
            assert_eq!(needs.version.as_deref(), version);
            assert_eq!(needs.pinned, Some(pinned.clone()));
        }
        assert_eq!(needs(ANY_NODE), None);
        assert_eq!(needs(BETWEEN), None);
    }

    #[test]
    fn no_lane_holds_a_control_character() {
        let name: String = (0..0x20_u8).map(char::from).collect();
        let work = WorkNeeds {
            tag: Some(name.clone()),
            name: name.clone(),
            in_session: true,
        };
        for lane in [of(&name, Some(&name), None), work.lane()] {
            assert!(!lane.contains(|letter: char| letter.is_ascii_control()));
        }
    }

    #[test]
    fn a_caller_fits_the_lanes_it_has_code_for() {
        let caller = able(&[("order", "1.0.0")]);
        assert!(caller.fit_lane(&of("order", Some("1.0.0"), None)));
        assert!(caller.fit_lane(&of("order", None, None)));
        assert!(!caller.fit_lane(&of("order", Some("2.0.0"), None)));
        assert!(!caller.fit_lane(&of("invoice", None, None)));
        assert!(caller.fit_lane(ANY_NODE));
        assert!(Abilities::default().fit_lane(&of("invoice", None, None)));
    }

    #[test]
    fn nobody_fits_the_lane_of_what_is_paused() {
        assert!(!Abilities::default().fit_lane(PAUSED));
        assert!(!able(&[("paused", "1.0.0")]).fit_lane(PAUSED));
    }

    #[test]
    fn an_activity_goes_by_tag_and_name() {
        let needs = WorkNeeds {
            tag: Some("gpu".to_owned()),
            name: "Render".to_owned(),
            in_session: false,
        };
        assert_eq!(WorkNeeds::of(&needs.lane()), Some(needs.clone()));
        assert!(needs.fit(&TagFilter::tags(["gpu"]), None));
        assert!(!needs.fit(&TagFilter::DefaultOnly, None));
        let others = BTreeSet::from(["Print".to_owned()]);
        assert!(!needs.fit(&TagFilter::Any, Some(&others)));
    }
}
