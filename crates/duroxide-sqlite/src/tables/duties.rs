//! Duties: what one node at a time does.

use std::time::Duration;

use crate::error::Result;
use crate::tx::Tx;

/// Takes or keeps a duty for a while, or gives it back; whether the holder has it.
pub(crate) fn hold(tx: &Tx<'_>, duty: &str, holder: &str, time: Duration) -> Result<bool> {
    if time.is_zero() {
        tx.execute(
            "DELETE FROM duties WHERE duty = ?1 AND holder = ?2",
            (duty, holder),
        )?;
        return Ok(false);
    }
    let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let held = tx.execute(
        "INSERT INTO duties (duty, holder, held_until) VALUES (?1, ?2, ?3)
         ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
         WHERE holder = excluded.holder OR held_until <= ?4",
        (duty, holder, tx.now.saturating_add(ms), tx.now),
    )?;
    Ok(held == 1)
}
