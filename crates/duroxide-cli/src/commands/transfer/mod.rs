//! Instances that go from one store to another: whole, verified, none of them twice. In: stores. Out: stores that hold
//! the same.

mod copy;
mod door;
mod import;
mod moving;
mod published;
mod source;
mod standing;

use copy::{Copier, Counts, Incarnations};
pub(crate) use door::nodes_up;
pub(crate) use import::run as import;
pub(crate) use moving::{reopen, run as move_store};
pub(crate) use published::run as import_published;
use source::Source;
pub(crate) use source::{family, held_pages, take};

use crate::store::{admin, cannot};
