//! Which engine versions a dispatcher can replay.

use semver::Version;

/// The version of this build; it is stamped into every event.
#[must_use]
pub fn current_build_version() -> Version {
    Version::parse(crate::event::BUILD_VERSION).expect("a crate's own version is valid semver")
}

/// Published stores pack each part of a version into three digits.
const LAST_PATCH: u64 = 999;

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

    /// Everything up to the last patch release of this build's minor version. Patch releases keep the stored format, so
    /// an instance that began on one goes on after a rollback to an earlier one.
    ///
    /// ```
    /// use duroxide_core::provider::{SemverRange, current_build_version};
    /// let mut newer = current_build_version();
    /// newer.patch += 1;
    /// assert!(SemverRange::default_for_current_build().contains(&newer));
    /// newer.minor += 1;
    /// assert!(!SemverRange::default_for_current_build().contains(&newer));
    /// ```
    #[must_use]
    pub fn default_for_current_build() -> Self {
        let build = current_build_version();
        let last_patch = Version::new(build.major, build.minor, LAST_PATCH);
        Self::new(Version::new(0, 0, 0), last_patch)
    }
}

/// Which histories a dispatcher can replay; it says so with each claim.
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

    /// Everything up to the last patch release of this build's minor version.
    #[must_use]
    pub fn default_for_current_build() -> Self {
        Self {
            supported_duroxide_versions: vec![SemverRange::default_for_current_build()],
        }
    }
}
