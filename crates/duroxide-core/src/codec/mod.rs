//! How typed values become text and come back.
//!
//! **What is written.** A value that serialises to a string travels bare, as the text itself; everything else travels
//! as compact JSON with the keys of every object in ascending order. `f32` is written as the `f64` it equals. The text
//! is the same whatever features of `serde_json` a program turns on.
//!
//! **When a string is quoted.** A bare text that is JSON by itself can be read in two ways. Such a string is written as
//! a JSON string, with quotes and escapes, where its type could take the other reading:
//!
//! | type | bare | quoted |
//! |---|---|---|
//! | `String`, `str`, `Cow<str>`, `Box<str>` and references to them | always | never |
//! | `char`, unit variants, newtypes of the above | all else | JSON string literals |
//! | an `Option` of any of these | all else | JSON string literals, `null` |
//! | anything else: `serde_json::Value`, untagged enums, transparent wrappers, types that serialise their `Display` form | all else | every text that is JSON |
//!
//! **How it is read.** The text types of the first row take the text as it is. Everything else is read as JSON; a text
//! that is not JSON for the type is read as a bare string. So what the published crate wrote is read as it read it.
//!
//! **What cannot come back.** `Some(None)` and `Some(())` are `null` in JSON and come back as `None`; NaN and
//! infinities are `null` too. That is JSON's own limit, with or without this codec.
//!
//! **What is the same.** Two recorded texts are the same if they are equal, or if both are JSON and mean the same; see
//! [`same_meaning`].

mod json;
mod read;
mod write;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use json::Node;
use write::{Piece, Style};

/// Text of a value, by the rule at the head of this module.
///
/// # Errors
///
/// When the value does not serialise.
///
/// ```
/// use duroxide::codec;
/// assert_eq!(codec::encode("plain").as_deref(), Ok("plain"));
/// assert_eq!(codec::encode(&[1, 2]).as_deref(), Ok("[1,2]"));
/// // Bare, it would be taken for the absence of a value.
/// assert_eq!(codec::encode(&Some("null")).as_deref(), Ok("\"null\""));
/// ```
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let piece = write::piece(value, Style::Sorted).map_err(|e| e.to_string())?;
    Ok(match piece {
        Piece::Json(text) => text,
        Piece::Text { text, .. } if is_text::<T>() => text,
        Piece::Text {
            text,
            plain,
            optional,
        } => match json::shape(&text) {
            None => text,
            Some(json::Shape::String) => json::quoted(&text),
            Some(json::Shape::Null) if optional || !plain => json::quoted(&text),
            Some(json::Shape::Other) if !plain => json::quoted(&text),
            Some(json::Shape::Null | json::Shape::Other) => text,
        },
    })
}

/// A value as compact JSON, strings quoted: structs in the order of their fields, maps in the order of their keys.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let piece = write::piece(value, Style::Declared).map_err(|e| e.to_string())?;
    Ok(piece.into_json())
}

/// The value of a text written by [`encode`], or of any JSON text.
///
/// A text that is not JSON for `T` is tried as a bare string. If `T` takes no bare string either, the error is the
/// one of the JSON decoder, with its position.
///
/// # Errors
///
/// When the text fits neither way.
///
/// ```
/// use duroxide::codec;
/// assert_eq!(codec::decode::<Vec<u8>>("[1,2]"), Ok(vec![1, 2]));
/// assert_eq!(codec::decode::<String>("[1,2]").as_deref(), Ok("[1,2]"));
/// ```
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let bare = || serde_json::from_value(Value::String(text.to_owned()));
    if is_text::<T>() {
        return bare().map_err(|e: serde_json::Error| e.to_string());
    }
    let json_error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if keeps_digits()
        && let Some(value) = read::decode(text)
    {
        return Ok(value);
    }
    bare().map_err(|_| json_error.to_string())
}

