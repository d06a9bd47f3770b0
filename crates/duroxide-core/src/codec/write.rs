//! A value as JSON text, the same whatever features `serde_json` was built with.
//!
//! In: anything that serialises. Out: a [`Piece`], which still knows whether it was a string and of what kind.

use serde::Serialize;
use serde::ser::{self, Error as _, SerializeMap as _, Serializer};
use serde_json::Error;

use super::json::{self, Node, float_text, quoted};

/// What `serde_json` calls the struct behind its numbers when it keeps their digits.
const NUMBER: &str = "$serde_json::private::Number";
/// What it calls the struct behind a raw value.
const RAW: &str = "$serde_json::private::RawValue";

/// How objects and floats are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// All keys ascending; `f32` as the `f64` it equals.
    Sorted,
    /// Fields of structs as declared, keys of maps ascending; `f32` as short as it gets.
    Declared,
}

/// A value, written.
#[derive(Debug)]
pub(super) enum Piece {
    Json(String),
    /// A string, not yet quoted.
    Text {
        text: String,
        /// Its type takes nothing else than strings.
        plain: bool,
        /// It stood in an `Option`.
        optional: bool,
    },
}

impl Piece {
    fn text(text: impl Into<String>, plain: bool) -> Self {
        Self::Text {
            text: text.into(),
            plain,
            optional: false,
        }
    }

    pub(super) fn into_json(self) -> String {
        match self {
            Self::Json(text) => text,
            Self::Text { text, .. } => quoted(&text),
        }
    }
}

/// Writes a value.
pub(super) fn piece<T: Serialize + ?Sized>(value: &T, style: Style) -> Result<Piece, Error> {
    value.serialize(Writer(style))
}

#[derive(Clone, Copy)]
struct Writer(Style);

macro_rules! as_json {
    ($($call:ident $kind:ty),*) => {$(
        fn $call(self, value: $kind) -> Result<Piece, Error> {
            Ok(Piece::Json(value.to_string()))
        }
    )*};
}

impl Serializer for Writer {
    type Ok = Piece;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Object;
    type SerializeStruct = Object;
    type SerializeStructVariant = Object;

    as_json! {
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128
    }

    fn serialize_f32(self, value: f32) -> Result<Piece, Error> {
        match self.0 {
            Style::Sorted => self.serialize_f64(f64::from(value)),
            Style::Declared => serde_json::to_string(&value).map(Piece::Json),
        }
    }

    fn serialize_f64(self, value: f64) -> Result<Piece, Error> {
        Ok(Piece::Json(float_text(value)))
    }

    fn serialize_char(self, value: char) -> Result<Piece, Error> {
        Ok(Piece::text(value, true))
    }

