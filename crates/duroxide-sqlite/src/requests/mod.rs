pub(crate) mod inbox;
pub(crate) mod job;
