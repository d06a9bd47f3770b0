//! Instances that go from one store to another: whole, verified, none of them twice. In: stores. Out: stores that hold the same.

mod copy;
mod import;
mod moving;
mod published;
mod standing;

use copy::{Copier, Counts, Lives};
pub(crate) use copy::{held_pages, take};
pub(crate) use import::run as import;
pub(crate) use moving::{reopen, run as move_store};
pub(crate) use published::run as import_published;

use std::sync::Arc;

use duroxide_core::provider::{Provider, ProviderAdmin};

use crate::failure::Failure;

/// The administrative half of a store.
pub(crate) fn admin(store: &Arc<dyn Provider>) -> Result<&dyn ProviderAdmin, Failure> {
    let admin = store.as_management_capability();
    admin.ok_or_else(|| cannot("has no administrative half"))
}

/// A store that cannot do what is asked.
pub(crate) fn cannot(what: &str) -> Failure {
    Failure::Store(format!("this store {what}"))
}
