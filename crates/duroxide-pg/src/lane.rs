//! Lanes: who may take an instance or an activity, as text that an index can hold. In: handler, engine version, tag, session. Out:
//! a lane, and whether a caller may claim from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide_core::provider::{DispatcherCapabilityFilter, OrchestrationHandlers, TagFilter};
use semver::Version;

/// The lane of instances that any node may take.
pub(crate) const ANYBODY: &str = "";

/// Stands for the lane of an instance whose next execution is still to be named, by the message that begins it.
pub(crate) const BETWEEN: &str = "between";

/// The lane of an instance that needs this handler. A start may leave the version to the node; only an execution that has
/// begun has an engine version.
pub(crate) fn of(name: &str, version: Option<&str>, pinned: Option<&Version>) -> String {
    let pinned = pinned.map(Version::to_string);
    // Strings always encode.
    let lane = serde_json::to_string(&(name, version, pinned)).unwrap_or_default();
    crate::text::owned(&lane)
}

/// What a lane says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needs {
    /// `None` for an instance that was never named.
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) pinned: Option<Version>,
}

/// `None` for a lane that any node may take, and for one that cannot be read: whoever takes it finds out.
pub(crate) fn needs(lane: &str) -> Option<Needs> {
    let (name, version, pinned): (Option<String>, Option<String>, Option<String>) =
        serde_json::from_str(lane).ok()?;
    Some(Needs {
        name,
        version,
        pinned: pinned.and_then(|text| Version::parse(&text).ok()),
    })
}

/// Whose instances a caller may claim.
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

    /// Whether everything matches.
    pub(crate) fn are_all(&self) -> bool {
        self.filter.is_none() && self.handlers.is_none()
    }

    /// Whether the caller can run what needs this.
    pub(crate) fn fit(&self, needs: Option<&Needs>) -> bool {
        let Some(needs) = needs else {
            return true;
        };
        let has_code = match (&self.handlers, &needs.name) {
            (Some(handlers), Some(name)) => handlers.starts(name, needs.version.as_deref()),
            (None, _) | (_, None) => true,
        };
        has_code && self.can_replay(needs.pinned.as_ref())
    }

    fn can_replay(&self, pinned: Option<&Version>) -> bool {
        match (&self.filter, pinned) {
            (Some(filter), Some(pinned)) => filter.is_compatible(pinned),
            (None, _) | (_, None) => true,
        }
    }
}

/// Tag, name and whether a session is named: what decides who may take an activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkNeeds {
    pub(crate) tag: Option<String>,
    pub(crate) name: String,
    pub(crate) in_session: bool,
}

impl WorkNeeds {
    pub(crate) fn lane(&self) -> String {
        let lane = serde_json::to_string(&(&self.tag, &self.name, self.in_session));
        crate::text::owned(&lane.unwrap_or_default())
    }

    pub(crate) fn of(lane: &str) -> Option<Self> {
        let (tag, name, in_session) = serde_json::from_str(lane).ok()?;
        Some(Self {
            tag,
            name,
            in_session,
        })
    }

    /// Whether a caller with this filter and this code may take it; sessions are the caller's own affair.
    pub(crate) fn fit(&self, tags: &TagFilter, activities: Option<&BTreeSet<String>>) -> bool {
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
        assert_eq!(needs(ANYBODY), None);
        assert_eq!(needs(BETWEEN), None);
    }

    #[test]
    fn a_caller_fits_the_lanes_it_has_code_for() {
        let caller = able(&[("order", "1.0.0")]);
        let fits = |lane: String| caller.fit(needs(&lane).as_ref());
        assert!(fits(of("order", Some("1.0.0"), None)));
        assert!(fits(of("order", None, None)));
        assert!(!fits(of("order", Some("2.0.0"), None)));
        assert!(!fits(of("invoice", None, None)));
        assert!(fits(ANYBODY.to_owned()));
        assert!(Abilities::default().fit(needs(&of("invoice", None, None)).as_ref()));
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
