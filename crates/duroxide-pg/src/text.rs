//! Texts that PostgreSQL cannot hold as they are: it has no character NUL. In: any text. Out: a text without one, and
//! back.
//!
//! Only ids, names and values outside JSON go through here; JSON writes NUL as an escape of its own.

use std::borrow::Cow;
use std::error::Error;

use tokio_postgres::types::{FromSql, Type};

/// Stands before a replaced character.
const ESCAPE: char = '\u{1}';

/// The text as it is stored.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// The text as it was.
pub(crate) fn shown(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != ESCAPE {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('0') => plain.push('\0'),
            Some('1') => plain.push(ESCAPE),
            // Written by a person with a shell.
            Some(other) => plain.extend([ESCAPE, other]),
            None => plain.push(ESCAPE),
        }
    }
    plain
}

/// A payload as it is stored. Bytes that are no text, which only damage leaves, become one that does not decode: no
/// JSON begins like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) String);

impl<'a> FromSql<'a> for Payload {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match std::str::from_utf8(raw) {
            Ok(text) => text.to_owned(),
            Err(_) => format!(
                "{}{}",
                char::REPLACEMENT_CHARACTER,
                String::from_utf8_lossy(raw)
            ),
        }))
    }

    fn accepts(kind: &Type) -> bool {
        <String as FromSql>::accepts(kind)
    }
}

pub(crate) fn owned(text: &str) -> String {
    stored(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_none_holds_a_nul() {
        for text in [
            "",
            "plain",
            "a\0b",
            "\u{1}",
            "\u{1}0",
            "\0\0\u{1}1",
            "ä\0😀",
        ] {
            let kept = owned(text);
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(shown(kept), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_one_that_does_not_decode() {
        let read = |raw: &[u8]| Payload::from_sql(&Type::TEXT, raw).unwrap().0;
        assert_eq!(read("{\"ä\":1}".as_bytes()), "{\"ä\":1}");
        let damaged = read(b"{\"a\":\"\xff\"}");
        assert!(
            serde_json::from_str::<serde_json::Value>(&damaged).is_err(),
            "{damaged}"
        );
    }

    #[test]
    fn different_texts_stay_different() {
        assert_ne!(owned("\0"), owned("\u{1}0"));
    }
}
