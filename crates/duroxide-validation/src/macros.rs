//! `conformance!`: one line in a provider's tests makes one test per case.

/// Makes one test per case of the kit, in modules by group, each with a factory of its own.
///
/// The argument is an expression that makes a [`ProviderFactory`](crate::ProviderFactory); it is evaluated anew in
/// every test, inside a tokio runtime. Cases that need what the factory or the store does not offer pass and say
/// `skipped` with the reason; they fail if the factory declares it
/// ([`must_offer`](crate::ProviderFactory::must_offer)).
///
/// ```
/// use std::sync::Arc;
///
/// use duroxide_core::provider::Provider;
/// use duroxide_store::MemoryProvider;
/// use duroxide_validation::ProviderFactory;
///
/// #[derive(Default)]
/// struct Memory;
///
/// #[async_trait::async_trait]
/// impl ProviderFactory for Memory {
///     async fn create_provider(&self) -> Arc<dyn Provider> {
///         Arc::new(MemoryProvider::new())
///     }
/// }
///
/// mod conformance {
///     use super::Memory;
///     duroxide_validation::conformance!(Memory::default());
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    ($factory:expr) => {
        $crate::for_each_case! { [$crate::__conformance_tests!] [$factory] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$factory:expr] $($module:ident { $($name:ident $([$($need:ident),*])? $($shape:ident)?;)* })*) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the factory may be named by an absolute path")]
            use super::*;
            $(#[test]
            fn $name() {
                $crate::run_as_test(stringify!($module), stringify!($name), || $factory);
            })*
        })*
    };
}
