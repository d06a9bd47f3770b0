//! What a user chose, checked before anything is opened. In: options. Out: nothing, or the reason why they cannot work.
//! Never corrects an option in silence: what the server would cut, round or read as "no limit" is refused.

use std::time::Duration;

use crate::connection::db::{LOCK_PATIENCE, POOL_MIN};
use crate::error::{PgError, Result};
use crate::options::PostgresOptions;

/// The most connections that a server can be built for, the listener's among them.
const CONNECTIONS_MAX: usize = 262_143;
/// The shortest limit of a statement: it waits for a row, and then does something.
const STATEMENT_MIN: Duration = LOCK_PATIENCE.saturating_mul(2);
/// What PostgreSQL keeps of a name.
const NAME_BYTES_MAX: usize = 63;
/// The longest time that PostgreSQL takes for a limit, in milliseconds.
const SETTING_MAX_MS: u128 = 2_147_483_647;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Refuses options that cannot work.
pub(crate) fn check(options: &PostgresOptions) -> Result<()> {
    let problem = pool_size(options.pool_size)
        .or_else(|| application_name(&options.application_name))
        .or_else(|| listener(options))
        .or_else(|| options.statement_timeout.and_then(statement_timeout))
        .or_else(|| within("response_timeout", options.response_timeout, DAY))
        .or_else(|| within("poll_interval", options.poll_interval, DAY))
        .or_else(|| {
            let grace = options.unknown_instance_grace;
            longer("unknown_instance_grace", grace, YEAR)
        });
    problem.map_or(Ok(()), |why| Err(PgError::Options { why }))
}

fn pool_size(size: usize) -> Option<String> {
    if size < POOL_MIN {
        return Some(format!(
            "pool_size is {size}, at least {POOL_MIN} are needed: two for exchanges, two for holders of claims, one for reads"
        ));
    }
    (size >= CONNECTIONS_MAX).then(|| {
        format!("pool_size is {size}, no server takes more than {CONNECTIONS_MAX} connections, one of which listens")
    })
}

fn application_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("application_name is empty".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Some(format!(
            "application_name has {} bytes, PostgreSQL keeps {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    let is_kept = |letter: u8| (b' '..=b'~').contains(&letter);
    (!name.bytes().all(is_kept)).then(|| {
        format!(
            "application_name `{}` has characters that PostgreSQL replaces; it keeps printable ASCII",
            name.escape_debug()
        )
    })
}

fn listener(options: &PostgresOptions) -> Option<String> {
    let contradict = options.listener_url.is_some() && !options.listen;
    contradict.then(|| {
        "listener_url says where to listen, and listen is false: leave one of them out".to_owned()
    })
}

fn statement_timeout(limit: Duration) -> Option<String> {
    if limit < STATEMENT_MIN {
        let why = if limit.as_millis() == 0 {
            "PostgreSQL would read it as no limit; `None` says that"
        } else {
            "a statement may wait half of that for a row that another transaction holds, and has to say so itself"
        };
        return Some(format!(
            "statement_timeout is {limit:?}, at least {STATEMENT_MIN:?} are needed: {why}"
        ));
    }
    (limit.as_millis() > SETTING_MAX_MS).then(|| {
        format!("statement_timeout is {limit:?}, PostgreSQL takes at most {SETTING_MAX_MS} milliseconds; `None` sets no limit")
    })
}

fn within(name: &str, time: Duration, most: Duration) -> Option<String> {
    if time < Duration::from_millis(1) {
        return Some(format!(
            "{name} is {time:?}, at least a millisecond is needed"
        ));
    }
    longer(name, time, most)
}

fn longer(name: &str, time: Duration, most: Duration) -> Option<String> {
    (time > most).then(|| format!("{name} is {time:?}, at most {most:?} are possible"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut PostgresOptions)) -> String {
        let mut options = PostgresOptions::default();
        change(&mut options);
        let refused = check(&options).expect_err("they cannot work");
        assert!(matches!(refused, PgError::Options { .. }), "{refused}");
        refused.to_string()
    }

    #[test]
    fn options_that_cannot_work_are_refused_with_the_reason() {
        let ms = Duration::from_millis;
        let said = [
            (refusal(|it| it.pool_size = 0), "at least 5"),
            (refusal(|it| it.pool_size = 4), "at least 5"),
            (refusal(|it| it.pool_size = usize::MAX), "262143"),
            (refusal(|it| it.application_name.clear()), "empty"),
            (
                refusal(|it| it.application_name = "é".repeat(32)),
                "64 bytes",
            ),
            (refusal(|it| it.application_name = "café".into()), "ASCII"),
            (refusal(|it| it.application_name = "a\0b".into()), "ASCII"),
            (
                refusal(|it| it.statement_timeout = Some(Duration::ZERO)),
                "no limit",
            ),
            (
                refusal(|it| it.statement_timeout = Some(Duration::from_micros(900))),
                "no limit",
            ),
            (
                refusal(|it| it.statement_timeout = Some(ms(1_999))),
                "at least 2s",
            ),
            (
                refusal(|it| {
                    it.listen = false;
                    it.listener_url = Some("postgres://app@db/orders".to_owned());
                }),
                "listen is false",
            ),
            (
                refusal(|it| it.statement_timeout = Some(Duration::MAX)),
                "at most 2147483647",
            ),
            (
                refusal(|it| it.response_timeout = Duration::ZERO),
                "response_timeout is 0ns",
            ),
            (
                refusal(|it| it.poll_interval = Duration::ZERO),
                "poll_interval is 0ns",
            ),
            (refusal(|it| it.poll_interval = Duration::MAX), "at most"),
            (
                refusal(|it| it.unknown_instance_grace = Duration::MAX),
                "at most",
            ),
        ];
        for (said, needed) in said {
            assert!(said.contains(needed), "{said}");
        }
    }

    #[test]
    fn options_at_their_limits_are_taken() {
        let options = PostgresOptions {
            pool_size: POOL_MIN,
            application_name: "x".repeat(NAME_BYTES_MAX),
            statement_timeout: Some(STATEMENT_MIN),
            response_timeout: Duration::from_millis(1),
            poll_interval: DAY,
            unknown_instance_grace: Duration::ZERO,
            ..PostgresOptions::default()
        };
        check(&options).expect("they work");
        check(&PostgresOptions::default()).expect("they work");
    }
}
