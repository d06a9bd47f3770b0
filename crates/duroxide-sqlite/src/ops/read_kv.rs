//! Reads key-values of an instance, the running execution's changes included. What is left of a deleted one is not
//! there.

use std::collections::HashMap;

use crate::error::Result;
use crate::tables::{deletions, kv};
use crate::tx::Tx;

pub(crate) fn value(tx: &Tx<'_>, instance: &str, key: &str) -> Result<Option<String>> {
    if deletions::contains(tx, instance)? {
        return Ok(None);
    }
    kv::value(tx, instance, key)
}

pub(crate) fn values(tx: &Tx<'_>, instance: &str) -> Result<HashMap<String, String>> {
    if deletions::contains(tx, instance)? {
        return Ok(HashMap::new());
    }
    kv::values(tx, instance)
}
