//! What the stored form of a type looks like, asked of its own `Deserialize`. In: a type. Out: its structs with their
//! fields, its enums with their variants, as text. Never: a value that leaves this module.
//!
//! A deserializer without input gives each visitor a made-up value and records what it asked for (`probe.rs`). A type
//! that rejects such a value (a date, say) is skipped in the next pass; a derived `Deserialize` reports a missing field
//! only after it has visited the others, so each pass sees more. It stops when a pass adds nothing.

mod probe;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use probe::Probe;

/// More passes than any type needs.
const PASSES_MAX: usize = 10_000;

/// What is not known of a field.
const UNKNOWN: &str = "?";

/// Types by their names as serde knows them, each with its forms; more than one if types share a name.
pub(super) type Shapes = BTreeMap<String, BTreeSet<String>>;

/// Adds what `T` is made of.
pub(super) fn add<T: for<'de> Deserialize<'de>>(shapes: &mut Shapes) {
    let notes = RefCell::new(Notes::default());
    for _ in 0..PASSES_MAX {
        notes.borrow_mut().has_news = false;
        // What it makes is of no use, and neither is the error of a type that wants a better value.
        let _made_up = T::deserialize(Probe(&notes));
        if !notes.borrow().has_news {
            break;
        }
    }
    for (name, shape) in notes.into_inner().types {
        shapes.entry(name).or_default().insert(shape.to_string());
    }
}

/// What was asked for so far.
#[derive(Default)]
struct Notes {
    types: BTreeMap<String, Shape>,
    /// Fields that are left out, because what they hold refuses made-up values.
    left_out: BTreeSet<(String, String)>,
    /// Types whose parts are being asked for.
    open: Vec<String>,
    /// What the last value was.
    last: String,
    /// Whether this pass saw something that none before it did.
    has_news: bool,
}

impl Notes {
    /// A type that may be met for the first time.
    fn meet(&mut self, name: &str, shape: impl FnOnce() -> Shape) -> &mut Shape {
        let has_news = &mut self.has_news;
        self.types.entry(name.to_owned()).or_insert_with(|| {
            *has_news = true;
            shape()
        })
    }

    /// What a field of a type holds.
    fn learn(&mut self, of: &str, field: &str, holds: String) {
        let Some(Shape::Struct(fields)) = self.types.get_mut(of) else {
            return;
        };
        if fields.get(field).is_some_and(|known| known == UNKNOWN) {
            fields.insert(field.to_owned(), holds);
            self.has_news = true;
        }
    }

    fn leave_out(&mut self, of: &str, field: &str) {
        let key = (of.to_owned(), field.to_owned());
        self.has_news |= self.left_out.insert(key);
    }

    fn is_left_out(&self, of: &str, field: &str) -> bool {
        self.left_out.contains(&(of.to_owned(), field.to_owned()))
    }

    /// Whether another pass may show more of a struct.
    fn is_unfinished(&self, name: &str) -> bool {
        let Some(Shape::Struct(fields)) = self.types.get(name) else {
            return false;
        };
        let mut unknown = fields.iter().filter(|(_, holds)| *holds == UNKNOWN);
        unknown.any(|(field, _)| !self.is_left_out(name, field))
    }

    /// The variant of an enum that is to be looked at next.
    fn next_variant(&self, name: &str, variants: &[&'static str]) -> Option<&'static str> {
        let Some(Shape::Enum(known)) = self.types.get(name) else {
            return variants.first().copied();
        };
        let is_open = |variant: &&&'static str| {
            let is_unknown = known.get(**variant).is_some_and(|holds| holds == UNKNOWN);
            is_unknown || self.is_unfinished(&format!("{name}::{variant}"))
        };
        let open = variants.iter().find(is_open);
        open.or_else(|| variants.first()).copied()
    }
}

enum Shape {
    /// Fields, and what each holds.
    Struct(BTreeMap<String, String>),
    /// Variants, and what each holds.
    Enum(BTreeMap<String, String>),
    /// One value under a name.
    Newtype(String),
}

impl Shape {
    fn of_unknown_parts(parts: &[&str]) -> BTreeMap<String, String> {
        let unknown = |part: &&str| ((*part).to_owned(), UNKNOWN.to_owned());
        parts.iter().map(unknown).collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |parts: &BTreeMap<String, String>| {
            let part = |(name, holds): (&String, &String)| {
                if holds.is_empty() {
                    name.clone()
                } else {
                    format!("{name} {holds}")
                }
            };
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Newtype(inner) => f.write_str(inner),
            Self::Struct(fields) => write!(f, "{{ {} }}", list(fields)),
            Self::Enum(variants) => write!(f, "one of {}", list(variants)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes<T: for<'de> Deserialize<'de>>() -> Vec<String> {
        let mut shapes = Shapes::new();
        add::<T>(&mut shapes);
        let line = |(name, forms): (String, BTreeSet<String>)| {
            let forms: Vec<String> = forms.into_iter().collect();
            format!("{name}: {}", forms.join(" | "))
        };
        shapes.into_iter().map(line).collect()
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its form is looked at")]
    struct Order {
        item: String,
        #[serde(rename = "price")]
        cents: u64,
        address: Option<Address>,
        when: Date,
        tags: Vec<(String, bool)>,
        notes: BTreeMap<String, Note>,
        #[serde(skip)]
        cached: u8,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its form is looked at")]
    struct Address {
        when: Date,
        city: String,
    }

    /// Takes no text that is made up.
    struct Date;

    impl<'de> Deserialize<'de> for Date {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            match text.parse::<u64>() {
                Ok(_) => Ok(Self),
                Err(error) => Err(serde::de::Error::custom(error)),
            }
        }
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its form is looked at")]
    enum Note {
        Empty,
        Text(String),
        Both(u8, Date),
        Reply { to: Box<Note>, at: Date, by: Name },
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its form is looked at")]
    struct Name(String);

    #[test]
    fn structs_and_enums_are_told_with_all_they_hold() {
        assert_eq!(
            shapes::<Order>(),
            [
                "Address: { city text, when text }",
                "Name: text",
                "Note: one of Both (u8, text), Empty, Reply Note::Reply, Text (text)",
                "Note::Reply: { at text, by Name, to Note }",
                "Order: { address option of Address, item text, notes map of text to Note, price u64, \
                 tags list of (text, bool), when text }",
            ]
        );
    }

    #[test]
    fn what_has_no_name_has_no_shape() {
        assert!(shapes::<(u64, Option<String>)>().is_empty());
        assert!(shapes::<serde_json::Value>().is_empty());
    }

    #[test]
    fn the_order_of_fields_is_none_of_its_form() {
        mod one {
            #[derive(serde::Deserialize)]
            #[expect(dead_code, reason = "only its form is looked at")]
            pub(super) struct Point {
                x: i32,
                y: i32,
            }
        }
        mod other {
            #[derive(serde::Deserialize)]
            #[expect(dead_code, reason = "only its form is looked at")]
            pub(super) struct Point {
                y: i32,
                x: i32,
            }
        }
        assert_eq!(shapes::<one::Point>(), shapes::<other::Point>());
    }
}
