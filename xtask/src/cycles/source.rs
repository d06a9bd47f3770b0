//! The code of a file without what is not code. In: its text. Out: the same lines, with comments, texts in quotes and
//! test modules blanked, and the paths that are written in them.

/// Blanks comments, quoted texts and characters, and keeps every line where it is.
pub(super) fn code(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            ('/', Some('/')) => until(&bytes, at, |rest| rest[0] == '\n'),
            ('/', Some('*')) => until(&bytes, at + 2, |rest| rest.starts_with(&['*', '/'])) + 2,
            ('"', _) => quoted(&bytes, at + 1),
            ('r', Some('"' | '#')) if !is_word(at.checked_sub(1).map(|before| bytes[before])) => {
                raw(&bytes, at)
            }
            ('\'', Some('\\')) => until(&bytes, at + 3, |rest| rest[0] == '\'') + 1,
            ('\'', Some(_)) if bytes.get(at + 2) == Some(&'\'') => at + 3,
            _ => at,
        };
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            let end = end.min(bytes.len());
            out.extend(bytes[at..end].iter().filter(|c| **c == '\n'));
            out.push(' ');
            at = end;
        }
    }
    without_tests(&out)
}

fn until(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len())
        .find(|at| is_end(&chars[*at..]))
        .unwrap_or(chars.len())
}

fn quoted(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `r"…"`, `r#"…"#`; a raw name such as `r#type` is left alone.
fn raw(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let close: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    until(chars, at + hashes + 2, |rest| rest.starts_with(&close)) + close.len()
}

/// Blanks `#[cfg(test)] mod … { … }`: tests may look everywhere.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    while let Some(start) = out.find("#[cfg(test)]") {
        let rest = &out[start..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(open), semicolon) if semicolon.is_none_or(|at| open < at) => {
                closing(&rest[open..]) + open
            }
            (_, Some(semicolon)) => semicolon + 1,
            _ => rest.len(),
        };
        let lines: String = rest[..end].chars().filter(|c| *c == '\n').collect();
        out.replace_range(start..start + end, &lines);
    }
    out
}

/// The names of modules in other files that only tests have: `#[cfg(test)] mod name;`.
pub(super) fn test_modules(text: &str) -> Vec<String> {
    let after = text.split("#[cfg(test)]").skip(1);
    after
        .filter_map(|rest| rest.trim_start().strip_prefix("mod "))
        .filter_map(|rest| rest.split_once([';', '{']).map(|(name, _)| name))
        .map(|name| name.trim().to_owned())
        .collect()
}

/// The place behind the brace that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The paths in code that begin with one of these words, with the line of each; groups in braces are taken apart.
pub(super) fn paths(code: &str, starts: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (number, at, start) in beginnings(code, starts) {
        let mut prefix = vec![start.to_owned()];
        expand(&code[at..], &mut prefix, &mut |path| {
            found.push((number, path.to_vec()))
        });
    }
    found
}

/// Every place behind `start::`, with its line.
fn beginnings<'a>(code: &str, starts: &[&'a str]) -> Vec<(usize, usize, &'a str)> {
    let mut found = Vec::new();
    for start in starts {
        let head = format!("{start}::");
        for (at, _) in code.match_indices(&head) {
            let before = code[..at].chars().next_back();
            if !is_word(before) && !matches!(before, Some(':' | '$')) {
                let line = code[..at].matches('\n').count() + 1;
                found.push((line, at + head.len(), *start));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Reads what follows `prefix::`, tells every path, and returns how much was read.
fn expand(code: &str, prefix: &mut Vec<String>, tell: &mut impl FnMut(&[String])) -> usize {
    let mut at = code.len() - code.trim_start().len();
    if code[at..].starts_with('{') {
        at += 1;
        while at < code.len() && !code[at..].starts_with('}') {
            at += expand(&code[at..], prefix, tell);
            // A comma, `as name`, or whatever else stands here.
            at += code[at..].find([',', '}']).unwrap_or(code.len() - at);
            at += usize::from(code[at..].starts_with(','));
        }
        return (at + 1).min(code.len());
    }
    let word: String = code[at..]
        .chars()
        .take_while(|c| is_word(Some(*c)) || *c == '*')
        .collect();
    at += word.len();
    if word.is_empty() {
        return at;
    }
    prefix.push(word);
    let more = code[at..].trim_start();
    if let Some(rest) = more.strip_prefix("::") {
        let skipped = code.len() - rest.len();
        at = skipped + expand(rest, prefix, tell);
    } else {
        tell(prefix);
    }
    prefix.pop();
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_tests_are_no_code_and_lines_stay() {
        let text = "a // crate::x\n/* crate::y\n */ b \"crate::z \\\" \" r#\"crate::w\"# '\\'' '\"' c\n#[cfg(test)]\nmod tests {\n use crate::t; { }\n}\nd";
        let code = code(text);
        assert!(!code.contains("crate"), "{code}");
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(code.ends_with('d') && code.contains('b') && code.contains('c'));
    }

    #[test]
    fn modules_of_tests_are_known_by_their_attribute() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse x;\nmod b;\n";
        assert_eq!(test_modules(text), ["tests"]);
    }

    #[test]
    fn groups_are_taken_apart() {
        let found = paths(
            "x\nuse crate::{a, b::{C, d::E as F}, g::*};\nsuper::h::i(1); mycrate::no; $crate::no",
            &["crate", "super"],
        );
        let said: Vec<String> = found
            .iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect();
        assert_eq!(
            said,
            [
                "2 crate::a",
                "2 crate::b::C",
                "2 crate::b::d::E",
                "2 crate::g::*",
                "3 super::h::i"
            ]
        );
    }
}