    fn serialize_str(self, value: &str) -> Result<Piece, Error> {
        Ok(Piece::text(value, false))
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<Piece, Error> {
        // A decimal number that writes its digits this way reads them from a number too, and loses some.
        Ok(Piece::text(value.to_string(), false))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Piece, Error> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<Piece, Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Piece, Error> {
        let mut piece = wrapping(value, self)?;
        if let Piece::Text { optional, .. } = &mut piece {
            *optional = true;
        }
        Ok(piece)
    }

    fn serialize_unit(self) -> Result<Piece, Error> {
        Ok(Piece::Json("null".to_owned()))
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Piece, Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Piece, Error> {
        Ok(Piece::text(variant, true))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Piece, Error> {
        wrapping(value, self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Piece, Error> {
        let inner = value.serialize(self)?.into_json();
        Ok(inside(Some(variant), inner))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<List, Error> {
        Ok(List::new(self, None))
    }

    fn serialize_tuple(self, _len: usize) -> Result<List, Error> {
        Ok(List::new(self, None))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<List, Error> {
        Ok(List::new(self, None))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<List, Error> {
        Ok(List::new(self, Some(variant)))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Object, Error> {
        Ok(Object::new(self, true))
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Object, Error> {
        let mut object = Object::new(self, self.0 == Style::Sorted);
        object.name = name;
        Ok(object)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Object, Error> {
        let mut object = Object::new(self, self.0 == Style::Sorted);
        object.variant = Some(variant);
        Ok(object)
    }
}

/// The value inside an `Option` or a newtype: if its type is text, so is what is around it.
fn wrapping<T: Serialize + ?Sized>(value: &T, writer: Writer) -> Result<Piece, Error> {
    let mut piece = value.serialize(writer)?;
    if let Piece::Text { plain, .. } = &mut piece {
        *plain |= super::is_text::<T>();
    }
    Ok(piece)
}

fn inside(variant: Option<&str>, json: String) -> Piece {
    Piece::Json(match variant {
        Some(variant) => format!("{{{}:{json}}}", quoted(variant)),
        None => json,
    })
}

/// An array that grows.
pub(super) struct List {
    writer: Writer,
    variant: Option<&'static str>,
    json: String,
}

impl List {
    fn new(writer: Writer, variant: Option<&'static str>) -> Self {
        Self {
            writer,
            variant,
            json: "[".to_owned(),
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let item = value.serialize(self.writer)?.into_json();
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.json.push_str(&item);
        Ok(())
    }

    fn done(mut self) -> Piece {
        self.json.push(']');
        inside(self.variant, self.json)
    }
}

macro_rules! list {
    ($($family:ident $add:ident),*) => {$(
        impl ser::$family for List {
            type Ok = Piece;
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.push(value)
            }

            fn end(self) -> Result<Piece, Error> {
                Ok(self.done())
            }
        }
    )*};
}

list! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

/// An object that grows.
pub(super) struct Object {
    writer: Writer,
    name: &'static str,
    variant: Option<&'static str>,
    sorted: bool,
    key: Option<String>,
    entries: Vec<(String, Piece)>,
}

impl Object {
    fn new(writer: Writer, sorted: bool) -> Self {
        Self {
            writer,
            name: "",
            variant: None,
            sorted,
            key: None,
            entries: Vec::new(),
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<(), Error> {
        let piece = value.serialize(self.writer)?;
        self.entries.push((key, piece));
        Ok(())
    }

    fn done(mut self) -> Result<Piece, Error> {
        if matches!(self.name, NUMBER | RAW) {
            return private(self.name, self.entries.pop());
        }
        if self.sorted {
            // The last value of a key that stands twice counts.
            self.entries.reverse();
            self.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            self.entries.dedup_by(|later, first| later.0 == first.0);
        }
        let mut text = "{".to_owned();
        for (place, (key, value)) in self.entries.into_iter().enumerate() {
            text.push_str(if place == 0 { "" } else { "," });
            text.push_str(&quoted(&key));
            text.push(':');
            text.push_str(&value.into_json());
        }
        text.push('}');
        Ok(inside(self.variant, text))
    }
}

/// What `serde_json` hides behind a struct: a number that keeps its digits, or JSON as it stands.
fn private(name: &str, field: Option<(String, Piece)>) -> Result<Piece, Error> {
    let Some((_, Piece::Text { text, .. })) = field else {
        return Err(Error::custom(format!("unexpected content of {name}")));
    };
    if name == NUMBER {
        return Ok(Piece::Json(json::usual_number(&text)));
    }
    // A raw value may be a string by itself.
    match Node::parse(&text) {
        Some(Node::String(text)) => Ok(Piece::text(text, false)),
        Some(node) => {
            let mut written = String::new();
            node.write(&mut written);
            Ok(Piece::Json(written))
        }
        None => Ok(Piece::Json(text)),
    }
}

/// A key as text, by the rules of `serde_json`: strings, numbers, truth values and unit variants.
fn key_text<T: Serialize + ?Sized>(key: &T) -> Result<String, Error> {
    struct Entry<'a, T: ?Sized>(&'a T);

    impl<T: Serialize + ?Sized> Serialize for Entry<'_, T> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(self.0, &())?;
            map.end()
        }
    }

    let entry = serde_json::to_string(&Entry(key))?;
    let literal = entry
        .strip_prefix('{')
        .and_then(|e| e.strip_suffix(":null}"));
    serde_json::from_str(literal.unwrap_or_default())
}

impl ser::SerializeMap for Object {
    type Ok = Piece;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key_text(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take();
        let key = key.ok_or_else(|| Error::custom("a value without a key"))?;
        self.push(key, value)
    }

    fn end(self) -> Result<Piece, Error> {
        self.done()
    }
}

macro_rules! object {
    ($($family:ident),*) => {$(
        impl ser::$family for Object {
            type Ok = Piece;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.push(key.to_owned(), value)
            }

            fn end(self) -> Result<Piece, Error> {
                self.done()
            }
        }
    )*};
}

object!(SerializeStruct, SerializeStructVariant);
