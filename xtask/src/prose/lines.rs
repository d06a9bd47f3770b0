//! What kind each line of a page is. In: its text. Out: kinds, and the lines of prose that are too long.

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    Heading,
    Table,
    /// `[name]: target`.
    Definition,
    /// In or at a fence.
    Code,
    Empty,
}

/// Each line with its kind.
pub(super) fn kinds(page: &str) -> impl Iterator<Item = (&str, Kind)> {
    let mut in_fence = false;
    page.lines().map(move |line| {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        let kind = if is_fence || in_fence {
            Kind::Code
        } else if trimmed.is_empty() {
            Kind::Empty
        } else if trimmed.starts_with('|') {
            Kind::Table
        } else if trimmed.starts_with('[') && trimmed.contains("]: ") {
            Kind::Definition
        } else if trimmed.starts_with('#') {
            Kind::Heading
        } else {
            Kind::Prose
        };
        in_fence ^= is_fence;
        (line, kind)
    })
}

/// The numbers of the lines of prose with more characters than this. A line that cannot be broken may be as long as it
/// is.
pub(super) fn too_long(page: &str, columns: usize) -> Vec<usize> {
    kinds(page)
        .enumerate()
        .filter(|(_, (line, kind))| {
            *kind == Kind::Prose && line.chars().count() > columns && line.trim().contains(' ')
        })
        .map(|(place, _)| place + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_code_and_single_words_may_be_long() {
        let page = "short\nmuch too long\n| a long table |\n[`a`]: a::long::definition\n```\na long line\n```\nhttps://a-long-address\n";
        assert_eq!(too_long(page, 8), [2]);
    }
}
