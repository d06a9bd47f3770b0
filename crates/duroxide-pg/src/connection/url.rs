//! The url of a database, as libpq understands it. In: text, the environment, `~/.pgpass`. Out: how to connect, and how
//! the connection is protected. Never shows a password.

use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{PgError, Result};

/// How a connection is protected, as libpq names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Protection {
    fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            other => {
                return Err(PgError::Url {
                    why: format!("sslmode={other} is not known"),
                });
            }
        })
    }

    fn mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

/// Where and how to connect.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) protection: Protection,
    /// Certificates to trust instead of the system's.
    pub(crate) roots: Option<PathBuf>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("hosts", &self.config.get_hosts())
            .field("ports", &self.config.get_ports())
            .field("user", &self.config.get_user())
            .field("dbname", &self.config.get_dbname())
            .field("protection", &self.protection)
            .finish_non_exhaustive()
    }
}

/// Reads a url or a list of `key=value`. What it does not say comes from the variables that libpq reads.
pub(crate) fn parse(url: &str, env: impl Fn(&str) -> Option<String>) -> Result<Target> {
    let (plain, ours) = take_ours(url);
    let mut config: Config = plain
        .parse()
        .map_err(|error| PgError::Url { why: cause(&error) })?;
    if config.get_user().is_none()
        && let Some(user) = env("PGUSER")
    {
        config.user(user);
    }
    let named = ours.mode.or_else(|| env("PGSSLMODE"));
    let protection = match named {
        Some(name) => Protection::parse(&name)?,
        None if is_local(&config) => Protection::Disable,
        None => Protection::VerifyFull,
    };
    let roots = ours.roots.or_else(|| env("PGSSLROOTCERT"));
    if roots.as_deref() == Some("system") && protection != Protection::VerifyFull {
        return Err(PgError::Url {
            why: "sslrootcert=system needs sslmode=verify-full".to_owned(),
        });
    }
    config.ssl_mode(protection.mode());
    if config.get_password().is_none()
        && let Some(password) = env("PGPASSWORD").or_else(|| from_pgpass(&config, &env))
    {
        config.password(password);
    }
    Ok(Target {
        config,
        protection,
        roots: roots.filter(|roots| roots != "system").map(PathBuf::from),
    })
}

/// What the parser said without the text it was given, which may hold a password.
fn cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => {
            let text = source.to_string();
            // The driver quotes what it does not understand.
            match text.split_once(['`', '\'', '"']) {
                Some((before, _)) => format!("{before}..."),
                None => text,
            }
        }
        None => "it does not parse".to_owned(),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Ours {
    mode: Option<String>,
    roots: Option<String>,
}

impl Ours {
    /// Keeps a setting that the driver does not know; whether it was one.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.roots = Some(value.to_owned()),
            _ => return false,
        }
        true
    }
}

/// The text without the settings that the driver does not know, and those.
fn take_ours(url: &str) -> (String, Ours) {
    let mut ours = Ours::default();
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let Some((base, query)) = url.split_once('?') else {
            return (url.to_owned(), ours);
        };
        let rest: Vec<&str> = query
            .split('&')
            .filter(|pair| match pair.split_once('=') {
                Some((key, value)) => !ours.take(key, &percent_decoded(value)),
                None => true,
            })
            .collect();
        return if rest.is_empty() {
            (base.to_owned(), ours)
        } else {
            (format!("{base}?{}", rest.join("&")), ours)
        };
    }
    let rest: Vec<&str> = url
        .split_ascii_whitespace()
        .filter(|pair| match pair.split_once('=') {
            Some((key, value)) => !ours.take(key, value.trim_matches('\'')),
            None => true,
        })
        .collect();
    if ours == Ours::default() {
        (url.to_owned(), ours)
    } else {
        (rest.join(" "), ours)
    }
}

fn percent_decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

fn from_pgpass(config: &Config, env: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let file = match env("PGPASSFILE") {
        Some(file) => PathBuf::from(file),
        None => Path::new(&env("HOME")?).join(".pgpass"),
    };
    let text = std::fs::read_to_string(file).ok()?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config
        .get_ports()
        .first()
        .copied()
        .unwrap_or(5432)
        .to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    pgpass_line(&text, [&host, &port, database, user])
}

/// The password of the first line that matches host, port, database and user.
fn pgpass_line(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = pgpass_fields(line);
            let (password, keys) = fields.split_last()?;
            let fits = keys.len() == wanted.len()
                && keys
                    .iter()
                    .zip(wanted)
                    .all(|(key, wanted)| key == "*" || key == wanted);
            fits.then(|| password.clone())
        })
}

