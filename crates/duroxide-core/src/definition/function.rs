//! Functions that are definitions. The attributes leave the function a function, so that it is called and shadowed like
//! any other; its return type names the definition it stands for.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Activity, Orchestration};

/// The future of a handler's function, and the name of the definition `D`. Awaiting it runs the body, as in a unit
/// test.
#[must_use = "a body runs when it is awaited"]
pub struct Body<'a, D, R> {
    future: Pin<Box<dyn Future<Output = R> + Send + 'a>>,
    definition: PhantomData<fn() -> D>,
}

impl<'a, D, R> Body<'a, D, R> {
    /// The body of `D`.
    pub fn new(future: impl Future<Output = R> + Send + 'a) -> Self {
        Self {
            future: Box::pin(future),
            definition: PhantomData,
        }
    }
}

impl<D, R> Future for Body<'_, D, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        self.future.as_mut().poll(cx)
    }
}

impl<D, R> fmt::Debug for Body<'_, D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

/// What stands for an activity: its definition, or the function that `#[duroxide::activity]` was put on. `Via` tells
/// the two apart and is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity",
    label = "not an activity",
    note = "put `#[duroxide::activity]` on its function, or name one that lives elsewhere with `ActivityRef::new(\"name\")`"
)]
pub trait ToActivity<Via> {
    /// The definition.
    type Activity: Activity;

    /// The definition.
    fn to_activity(self) -> Self::Activity;
}

/// What stands for an orchestration: its definition, or the function that `#[duroxide::orchestration]` was put on.
/// `Via` tells the two apart and is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an orchestration",
    label = "not an orchestration",
    note = "put `#[duroxide::orchestration]` on its function, or name one that lives elsewhere with `OrchestrationRef::new(\"name\")`"
)]
pub trait ToOrchestration<Via> {
    /// The definition.
    type Orchestration: Orchestration;

    /// The definition.
    fn to_orchestration(self) -> Self::Orchestration;
}

/// A definition stands for itself.
#[derive(Debug)]
pub struct Itself;

impl<A: Activity> ToActivity<Itself> for A {
    type Activity = A;

    fn to_activity(self) -> A {
        self
    }
}

impl<O: Orchestration> ToOrchestration<Itself> for O {
    type Orchestration = O;

    fn to_orchestration(self) -> O {
        self
    }
}

macro_rules! functions {
    ($($parameter:ident)*) => {
        impl<'a, Func, D, R, $($parameter),*> ToActivity<fn($($parameter),*)> for Func
        where
            Func: Fn($($parameter),*) -> Body<'a, D, R>,
            D: Activity + Default,
        {
            type Activity = D;

            fn to_activity(self) -> D {
                D::default()
            }
        }

        impl<'a, Func, D, R, $($parameter),*> ToOrchestration<fn($($parameter),*)> for Func
        where
            Func: Fn($($parameter),*) -> Body<'a, D, R>,
            D: Orchestration + Default,
        {
            type Orchestration = D;

            fn to_orchestration(self) -> D {
                D::default()
            }
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C E);
functions!(A B C E F);
functions!(A B C E F G);
functions!(A B C E F G H);
functions!(A B C E F G H I);
functions!(A B C E F G H I J);
functions!(A B C E F G H I J K);
