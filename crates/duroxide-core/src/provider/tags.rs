//! Which tagged activities a worker takes.

use std::collections::HashSet;

use crate::limits::MAX_WORKER_TAGS;

/// Which activities a worker takes, by tag.
///
/// ```
/// use duroxide_core::provider::TagFilter;
/// let gpu = TagFilter::tags(["gpu"]);
/// assert!(gpu.matches(Some("gpu")));
/// assert!(!gpu.matches(None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TagFilter {
    /// Activities without a tag.
    #[default]
    DefaultOnly,
    /// Activities with one of these tags.
    Tags(HashSet<String>),
    /// Activities without a tag or with one of these.
    DefaultAnd(HashSet<String>),
    /// All activities.
    Any,
    /// No activity.
    None,
}

impl TagFilter {
    /// Activities with one of these tags.
    ///
    /// # Panics
    ///
    /// Without any tag, or with more than [`MAX_WORKER_TAGS`].
    pub fn tags<I, S>(tags: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let tags: HashSet<String> = tags.into_iter().map(Into::into).collect();
        assert!(
            !tags.is_empty(),
            "TagFilter::tags() requires at least one tag; use TagFilter::None for no activities"
        );
        assert_count(&tags);
        Self::Tags(tags)
    }

    /// Activities without a tag or with one of these.
    ///
    /// # Panics
    ///
    /// Without any tag, or with more than [`MAX_WORKER_TAGS`].
    pub fn default_and<I, S>(tags: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let tags: HashSet<String> = tags.into_iter().map(Into::into).collect();
        assert!(
            !tags.is_empty(),
            "TagFilter::default_and() requires at least one tag; use TagFilter::DefaultOnly for untagged only"
        );
        assert_count(&tags);
        Self::DefaultAnd(tags)
    }

    /// Activities without a tag.
    #[must_use]
    pub fn default_only() -> Self {
        Self::DefaultOnly
    }

    /// No activity.
    #[must_use]
    pub fn none() -> Self {
        Self::None
    }

    /// All activities.
    #[must_use]
    pub fn any() -> Self {
        Self::Any
    }

    /// Whether an activity with this tag is taken.
    #[must_use]
    pub fn matches(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (Self::Any, _) | (Self::DefaultOnly | Self::DefaultAnd(_), None) => true,
            (Self::Tags(tags) | Self::DefaultAnd(tags), Some(tag)) => tags.contains(tag),
            (Self::DefaultOnly, Some(_)) | (Self::Tags(_), None) | (Self::None, _) => false,
        }
    }
}

fn assert_count(tags: &HashSet<String>) {
    assert!(
        tags.len() <= MAX_WORKER_TAGS,
        "Worker can subscribe to at most {MAX_WORKER_TAGS} tags, got {}",
        tags.len()
    );
}
