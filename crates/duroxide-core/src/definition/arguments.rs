//! What a call is handed, and what the function behind it takes. In: values or references. Out: the stored text.

use serde::{Serialize, de::DeserializeOwned};

use crate::codec;

/// Arguments of a call that takes `I`.
///
/// | the function takes | the call is handed |
/// |---|---|
/// | nothing | `()` |
/// | one input | it, or a reference to it; for a `String` also a `&str` |
/// | several | a tuple of them, or a tuple of references, or a reference to the tuple |
#[diagnostic::on_unimplemented(
    message = "this call takes `{I}`, not `{Self}`",
    label = "not what the call takes",
    note = "hand over a value or a reference; for several inputs a tuple, for none `()`"
)]
pub trait Arguments<I> {
    /// The text that is stored.
    ///
    /// # Errors
    ///
    /// When a value does not serialise.
    fn encode(self) -> Result<String, String>;
}

impl<T: Serialize> Arguments<T> for T {
    fn encode(self) -> Result<String, String> {
        codec::encode(&self)
    }
}

impl<T: Serialize> Arguments<T> for &T {
    fn encode(self) -> Result<String, String> {
        codec::encode(self)
    }
}

impl Arguments<String> for &str {
    fn encode(self) -> Result<String, String> {
        Ok(self.to_owned())
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Serialize),+> Arguments<($($name,)+)> for ($(&$name,)+) {
            fn encode(self) -> Result<String, String> {
                codec::encode(&self)
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

/// What a function takes, read from the stored text.
#[derive(Debug)]
pub struct Inputs;

impl Inputs {
    /// Reads the input of a function.
    ///
    /// # Errors
    ///
    /// When the text is not an input of this type.
    pub fn decode<T: DeserializeOwned + 'static>(text: &str) -> Result<T, String> {
        // A function without inputs does not care what it is handed: `null` from a typed call, anything from a plain
        // one.
        if std::any::TypeId::of::<T>() == std::any::TypeId::of::<()>() {
            return codec::decode("null");
        }
        codec::decode(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<I>(arguments: impl Arguments<I>) -> String {
        arguments.encode().unwrap()
    }

    #[test]
    fn values_and_references_are_stored_alike() {
        assert_eq!(text::<String>("Ada"), "Ada");
        assert_eq!(text::<String>(&"Ada".to_owned()), "Ada");
        assert_eq!(text::<u64>(7), text::<u64>(&7));
        assert_eq!(text::<(u64, bool)>((7, true)), "[7,true]");
        assert_eq!(text::<(u64, bool)>((&7, &true)), "[7,true]");
        assert_eq!(text::<(u64, bool)>(&(7, true)), "[7,true]");
        assert_eq!(text::<()>(()), "null");
    }

    #[test]
    fn a_function_without_inputs_takes_any_text() {
        assert_eq!(Inputs::decode::<()>(""), Ok(()));
        assert_eq!(Inputs::decode::<()>("null"), Ok(()));
        assert!(Inputs::decode::<u64>("").is_err());
    }
}
