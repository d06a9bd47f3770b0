//! What a program shares with its activities, by type. In: values given at the start. Out: [`State`] for activities
//! that ask for it. Never changes after the start.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that the program gave at its start, for every activity that asks for it.
///
/// ```
/// use duroxide::State;
///
/// struct App {
///     currency: &'static str,
/// }
///
/// fn price(app: State<App>, cents: u64) -> String {
///     format!("{cents} {}", app.currency)
/// }
///
/// // In a unit test there is no program; the test gives the value.
/// assert_eq!(price(State::new(App { currency: "EUR" }), 250), "250 EUR");
/// ```
pub struct State<T: ?Sized>(Arc<T>);

impl<T> State<T> {
    /// A value of its own, for unit tests.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> State<T> {
    /// The shared value itself.
    #[must_use]
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> From<Arc<T>> for State<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&&*self.0).finish()
    }
}

/// A type that an activity asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    id: TypeId,
    name: &'static str,
}

impl Needed {
    /// This type.
    #[must_use]
    pub fn of<T: Send + Sync + ?Sized + 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        }
    }
}

/// All values of a program, by type. Each is kept as its [`State`], which has a size whatever it leads to.
#[derive(Clone, Default)]
pub struct States(HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>);

impl States {
    /// Adds a value; false if there is one of this type already.
    pub(crate) fn insert<T: Send + Sync + ?Sized + 'static>(&mut self, value: Arc<T>) -> bool {
        let state = Arc::new(State(value));
        let named = (type_name::<T>(), state as Arc<dyn Any + Send + Sync>);
        self.0.insert(TypeId::of::<T>(), named).is_none()
    }

    /// Adds the values of another collection; the first type that both have, if there is one.
    pub(crate) fn extend(&mut self, other: Self) -> Option<&'static str> {
        let mut twice = None;
        for (id, (name, value)) in other.0 {
            if self.0.insert(id, (name, value)).is_some() {
                twice = twice.or(Some(name));
            }
        }
        twice
    }

    /// The name of the type, if it is missing.
    pub(crate) fn lacks(&self, needed: &Needed) -> Option<&'static str> {
        (!self.0.contains_key(&needed.id)).then_some(needed.name)
    }

    /// The value of a type.
    ///
    /// # Panics
    ///
    /// If it is missing. Registering an activity checks what it needs, so this cannot happen in one that
    /// [says so](crate::ActivityBody::needs).
    #[must_use]
    pub fn get<T: Send + Sync + ?Sized + 'static>(&self) -> State<T> {
        let state = self.0.get(&TypeId::of::<T>());
        let state = state.and_then(|(_, state)| state.downcast_ref::<State<T>>());
        state
            .cloned()
            .unwrap_or_else(|| panic!("no state of type {}: list it in `needs`", type_name::<T>()))
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States")
            .field("types", &self.0.len())
            .finish()
    }
}
