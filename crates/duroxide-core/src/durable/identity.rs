//! Which execution of which instance the code runs for.

/// Who runs.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) instance_id: String,
    pub(crate) execution_id: u64,
    pub(crate) name: String,
    pub(crate) version: String,
}
