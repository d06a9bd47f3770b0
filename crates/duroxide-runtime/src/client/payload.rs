//! What a client may send: values as text, within the limit on payloads. In: values of the caller. Out: text, or
//! `InvalidInput` before anything is stored.

use duroxide_core::codec;
use serde::Serialize;

use super::{Client, ClientError};

/// The text of a value.
pub(super) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, ClientError> {
    codec::encode(value).map_err(|e| ClientError::invalid(format!("encode: {e}")))
}

impl Client {
    /// The text of a value, if it may be stored.
    pub(crate) fn encoded<T: Serialize + ?Sized>(
        &self,
        value: &T,
        what: &str,
    ) -> Result<String, ClientError> {
        let text = encode(value)?;
        self.check_payload(what, &text)?;
        Ok(text)
    }

    /// Refuses a payload that is too large.
    pub(super) fn check_payload(&self, what: &str, payload: &str) -> Result<(), ClientError> {
        if payload.len() > self.payload_bytes_max {
            return Err(ClientError::invalid(format!(
                "{what} size ({} bytes) exceeds limit ({} bytes)",
                payload.len(),
                self.payload_bytes_max
            )));
        }
        Ok(())
    }
}
