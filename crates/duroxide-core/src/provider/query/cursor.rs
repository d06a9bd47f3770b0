//! Where a page ended, as text that callers hand back unread.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{InstanceSort, SortKey, SortOrder};

/// Where a page ended. Opaque: made by a store, handed back to it with the next query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageCursor(String);

/// What a cursor says: the last instance of a page and its place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePosition {
    /// The order that the page had.
    pub sort: InstanceSort,
    /// The time that decided, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The instance.
    pub instance_id: String,
}

impl PageCursor {
    /// A cursor from its text, for instance from a link or a command line. It is checked when a store reads it.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cursor of a position.
    ///
    /// ```
    /// use duroxide_core::provider::{InstanceSort, PageCursor, PagePosition};
    /// let position = PagePosition { sort: InstanceSort::default(), at_ms: 7, instance_id: "ü/1".into() };
    /// let cursor = PageCursor::at(&position);
    /// assert_eq!(cursor.position(), Some(position));
    /// assert_eq!(PageCursor::from_text("anything").position(), None);
    /// ```
    #[must_use]
    pub fn at(position: &PagePosition) -> Self {
        let sort = letter(position.sort);
        let mut text = format!("{sort}{:x}-", position.at_ms);
        for byte in position.instance_id.bytes() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }

    /// The position that the cursor names; `None` if no store made it.
    #[must_use]
    pub fn position(&self) -> Option<PagePosition> {
        let sort = sort_of(self.0.chars().next()?)?;
        let (at, id) = self.0.get(1..)?.split_once('-')?;
        Some(PagePosition {
            sort,
            at_ms: u64::from_str_radix(at, 16).ok()?,
            instance_id: text_of_hex(id)?,
        })
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn letter(sort: InstanceSort) -> char {
    match (sort.by, sort.order) {
        (SortKey::Created, SortOrder::NewestFirst) => 'c',
        (SortKey::Created, SortOrder::OldestFirst) => 'C',
        (SortKey::Updated, SortOrder::NewestFirst) => 'u',
        (SortKey::Updated, SortOrder::OldestFirst) => 'U',
    }
}

fn sort_of(letter: char) -> Option<InstanceSort> {
    let (by, order) = match letter {
        'c' => (SortKey::Created, SortOrder::NewestFirst),
        'C' => (SortKey::Created, SortOrder::OldestFirst),
        'u' => (SortKey::Updated, SortOrder::NewestFirst),
        'U' => (SortKey::Updated, SortOrder::OldestFirst),
        _ => return None,
    };
    Some(InstanceSort { by, order })
}

fn text_of_hex(hex: &str) -> Option<String> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_made_is_no_position() {
        for text in [
            "", "c", "x5-61", "c5", "cz-61", "c5-6", "c5-zz", "c5-ff", "c5-é1",
        ] {
            assert_eq!(PageCursor::from_text(text).position(), None, "{text}");
        }
    }
}
