//! Lanes: which code an instance needs, as text that an index can hold. In: handler and engine version. Out: a lane,
//! and whether a caller may claim from it.

use std::sync::Arc;

use duroxide_core::provider::{DispatcherCapabilityFilter, OrchestrationHandlers};
use semver::Version;

/// The lane of instances that any node may take.
pub(crate) const ANY_NODE: &str = "";

/// Stands for the lane of an instance whose next execution is still to be named, by the message that begins it.
pub(crate) const BETWEEN: &str = "between";

/// The lane of an instance that needs this handler. A start may leave the version to the node; only an execution that
/// has begun has an engine version.
pub(crate) fn of(name: &str, version: Option<&str>, pinned: Option<&Version>) -> String {
    let pinned = pinned.map(Version::to_string);
    // Strings always encode.
    serde_json::to_string(&(name, version, pinned)).unwrap_or_default()
}

/// What the instances of a lane need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) pinned: Option<Version>,
}

/// `None` for a lane that any node may take, and for one that cannot be read: the claim that takes it finds out.
pub(crate) fn needs(lane: &str) -> Option<Needs> {
    let (name, version, pinned): (String, Option<String>, Option<String>) =
        serde_json::from_str(lane).ok()?;
    Some(Needs {
        name,
        version,
        pinned: pinned.and_then(|text| Version::parse(&text).ok()),
    })
}

/// Which instances a caller may claim.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abilities {
    pub(crate) filter: Option<DispatcherCapabilityFilter>,
    pub(crate) handlers: Option<Arc<OrchestrationHandlers>>,
}

impl Abilities {
    /// Whether no execution can ever match.
    pub(crate) fn are_none(&self) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.supported_duroxide_versions.is_empty())
    }

    /// Whether the caller can run what is in this lane.
    pub(crate) fn fit(&self, lane: &str) -> bool {
        if self.filter.is_none() && self.handlers.is_none() {
            return true;
        }
        let Some(needs) = needs(lane) else {
            return true;
        };
        let has_code = self
            .handlers
            .as_ref()
            .is_none_or(|handlers| handlers.starts(&needs.name, needs.version.as_deref()));
        has_code && self.can_replay(needs.pinned.as_ref())
    }

    /// Whether the caller can replay an execution begun by this engine version.
    pub(crate) fn can_replay(&self, pinned: Option<&Version>) -> bool {
        match (&self.filter, pinned) {
            (Some(filter), Some(pinned)) => filter.is_compatible(pinned),
            (None, _) | (_, None) => true,
        }
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
            let lane = of(name, version, Some(&pinned));
            let needs = needs(&lane).unwrap();
            assert_eq!(
                (needs.name.as_str(), needs.version.as_deref()),
                (name, version)
            );
            assert_eq!(needs.pinned, Some(pinned.clone()));
        }
        assert_eq!(needs(ANY_NODE), None);
    }

    #[test]
    fn a_caller_fits_the_lanes_it_has_code_for() {
        let caller = able(&[("order", "1.0.0")]);
        assert!(caller.fit(&of("order", Some("1.0.0"), None)));
        assert!(caller.fit(&of("order", None, None)));
        assert!(!caller.fit(&of("order", Some("2.0.0"), None)));
        assert!(!caller.fit(&of("invoice", None, None)));
        assert!(caller.fit(ANY_NODE));
        assert!(Abilities::default().fit(&of("invoice", None, None)));
    }
}
