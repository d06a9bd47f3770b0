//! A deserializer without any input. In: what a type asks for. Out: a made-up value for it, and a note of what it was.

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::{Notes, Shape, UNKNOWN};

/// A made-up value was refused.
#[derive(Debug, thiserror::Error)]
#[error("a made-up value was refused")]
pub(super) struct Refused;

impl de::Error for Refused {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

#[derive(Clone, Copy)]
pub(super) struct Probe<'a>(pub(super) &'a RefCell<Notes>);

impl Probe<'_> {
    fn note(self, what: impl Into<String>) {
        self.0.borrow_mut().last = what.into();
    }

    fn last(self) -> String {
        self.0.borrow().last.clone()
    }

    /// Asks for the parts of a named type, unless they are being asked for.
    fn within<T>(self, name: &str, ask: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
        let is_open = self.0.borrow().open.iter().any(|open| open == name);
        let asked = if is_open {
            Err(Refused)
        } else {
            self.0.borrow_mut().open.push(name.to_owned());
            let asked = ask();
            self.0.borrow_mut().open.pop();
            asked
        };
        self.note(name);
        asked
    }

    /// What a struct, or a variant of an enum, holds under its names.
    fn named_fields<'de, V: Visitor<'de>>(
        self,
        of: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let shape = || Shape::Struct(Shape::of_unknown_parts(fields));
        self.0.borrow_mut().meet(of, shape);
        let asked = fields.iter().copied();
        let asked = asked.filter(|field| !self.0.borrow().is_left_out(of, field));
        let asked: Vec<&'static str> = asked.collect();
        self.within(of, || {
            visitor.visit_map(Fields {
                probe: self,
                of,
                left: asked.into_iter(),
                current: "",
            })
        })
    }

    /// A few values; what they were is noted as one.
    fn few<'de, V: Visitor<'de>>(
        self,
        count: usize,
        visit: impl FnOnce(V, Few<'_>) -> Result<V::Value, Refused>,
        visitor: V,
        describe: impl FnOnce(&[String]) -> String,
    ) -> Result<V::Value, Refused> {
        let seen = RefCell::new(Vec::new());
        let few = Few {
            probe: self,
            left: count,
            seen: &seen,
        };
        let made = visit(visitor, few);
        self.note(describe(&seen.into_inner()));
        made
    }
}

/// The names of a struct, one after another, each with a made-up value.
struct Fields<'a, 'n> {
    probe: Probe<'a>,
    of: &'n str,
    left: std::vec::IntoIter<&'static str>,
    current: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some(name) = self.left.next() else {
            return Ok(None);
        };
        self.current = name;
        let name: StrDeserializer<'_, Refused> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let before = std::mem::take(&mut self.probe.0.borrow_mut().has_news);
        self.probe.note(UNKNOWN);
        let value = seed.deserialize(self.probe);
        let holds = self.probe.last();
        let mut notes = self.probe.0.borrow_mut();
        // Once nothing more is learnt from a value that is refused, the others are looked at without it.
        if value.is_err() && !notes.has_news {
            notes.leave_out(self.of, self.current);
        }
        notes.learn(self.of, self.current, holds);
        notes.has_news |= before;
        value
    }
}

/// A few made-up values.
struct Few<'a> {
    probe: Probe<'a>,
    left: usize,
    seen: &'a RefCell<Vec<String>>,
}

impl Few<'_> {
    fn make<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let value = seed.deserialize(self.probe);
        self.seen.borrow_mut().push(self.probe.last());
        value
    }

    fn make_one_more<'de, S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.make(seed).map(Some)
    }
}

impl<'de> SeqAccess<'de> for Few<'_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.make_one_more(seed)
    }
}

impl<'de> MapAccess<'de> for Few<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        self.make_one_more(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.make(seed)
    }
}

/// One variant of an enum.
struct Variant<'a, 'n> {
    probe: Probe<'a>,
    of: &'n str,
    name: &'static str,
}

