//! The name of a schema. In: text from a user. Out: an identifier that is safe to stand in a statement, or a refusal.

use crate::error::PgError;

/// What PostgreSQL keeps of an identifier.
const LENGTH_MAX: usize = 63;

/// A name that may stand in a statement: letters, digits and underscores, not beginning with a digit or with `pg_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema(String);

impl Schema {
    pub(crate) fn parse(name: &str) -> Result<Self, PgError> {
        let begins_well = name
            .chars()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let is_plain = name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_ours = !name.to_ascii_lowercase().starts_with("pg_");
        if begins_well && is_plain && is_ours && name.len() <= LENGTH_MAX {
            return Ok(Self(name.to_owned()));
        }
        Err(PgError::SchemaName {
            name: name.to_owned(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// As it stands in a statement. Quoted, so that capitals stay what they are.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_is_never_sql() {
        let bad = [
            "",
            "1st",
            "a-b",
            "a b",
            "a\"b",
            "a;drop schema public",
            "pg_catalog",
            "PG_temp",
            "päckchen",
            "a.b",
            &"x".repeat(64),
        ];
        for name in bad {
            assert!(Schema::parse(name).is_err(), "{name}");
        }
        for name in ["duroxide", "Tenant_7", "_x", &"x".repeat(63)] {
            assert_eq!(Schema::parse(name).unwrap().quoted(), format!("\"{name}\""));
        }
    }
}