fn pgpass_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields
                .last_mut()
                .into_iter()
                .for_each(|f| f.extend(letters.next())),
            ':' if fields.len() < 5 => fields.push(String::new()),
            other => fields.last_mut().into_iter().for_each(|f| f.push(other)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    /// For `FUZZ_SECONDS` seconds, one unless it says otherwise.
    #[test]
    fn a_damaged_url_is_an_error_or_a_target() {
        const URLS: [&str; 4] = [
            "postgres://app:p%40ss@db.internal:5433/orders?sslmode=verify-full&schema=jobs",
            "postgresql://[::1]:5432/orders?connect_timeout=3&sslrootcert=%2Fca.pem",
            "host=/var/run/postgresql user='a b' dbname=orders schema=jobs",
            "postgres://a,b:1,c:2/orders?target_session_attrs=read-write",
        ];
        let seconds = std::env::var("FUZZ_SECONDS").ok();
        let seconds = seconds.map_or(1, |text| text.parse().expect("FUZZ_SECONDS is a number"));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        let mut chance = 1_u64;
        let mut below = |end: usize| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (chance >> 33) as usize % end.max(1)
        };
        while std::time::Instant::now() < until {
            let mut bytes = URLS[below(URLS.len())].as_bytes().to_vec();
            for _ in 0..1 + below(4) {
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => drop(bytes.remove(at)),
                    2 => bytes[at] = b"%=&?@:/[]' \0\xff"[below(13)],
                    _ => bytes.insert(at, bytes[at]),
                }
            }
            let url = String::from_utf8_lossy(&bytes).into_owned();
            // An error is an answer as well; what it says must not hold the password.
            if let Err(error) = parse(&url, nothing) {
                assert!(!error.to_string().contains("p%40ss"), "{error}");
            }
        }
    }

    #[test]
    fn a_host_that_is_not_local_is_verified_unless_told_otherwise() {
        let far = parse("postgres://app@db.internal/orders", nothing).unwrap();
        assert_eq!(far.protection, Protection::VerifyFull);
        assert_eq!(far.config.get_ssl_mode(), SslMode::Require);
        for near in [
            "postgres://app@localhost/orders",
            "postgres://app@127.0.0.1/orders",
            "host=/var/run/postgresql user=app",
        ] {
            let near = parse(near, nothing).unwrap();
            assert_eq!(near.protection, Protection::Disable, "{near:?}");
        }
        let told = parse("postgres://app@db.internal/orders?sslmode=disable", nothing).unwrap();
        assert_eq!(told.protection, Protection::Disable);
    }

    #[test]
    fn libpqs_names_are_understood_in_both_forms() {
        let url =
            "postgres://app@db/o?sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem&connect_timeout=3";
        let target = parse(url, nothing).unwrap();
        assert_eq!(target.protection, Protection::VerifyCa);
        assert_eq!(target.roots.as_deref(), Some(Path::new("/etc/ca.pem")));
        let pairs = parse("host=db user=app sslmode=require dbname=o", nothing).unwrap();
        assert_eq!(pairs.protection, Protection::Require);
        assert_eq!(pairs.config.get_dbname(), Some("o"));
        assert!(parse("postgres://db/o?sslmode=sometimes", nothing).is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        let target = parse("postgres://app:hunter2@db/o", nothing).unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
        for bad in [
            "postgres://app:hunter2@db:port/o",
            "postgres://app:hunter2@db/o?nonsense=hunter2",
            "password=hunter2 nonsense='hunter2",
        ] {
            let error = parse(bad, nothing).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_password_comes_from_the_environment_or_the_pgpass_file() {
        let env = |name: &str| (name == "PGPASSWORD").then(|| "from-env".to_owned());
        let target = parse("postgres://app@localhost/o", env).unwrap();
        assert_eq!(target.config.get_password(), Some(&b"from-env"[..]));
        let text = "# comment\ndb:5432:o:app:first\n*:*:*:app:a\\:b\\\\c\n";
        assert_eq!(
            pgpass_line(text, ["db", "5432", "o", "app"]).as_deref(),
            Some("first")
        );
        assert_eq!(
            pgpass_line(text, ["else", "1", "x", "app"]).as_deref(),
            Some("a:b\\c")
        );
        assert_eq!(pgpass_line(text, ["db", "5432", "o", "other"]), None);
    }
}
