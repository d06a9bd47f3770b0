//! Handlers and engine versions as labels that a store can look up: a handler is a kind, a version a text that sorts as
//! versions do.

use std::fmt::Write as _;

use duroxide_core::provider::{DispatcherCapabilityFilter, OrchestrationHandlers, TagFilter};
use semver::Version;

use crate::message::Labels;

/// Kind of an instance that needs no code: it has ended.
pub(super) const ANY_NODE: &str = "";

/// The handler that a start or an execution names. The name's length stands before it, so that any name can be taken
/// apart.
pub(super) fn of(name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{}:{name}@{version}", name.len()),
        None => format!("{}:{name}", name.len()),
    }
}

/// Name and version in a kind; `None` if it names no handler.
pub(super) fn parse(kind: &str) -> Option<(&str, Option<&str>)> {
    let (length, rest) = kind.split_once(':')?;
    let (name, version) = rest.split_at_checked(length.parse().ok()?)?;
    match version {
        "" => Some((name, None)),
        version => Some((name, Some(version.strip_prefix('@')?))),
    }
}

/// What a node with these handlers can run: their instances, starts that leave the version open, and what needs no
/// code.
pub(super) fn run_by(handlers: Option<&OrchestrationHandlers>) -> Labels {
    let Some(handlers) = handlers else {
        return Labels::Any;
    };
    let exact = handlers
        .iter()
        .map(|(name, version)| of(name, Some(version)));
    let open = handlers.iter().map(|(name, _)| of(name, None));
    let no_code = std::iter::once(ANY_NODE.to_owned());
    Labels::of(exact.chain(open).chain(no_code)).or_none()
}

/// What a node with this filter can replay.
pub(super) fn replayed_by(filter: Option<&DispatcherCapabilityFilter>) -> Labels {
    let Some(filter) = filter else {
        return Labels::Any;
    };
    let ranges = &filter.supported_duroxide_versions;
    let labels = Labels::of::<String>([]);
    let labels = ranges.iter().fold(labels, |labels, range| {
        labels.or_within(version(&range.min), version(&range.max))
    });
    if ranges.is_empty() {
        labels
    } else {
        labels.or_none()
    }
}

/// What a worker with this filter takes.
pub(super) fn taken_by(filter: &TagFilter) -> Labels {
    match filter {
        TagFilter::Any => Labels::Any,
        TagFilter::None => Labels::of::<String>([]),
        TagFilter::DefaultOnly => Labels::only_none(),
        TagFilter::Tags(tags) => Labels::of(tags),
        TagFilter::DefaultAnd(tags) => Labels::of(tags).or_none(),
    }
}

/// A version as a text that sorts, byte by byte, as versions do.
pub(super) fn version(version: &Version) -> String {
    let mut text = format!(
        "{:020}.{:020}.{:020}",
        version.major, version.minor, version.patch
    );
    if version.pre.is_empty() {
        // A release comes after all its pre-releases.
        text.push('~')
    } else {
        parts(&mut text, '-', version.pre.as_str())
    }
    if !version.build.is_empty() {
        parts(&mut text, '+', version.build.as_str());
    }
    // For people, and for reading it back; it decides nothing, because it is the same where all before it is.
    let _ = write!(text, "\0{version}");
    text
}

/// Identifiers in order: numbers by size and before words, a shorter list before a longer one.
fn parts(text: &mut String, mark: char, list: &str) {
    text.push(mark);
    for part in list.split('.') {
        // Numbers of any size compare by their length first; zeros in front count only for builds.
        let _ = if part.bytes().all(|byte| byte.is_ascii_digit()) {
            let digits = part.trim_start_matches('0');
            write!(text, "\x010{:010}{digits}\x02{part}", digits.len())
        } else {
            write!(text, "\x011{part}")
        };
    }
    text.push('\0');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_semver_says() {
        let sorted = [
            "0.1.31",
            "0.2.0-1",
            "0.2.0-2",
            "0.2.0-11",
            "0.2.0-alpha",
            "0.2.0-alpha.1",
            "0.2.0-alpha.1.1",
            "0.2.0-alpha.beta",
            "0.2.0-beta",
            "0.2.0-beta.2",
            "0.2.0-beta.11",
            "0.2.0-rc.1",
            "0.2.0",
            "0.10.0",
            "1.0.0",
            "1.2.1499",
            "1.2.1500",
            "10.0.0",
            "18446744073709551615.0.0",
        ];
        let parsed: Vec<_> = sorted.map(|text| Version::parse(text).unwrap()).into();
        for a in &parsed {
            for b in &parsed {
                assert_eq!(version(a).cmp(&version(b)), a.cmp(b), "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_kind_tells_its_handler() {
        for name in ["order", "", "a:b@c", "é@1"] {
            for version in [None, Some("1.0.0"), Some("unknown")] {
                assert_eq!(parse(&of(name, version)), Some((name, version)));
            }
        }
        assert_eq!(parse(ANY_NODE), None);
        assert_ne!(of("a@1", None), of("a", Some("1")));
    }
}
