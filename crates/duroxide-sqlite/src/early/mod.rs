pub(crate) mod in_flight;
pub(crate) mod recent_instances;

#[cfg(test)]
mod tests;
