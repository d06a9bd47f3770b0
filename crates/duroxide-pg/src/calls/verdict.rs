//! What the server did with an element of a call. In: the text of a row, or none. Out: a [`Verdict`]; no other file
//! compares these texts.

use duroxide_core::provider::rules::Refusal;
use tokio_postgres::types::{FromSql, Type};

use crate::error::{PgError, Result};

/// What became of an element of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was done.
    Done,
    /// Not done: its lease has run out.
    Expired,
    /// Not done: its lease is not the one that is stored.
    Unknown,
    /// Not done, or only in part: what it is about is no longer there.
    Gone,
    /// Not done: the instance is no longer the one that the caller judged.
    Changed,
    /// Not done: another transaction holds a row that it needs.
    Held,
}

impl Verdict {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "expired" => Self::Expired,
            "unknown" => Self::Unknown,
            "gone" => Self::Gone,
            "changed" => Self::Changed,
            "held" => Self::Held,
            _ => return None,
        })
    }

    /// For what the holder of an activity asked for.
    pub(crate) fn of_work(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Expired => Err(Refusal::WorkLockExpired.into()),
            Self::Unknown | Self::Gone | Self::Changed => Err(Refusal::InvalidToken.into()),
            Self::Held => Err(PgError::held()),
        }
    }
}

/// No text means that it was done.
impl<'r> FromSql<'r> for Verdict {
    fn from_sql(
        kind: &Type,
        raw: &'r [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let text = <&str>::from_sql(kind, raw)?;
        Self::parse(text).ok_or_else(|| format!("the server answered `{text}`").into())
    }

    fn from_sql_null(
        _: &Type,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Done)
    }

    fn accepts(kind: &Type) -> bool {
        <&str>::accepts(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_this_build_does_not_know_is_an_error_and_no_text_means_done() {
        let read = |raw: &'static [u8]| Verdict::from_sql(&Type::TEXT, raw);
        assert_eq!(read(b"gone").unwrap(), Verdict::Gone);
        assert!(read(b"postponed").is_err());
        assert_eq!(Verdict::from_sql_null(&Type::TEXT).unwrap(), Verdict::Done);
    }
}
