//! JSON as it is compared: numbers by their exact value, objects without an order. In: text. Out: a tree of bounded
//! depth.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

/// Deepest nesting that is understood; `serde_json` decodes no deeper values either.
const DEPTH_MAX: usize = 128;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    /// The last value of a key that stands twice, as every decoder has it.
    Object(BTreeMap<String, Node>),
}

/// A number as it is written; equal if its exact decimal value is.
#[derive(Debug, Clone)]
pub(super) struct Number(pub(super) String);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
            || matches!((exact(&self.0), exact(&other.0)), (Some(one), Some(other)) if one == other)
    }
}

/// What a text is, read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    String,
    Other,
}

/// What a text is if it is JSON, however deep.
pub(super) fn shape(text: &str) -> Option<Shape> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    Some(match text.trim_ascii_start().as_bytes().first() {
        Some(b'"') => Shape::String,
        Some(b'n') => Shape::Null,
        _ => Shape::Other,
    })
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Node {
    /// The value of a JSON text; `None` if it is none, or nested too deeply.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // Checked as a whole first, so that the scanner below meets nothing but JSON.
        shape(text)?;
        Scanner { rest: text }.value(DEPTH_MAX)
    }

    /// Compact JSON, keys ascending, numbers as `serde_json` writes them.
    pub(super) fn write(&self, to: &mut String) {
        match self {
            Self::Null => to.push_str("null"),
            Self::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => to.push_str(&usual_number(&number.0)),
            Self::String(text) => to.push_str(&quoted(text)),
            Self::Array(items) => {
                to.push('[');
                for (place, item) in items.iter().enumerate() {
                    to.push_str(if place == 0 { "" } else { "," });
                    item.write(to);
                }
                to.push(']');
            }
            Self::Object(entries) => {
                to.push('{');
                for (place, (key, value)) in entries.iter().enumerate() {
                    to.push_str(if place == 0 { "" } else { "," });
                    to.push_str(&quoted(key));
                    to.push(':');
                    value.write(to);
                }
                to.push('}');
            }
        }
    }
}

/// Walks over text that is known to be JSON.
struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    fn value(&mut self, depth_left: usize) -> Option<Node> {
        match self.peek()? {
            b'n' => self.word("null", Node::Null),
            b't' => self.word("true", Node::Bool(true)),
            b'f' => self.word("false", Node::Bool(false)),
            b'"' => self.string().map(Node::String),
            b'[' => self.array(depth_left.checked_sub(1)?),
            b'{' => self.object(depth_left.checked_sub(1)?),
            _ => self.number(),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.as_bytes().first().copied()
    }

    fn take(&mut self, sign: u8) -> Option<()> {
        (self.peek()? == sign).then(|| self.rest = &self.rest[1..])
    }

    fn word(&mut self, word: &str, node: Node) -> Option<Node> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(node)
    }

    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let (literal, rest) = self.rest.split_at_checked(end + 2)?;
        self.rest = rest;
        serde_json::from_str(literal).ok()
    }

    fn number(&mut self) -> Option<Node> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at_checked(end).filter(|_| end > 0)?;
        self.rest = rest;
        Some(Node::Number(Number(number.to_owned())))
    }

    fn array(&mut self, depth_left: usize) -> Option<Node> {
        self.take(b'[')?;
        let mut items = Vec::new();
        while self.peek()? != b']' {
            if !items.is_empty() {
                self.take(b',')?;
            }
            items.push(self.value(depth_left)?);
        }
        self.take(b']')?;
        Some(Node::Array(items))
    }

    fn object(&mut self, depth_left: usize) -> Option<Node> {
        self.take(b'{')?;
        let mut entries = BTreeMap::new();
        let mut first = true;
        while self.peek()? != b'}' {
            if !std::mem::take(&mut first) {
                self.take(b',')?;
            }
            self.peek()?;
            let key = self.string()?;
            self.take(b':')?;
            entries.insert(key, self.value(depth_left)?);
        }
        self.take(b'}')?;
        Some(Node::Object(entries))
    }
}

/// A number as `serde_json` writes it without `arbitrary_precision`, where that says all of it; else as it stands.
pub(super) fn usual_number(text: &str) -> String {
    if let Ok(number) = text.parse::<u64>() {
        return number.to_string();
    }
    match text.parse::<i64>() {
        Ok(number) if number != 0 => return number.to_string(),
        _ => {}
    }
    let usual = text.parse().map(float_text).unwrap_or_default();
    match (exact(&usual), exact(text)) {
        (Some(usual_value), Some(value)) if usual_value == value => usual,
        _ => text.to_owned(),
    }
}

/// A float as JSON; one that JSON cannot say is `null`.
pub(super) fn float_text(value: f64) -> String {
    serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned())
}

/// Sign, digits without zeros at either end, and the power of ten they are multiplied by.
type Decimal = (bool, String, i64);

/// The exact value of a JSON number; `None` if its exponent is out of all bounds.
fn exact(text: &str) -> Option<Decimal> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some((false, String::new(), 0));
    }
    let shift = i64::try_from(significant.len() - trimmed.len()).ok()?;
    let fraction = i64::try_from(fraction.len()).ok()?;
    let exponent = exponent.checked_sub(fraction)?.checked_add(shift)?;
    Some((negative, trimmed.to_owned(), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_if_their_exact_value_is() {
        let same = [
            ("1", "1.0"),
            ("1e2", "100"),
            ("-0", "0.0"),
            ("0.10", "1E-1"),
            ("12300e-2", "123"),
        ];
        for (one, other) in same {
            assert_eq!(Node::parse(one), Node::parse(other), "{one} {other}");
        }
        let different = [
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551617", "18446744073709551616"),
            ("0.1", "0.10000000000000001"),
            ("1", "-1"),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ];
        for (one, other) in different {
            assert_ne!(Node::parse(one), Node::parse(other), "{one} {other}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_refused_and_never_overflows_the_stack() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Node::parse(&deep(128)).is_some());
        assert_eq!(Node::parse(&deep(129)), None);
        assert_eq!(Node::parse(&deep(1_000_000)), None);
    }

    #[test]
    fn a_tree_is_written_as_it_was_read() {
        let text = r#"{"a":[1,-2,1.5,"\"\\\u0001é"],"b":{"":null},"c":true,"d":false,"e":1e300}"#;
        let mut written = String::new();
        Node::parse(text).expect("JSON").write(&mut written);
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let again: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(again, value);
    }
}
