//! Comments of Rust files. In: a file. Out: the lines of comments that are too long, and the same file with their
//! paragraphs broken anew. A comment behind code on its line is left alone: rustfmt keeps it where it is.

use super::{lines, wrap};

/// Neighbouring lines of one kind: comments under the same margin and marker, or anything else.
struct Block<'a> {
    /// The number of its first line, from 1.
    first: usize,
    /// What stands before the text of each line; `None` if it is no comment.
    prefix: Option<&'a str>,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    /// The comment without its markers, as a page, and the columns that are left for it.
    fn page(&self, columns: usize) -> Option<(String, usize)> {
        let prefix = self.prefix?;
        let mut page = String::new();
        for line in &self.lines {
            let text = &line[prefix.len()..];
            page.push_str(text.strip_prefix(' ').unwrap_or(text));
            page.push('\n');
        }
        Some((page, columns.saturating_sub(prefix.chars().count() + 1)))
    }
}

/// The numbers of the lines of comments with more characters than this.
pub(super) fn too_long(file: &str, columns: usize) -> Vec<usize> {
    let mut long = Vec::new();
    for block in blocks(file) {
        if let Some((page, columns)) = block.page(columns) {
            let lines = lines::too_long(&page, columns);
            long.extend(lines.iter().map(|line| block.first + line - 1));
        }
    }
    long
}

/// The file in which every paragraph of a comment that had a line too long is broken anew.
pub(super) fn wrapped(file: &str, columns: usize) -> String {
    let mut out = String::new();
    for block in blocks(file) {
        let long = block
            .page(columns)
            .filter(|(page, columns)| !lines::too_long(page, *columns).is_empty());
        let Some((page, columns)) = long else {
            for line in block.lines {
                out.push_str(line);
                out.push('\n');
            }
            continue;
        };
        let prefix = block.prefix.unwrap_or_default();
        for line in wrap::wrapped(&page, columns).lines() {
            out.push_str(format!("{prefix} {line}").trim_end());
            out.push('\n');
        }
    }
    out
}

fn blocks(file: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (place, line) in file.lines().enumerate() {
        let prefix = prefix(line);
        match blocks.last_mut() {
            Some(block) if block.prefix == prefix => block.lines.push(line),
            _ => blocks.push(Block {
                first: place + 1,
                prefix,
                lines: vec![line],
            }),
        }
    }
    blocks
}

/// The margin and marker of a line that is a comment and nothing else.
fn prefix(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let margin = line.len() - text.len();
    let marker = ["//!", "///", "//"]
        .into_iter()
        .find(|marker| text.starts_with(marker))?;
    let end = margin + marker.len();
    let is_text = line[end..].is_empty() || line[end..].starts_with(' ');
    is_text.then(|| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
//! one two three four five
//!
//! ```
//! let code = as_long_as(it, is);
//! ```

fn f() {
    // aa bb cc dd ee
    let long = \"// is no comment, however long\"; // nor is this one
}
";

    #[test]
    fn long_lines_of_comments_are_found_and_code_in_them_may_be_long() {
        assert_eq!(too_long(FILE, 16), [1, 8]);
    }

    #[test]
    fn paragraphs_of_comments_are_broken_under_their_margin() {
        let expected = "\
//! one two
//! three four
//! five
//!
//! ```
//! let code = as_long_as(it, is);
//! ```

fn f() {
    // aa bb cc
    // dd ee
    let long = \"// is no comment, however long\"; // nor is this one
}
";
        assert_eq!(wrapped(FILE, 16), expected);
        assert_eq!(wrapped(expected, 16), expected);
    }
}
