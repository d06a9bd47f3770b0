//! The seed that the environment names.

/// Names one seed for all tests.
pub(crate) const SEED: &str = "DUROXIDE_SEED";

/// The seed that the environment asks for.
///
/// # Panics
///
/// If it is no number.
pub(crate) fn seed_of_environment() -> Option<u64> {
    let text = std::env::var(SEED).ok()?;
    let seed = text.parse();
    Some(seed.unwrap_or_else(|_| panic!("{SEED} is {text:?}, which is no seed")))
}
