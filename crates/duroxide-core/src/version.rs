//! Which engine versions a dispatcher can replay.

use semver::Version;

/// The version of this build; it is stamped into every event.
#[must_use]
pub fn current_build_version() -> Version {
    Version::parse(crate::event::BUILD_VERSION).expect("a crate's own version is valid semver")
}

/// Versions from `min` to `max`, both included.
///
/// ```
/// use duroxide_core::provider::SemverRange;
/// use semver::Version;
/// let range = SemverRange::new(Version::new(1, 0, 0), Version::new(1, 9, 9));
/// assert!(range.contains(&Version::new(1, 9, 9)));
/// assert!(!range.contains(&Version::new(2, 0, 0)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemverRange {
    /// Lowest version.
    pub min: Version,
    /// Highest version.
    pub max: Version,
}

impl SemverRange {
    /// A range with both ends included.
    #[must_use]
    pub fn new(min: Version, max: Version) -> Self {
        Self { min, max }
    }

    /// Whether the version lies inside, by semver order.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        &self.min <= version && version <= &self.max
    }

    /// Everything up to this build.
    #[must_use]
    pub fn default_for_current_build() -> Self {
        Self::new(Version::new(0, 0, 0), current_build_version())
    }
}

/// What a dispatcher tells the store about the histories it can replay.
#[derive(Debug, Clone)]
pub struct DispatcherCapabilityFilter {
    /// Ranges of engine versions; a history is compatible if any range contains the version that began it.
    pub supported_duroxide_versions: Vec<SemverRange>,
}

impl DispatcherCapabilityFilter {
    /// Whether any range contains the version.
    #[must_use]
    pub fn is_compatible(&self, version: &Version) -> bool {
        self.supported_duroxide_versions
            .iter()
            .any(|range| range.contains(version))
    }

    /// Everything up to this build.
    #[must_use]
    pub fn default_for_current_build() -> Self {
        Self {
            supported_duroxide_versions: vec![SemverRange::default_for_current_build()],
        }
    }
}