/// Whether two texts say the same: equal, or both JSON and equal in meaning.
///
/// The order of an object's keys means nothing, nor do spaces and escapes. Numbers are compared by their exact decimal
/// value: `1`, `1.0` and `1e0` are the same, 2^53 and 2^53 + 1 are not. A JSON string is also the same as its own bare
/// text, because that is how strings travel. Texts nested deeper than 128 levels, which no value decodes from, are
/// compared letter by letter.
///
/// ```
/// use duroxide::codec::same_meaning;
/// assert!(same_meaning(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#));
/// assert!(!same_meaning("9007199254740993", "9007199254740992"));
/// ```
#[must_use]
pub fn same_meaning(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (Node::parse(one), Node::parse(other)) {
        (Some(one), Some(other)) if one == other => true,
        (Some(Node::String(bare)), _) if bare == other => true,
        (_, Some(Node::String(bare))) => bare == one,
        _ => false,
    }
}

/// Whether `T` is text and nothing else: such a value is the text itself, even if the text happens to be JSON. `T` need
/// not be `'static`, which rules out comparing type ids. A name that is spelt in another way costs quotes, never a
/// value.
fn is_text<T: ?Sized>() -> bool {
    let mut name = std::any::type_name::<T>();
    loop {
        name = match name {
            "alloc::string::String" | "str" => return true,
            _ => match unwrapped(name) {
                Some(inner) => inner,
                None => return false,
            },
        };
    }
}

/// The name inside a reference or a pointer.
fn unwrapped(name: &str) -> Option<&str> {
    const POINTERS: [&str; 4] = [
        "alloc::borrow::Cow<",
        "alloc::boxed::Box<",
        "alloc::sync::Arc<",
        "alloc::rc::Rc<",
    ];
    if let Some(inner) = name.strip_prefix('&') {
        return Some(inner.strip_prefix("mut ").unwrap_or(inner));
    }
    let inner = POINTERS.iter().find_map(|p| name.strip_prefix(p))?;
    inner.strip_suffix('>')
}

/// Whether `serde_json` was built with `arbitrary_precision`, by any crate of the program: a fraction then reaches
/// untagged enums and flattened structs as a map, which they refuse.
fn keeps_digits() -> bool {
    serde_json::from_str::<Value>("1e999").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Point {
        x: i32,
    }

    #[test]
    fn a_string_travels_bare_and_comes_back_as_it_was() {
        for text in ["plain", "123", "null", "{\"a\":1}", "\"quoted\"", ""] {
            assert_eq!(encode(text).unwrap(), text);
            assert_eq!(decode::<String>(text).unwrap(), text);
        }
    }

    #[test]
    fn a_struct_travels_as_compact_json() {
        assert_eq!(encode(&Point { x: 4 }).unwrap(), "{\"x\":4}");
        assert_eq!(decode::<Point>("{\"x\":4}").unwrap(), Point { x: 4 });
    }

    #[test]
    fn a_decode_error_names_the_position_in_the_json() {
        let error = decode::<Point>("{\"x\":oops}").unwrap_err();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn digits_that_a_type_writes_as_text_come_back_as_they_were() {
        /// Writes its digits as text and reads them from text or from a number, as decimal types do.
        #[derive(Debug, PartialEq)]
        struct Decimal(String);

        impl Serialize for Decimal {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for Decimal {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match Value::deserialize(deserializer)? {
                    Value::String(text) => Self(text),
                    other => Self(other.to_string()),
                })
            }
        }

        for digits in [
            "1.50",
            "0.1000000000000000055511151231257827",
            "1e400",
            "-0",
        ] {
            let value = Decimal(digits.to_owned());
            let text = encode(&value).unwrap();
            assert_eq!(decode::<Decimal>(&text).unwrap(), value, "{text}");
            assert!(same_meaning(&text, digits), "as it was recorded before");
        }
    }

    #[test]
    fn a_bare_word_decodes_into_a_unit_variant() {
        #[derive(Debug, PartialEq, Deserialize)]
        enum Colour {
            Red,
        }
        assert_eq!(decode::<Colour>("Red").unwrap(), Colour::Red);
    }
}
