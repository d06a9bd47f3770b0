//! What a test that kills this process may ask for. The points at which it dies are in `duroxide_core::kill`.

pub(crate) use duroxide_core::kill::point;

/// Whether a test wants turns handed out early also right after an unclean shutdown, so that kills meet them.
#[cfg(feature = "kill-points")]
pub(crate) fn skip_crash_caution() -> bool {
    std::env::var_os("DUROXIDE_SQLITE_SKIP_CRASH_CAUTION").is_some()
}

/// Always `false`: this build has no kill points.
#[cfg(not(feature = "kill-points"))]
pub(crate) fn skip_crash_caution() -> bool {
    false
}
