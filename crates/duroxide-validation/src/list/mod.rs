//! The list of all cases, written once. It feeds the registry, the `conformance!` macro and the documents.
//!
//! Form of an entry: `function [What it needs] call_shape;`, where the call shape is left out for functions that take
//! a factory. Each file adds its groups to those of the file before; the last one hands all of them on.

mod claims;
mod lives;
mod published;

/// Hands the whole case list to another macro.
///
/// `for_each_case! { [path::to::macro!] [anything] }` expands to
/// `path::to::macro! { [anything] module { case; … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($callback:tt)*] [$($arguments:tt)*]) => {
        $crate::__cases_published! { [$($callback)*] [$($arguments)*] }
    };
}
