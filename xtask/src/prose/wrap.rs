//! Breaking long lines. In: a page. Out: the same page, in which every paragraph that had a line too long is broken
//! anew.

use super::lines::{Kind, kinds, too_long};

/// Paragraphs without a long line stay as they are: a page changes where it must and nowhere else.
pub(super) fn wrapped(page: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    for (line, kind) in kinds(page) {
        if kind != Kind::Prose || begins_item(line) {
            flush(&mut paragraph, columns, &mut out);
        }
        if kind == Kind::Prose {
            paragraph.push(line);
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    flush(&mut paragraph, columns, &mut out);
    out
}

fn flush(paragraph: &mut Vec<&str>, columns: usize, out: &mut String) {
    let text = paragraph.join("\n");
    // Two spaces at the end of a line break it on purpose.
    let is_free = !paragraph.iter().any(|line| line.ends_with("  "));
    if is_free && !too_long(&text, columns).is_empty() {
        broken(paragraph, columns, out);
    } else if !paragraph.is_empty() {
        out.push_str(&text);
        out.push('\n');
    }
    paragraph.clear();
}

fn broken(paragraph: &[&str], columns: usize, out: &mut String) {
    let first = paragraph[0];
    let indent = first.len() - first.trim_start().len();
    let marker = if begins_item(first) {
        first.trim_start().find(' ').map_or(0, |at| at + 1)
    } else {
        0
    };
    let margin = " ".repeat(indent + marker);
    let mut line = first[..indent + marker].to_owned();
    let mut is_fresh = true;
    for word in words(&paragraph.join(" ")[indent + marker..]) {
        let width = line.chars().count() + 1 + word.chars().count();
        if !is_fresh
            && width > columns
            && !begins_item(&format!("{word} "))
            && !word.starts_with(['#', '|', '>'])
        {
            out.push_str(line.trim_end());
            out.push('\n');
            line.clone_from(&margin);
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line.push_str(&word);
        is_fresh = false;
    }
    out.push_str(&line);
    out.push('\n');
}

/// Words, where text between backticks is one word however many spaces it has.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_code = false;
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if in_code => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    words
}

/// `- `, `* `, `+ ` or `12. ` at the beginning.
fn begins_item(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let is_number = digits > 0 && line[digits..].starts_with(". ");
    is_number
        || ["- ", "* ", "+ "]
            .iter()
            .any(|marker| line.starts_with(marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paragraphs_with_a_long_line_are_broken_anew() {
        let page = "one\ntwo\n\nthree four five six\nseven\n\n| a long line of a table |\n";
        let expected = "one\ntwo\n\nthree four\nfive six\nseven\n\n| a long line of a table |\n";
        assert_eq!(wrapped(page, 10), expected);
    }

    #[test]
    fn items_keep_their_margin_and_code_stays_in_one_piece() {
        let page = "- one two three\n  four\n- x\n12. a `b c d e` f\n";
        assert_eq!(
            wrapped(page, 12),
            "- one two\n  three four\n- x\n12. a\n    `b c d e`\n    f\n"
        );
    }

    #[test]
    fn no_line_begins_with_what_would_make_it_an_item() {
        assert_eq!(wrapped("aaaa bbbb - cc\n", 10), "aaaa bbbb -\ncc\n");
    }

    #[test]
    fn a_page_that_is_broken_once_stays_so() {
        let once = wrapped("- one two three four five\n", 12);
        assert_eq!(wrapped(&once, 12), once);
    }
}