impl Variant<'_, '_> {
    fn holds(&self, what: String) {
        let mut notes = self.probe.0.borrow_mut();
        let Some(Shape::Enum(variants)) = notes.types.get_mut(self.of) else {
            return;
        };
        if variants
            .get(self.name)
            .is_some_and(|known| known == UNKNOWN)
        {
            variants.insert(self.name.to_owned(), what);
            notes.has_news = true;
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Refused> {
        let name: StrDeserializer<'_, Refused> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        self.holds(String::new());
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        let made = seed.deserialize(self.probe);
        self.holds(format!("({})", self.probe.last()));
        made
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        let made = self.probe.deserialize_tuple(len, visitor);
        self.holds(self.probe.last());
        made
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let name = format!("{}::{}", self.of, self.name);
        let made = self.probe.named_fields(&name, fields, visitor);
        self.holds(name);
        made
    }
}

macro_rules! made_up {
    ($($method:ident, $visit:ident($($value:expr)?), $what:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.note($what);
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    // One and not nothing: some numbers must not be zero.
    made_up! {
        deserialize_any, visit_unit(), "anything";
        deserialize_ignored_any, visit_unit(), "anything";
        deserialize_bool, visit_bool(true), "bool";
        deserialize_i8, visit_i8(1), "i8";
        deserialize_i16, visit_i16(1), "i16";
        deserialize_i32, visit_i32(1), "i32";
        deserialize_i64, visit_i64(1), "i64";
        deserialize_i128, visit_i128(1), "i128";
        deserialize_u8, visit_u8(1), "u8";
        deserialize_u16, visit_u16(1), "u16";
        deserialize_u32, visit_u32(1), "u32";
        deserialize_u64, visit_u64(1), "u64";
        deserialize_u128, visit_u128(1), "u128";
        deserialize_f32, visit_f32(1.0), "f32";
        deserialize_f64, visit_f64(1.0), "f64";
        deserialize_char, visit_char('x'), "char";
        deserialize_str, visit_str("x"), "text";
        deserialize_string, visit_str("x"), "text";
        deserialize_identifier, visit_str("x"), "text";
        deserialize_bytes, visit_bytes(b"x"), "bytes";
        deserialize_byte_buf, visit_bytes(b"x"), "bytes";
        deserialize_unit, visit_unit(), "nothing";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let made = visitor.visit_some(self);
        self.note(format!("option of {}", self.last()));
        made
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.note(name);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let made = self.within(name, || {
            let made = visitor.visit_newtype_struct(self);
            let inner = self.last();
            self.0.borrow_mut().meet(name, || Shape::Newtype(inner));
            made
        });
        self.note(name);
        made
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let describe = |seen: &[String]| format!("list of {}", part(seen, 0));
        self.few(
            1,
            |visitor: V, few| visitor.visit_seq(few),
            visitor,
            describe,
        )
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let describe = |seen: &[String]| {
            let parts: Vec<&str> = (0..len).map(|at| part(seen, at)).collect();
            format!("({})", parts.join(", "))
        };
        self.few(
            len,
            |visitor: V, few| visitor.visit_seq(few),
            visitor,
            describe,
        )
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.within(name, || {
            let made = self.deserialize_tuple(len, visitor);
            let inner = self.last();
            self.0.borrow_mut().meet(name, || Shape::Newtype(inner));
            made
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let describe = |seen: &[String]| format!("map of {} to {}", part(seen, 0), part(seen, 1));
        self.few(
            1,
            |visitor: V, few| visitor.visit_map(few),
            visitor,
            describe,
        )
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.named_fields(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let shape = || Shape::Enum(Shape::of_unknown_parts(variants));
        self.0.borrow_mut().meet(name, shape);
        let Some(next) = self.0.borrow().next_variant(name, variants) else {
            return Err(Refused);
        };
        self.within(name, || {
            visitor.visit_enum(Variant {
                probe: self,
                of: name,
                name: next,
            })
        })
    }
}

fn part(seen: &[String], at: usize) -> &str {
    seen.get(at).map_or(UNKNOWN, String::as_str)
}
