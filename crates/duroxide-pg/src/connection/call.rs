//! Arguments of a call: values beside their types, so that no statement has to be described by the server first.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A call of one of the schema's functions.
pub(crate) struct Call<'a> {
    pub(crate) function: &'static str,
    pub(crate) types: Vec<Type>,
    pub(crate) values: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(function: &'static str) -> Self {
        Self {
            function,
            types: Vec::with_capacity(16),
            values: Vec::with_capacity(16),
        }
    }

    fn with(mut self, kind: Type, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.types.push(kind);
        self.values.push(Box::new(value));
        self
    }

    pub(crate) fn int(self, value: i64) -> Self {
        self.with(Type::INT8, value)
    }

    pub(crate) fn opt_int(self, value: Option<i64>) -> Self {
        self.with(Type::INT8, value)
    }

    pub(crate) fn small(self, value: i32) -> Self {
        self.with(Type::INT4, value)
    }

    pub(crate) fn flag(self, value: bool) -> Self {
        self.with(Type::BOOL, value)
    }

    pub(crate) fn text(self, value: &'a str) -> Self {
        self.with(Type::TEXT, value)
    }

    pub(crate) fn opt_text(self, value: Option<&'a str>) -> Self {
        self.with(Type::TEXT, value)
    }

    pub(crate) fn uuid(self, value: Uuid) -> Self {
        self.with(Type::UUID, value)
    }

    pub(crate) fn opt_uuid(self, value: Option<Uuid>) -> Self {
        self.with(Type::UUID, value)
    }

    pub(crate) fn ints(self, values: impl IntoIterator<Item = i64>) -> Self {
        self.with(Type::INT8_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn opt_ints(self, values: impl IntoIterator<Item = Option<i64>>) -> Self {
        self.with(Type::INT8_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn smalls(self, values: impl IntoIterator<Item = i32>) -> Self {
        self.with(Type::INT4_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn flags(self, values: impl IntoIterator<Item = bool>) -> Self {
        self.with(Type::BOOL_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn uuids(self, values: impl IntoIterator<Item = Uuid>) -> Self {
        self.with(Type::UUID_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn opt_uuids(self, values: impl IntoIterator<Item = Option<Uuid>>) -> Self {
        self.with(Type::UUID_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn texts(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(Type::TEXT_ARRAY, values.into_iter().collect::<Vec<_>>())
    }

    /// Of a claim: lanes in the order of their bytes and where to begin in each, or neither.
    pub(crate) fn beginnings(self, lanes_and_keys: Option<(&'a [String], &'a [i64])>) -> Self {
        let (lanes, keys) = lanes_and_keys.unzip();
        self.with(Type::TEXT_ARRAY, lanes)
            .with(Type::INT8_ARRAY, keys)
    }

    pub(crate) fn opt_texts(self, values: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        self.with(Type::TEXT_ARRAY, values.into_iter().collect::<Vec<_>>())
    }
}
