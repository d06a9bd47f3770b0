pub(crate) mod claim;
pub(crate) mod waiting_claims;
