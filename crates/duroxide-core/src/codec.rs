//! How typed values become text and come back. Strings travel bare, everything else as compact JSON.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Text of a value: a string as it is, anything else as compact JSON.
///
/// # Errors
///
/// When the value does not serialise.
///
/// ```
/// use duroxide::codec;
/// assert_eq!(codec::encode("plain").as_deref(), Ok("plain"));
/// assert_eq!(codec::encode(&[1, 2]).as_deref(), Ok("[1,2]"));
/// ```
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    match serde_json::to_value(value).map_err(|e| e.to_string())? {
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
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
    if is_string::<T>() {
        return bare().map_err(|e: serde_json::Error| e.to_string());
    }
    serde_json::from_str(text)
        .or_else(|json_error| bare().map_err(|_| json_error))
        .map_err(|e| e.to_string())
}

/// Whether `T` is `String`: such a value is the text itself, even if the text happens to be a JSON literal. `T` need not
/// be `'static`, which rules out comparing type ids.
fn is_string<T>() -> bool {
    std::any::type_name::<T>() == std::any::type_name::<String>()
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
    fn a_bare_word_decodes_into_a_unit_variant() {
        #[derive(Debug, PartialEq, Deserialize)]
        enum Colour {
            Red,
        }
        assert_eq!(decode::<Colour>("Red").unwrap(), Colour::Red);
    }
}
