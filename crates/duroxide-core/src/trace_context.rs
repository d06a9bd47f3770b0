//! W3C trace context. In: the headers `traceparent` and `tracestate` of the caller that starts an instance. Out: the
//! same context for what the instance does, with span ids that follow from the history. Never: a random id, so a replay
//! has the ids of the first run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest `tracestate`, in bytes.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// A place in a trace: which trace, which span, whether it is sampled, and what vendors add.
///
/// ```
/// use duroxide_core::TraceContext;
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::parse(header, Some("vendor=1")).unwrap();
/// assert_eq!(context.traceparent(), header);
/// assert_eq!(context.tracestate(), Some("vendor=1"));
/// assert!(TraceContext::parse("00-0-0-0", None).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Headers", into = "Headers")]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    tracestate: Option<String>,
}

/// How a context is stored: as its headers.
#[derive(Serialize, Deserialize)]
struct Headers {
    traceparent: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    tracestate: Option<String>,
}

impl TryFrom<Headers> for TraceContext {
    type Error = String;

    fn try_from(headers: Headers) -> Result<Self, String> {
        Self::parse(&headers.traceparent, headers.tracestate.as_deref())
    }
}

impl From<TraceContext> for Headers {
    fn from(context: TraceContext) -> Self {
        Self {
            traceparent: context.traceparent(),
            tracestate: context.tracestate,
        }
    }
}

impl TraceContext {
    /// Reads the headers. A `traceparent` of a later version of the standard is read as far as this one knows it.
    ///
    /// # Errors
    ///
    /// What is wrong with them, in words.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, String> {
        let unfit = || format!("'{}' is no traceparent", traceparent.escape_debug());
        let mut parts = traceparent.splitn(5, '-');
        let mut hex = |digits: usize| -> Option<u128> {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_fit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
            part.bytes().all(is_fit).then_some(())?;
            u128::from_str_radix(part, 16).ok()
        };
        let fields = (hex(2), hex(32), hex(16), hex(2));
        let (Some(version), Some(trace_id), Some(span_id), Some(flags)) = fields else {
            return Err(unfit());
        };
        let is_extended = parts.next().is_some();
        if version == 0xff || trace_id == 0 || span_id == 0 || version == 0 && is_extended {
            return Err(unfit());
        }
        if let Some(state) = tracestate {
            let is_fit = |c: char| c == ' ' || c.is_ascii_graphic();
            if state.len() > TRACESTATE_BYTES_MAX || !state.chars().all(is_fit) {
                return Err(format!(
                    "the tracestate has other characters than printable ASCII, or more than {TRACESTATE_BYTES_MAX}"
                ));
            }
        }
        Ok(Self {
            trace_id,
            span_id: u64::try_from(span_id).unwrap_or_default(),
            flags: u8::try_from(flags).unwrap_or_default(),
            tracestate: tracestate
                .filter(|state| !state.is_empty())
                .map(str::to_owned),
        })
    }

    /// The beginning of a trace for something that was started without one. The ids follow from the words.
    #[must_use]
    pub fn derived(words: &[&str]) -> Self {
        let half = |salt: &str| u128::from(mixed(0, salt, words));
        Self {
            trace_id: (half("trace, first half") << 64) | half("trace, second half"),
            span_id: mixed(0, "root", words),
            flags: 1,
            tracestate: None,
        }
    }

    /// The context of something within this one. Its span id follows from this span and from the words.
    ///
    /// ```
    /// use duroxide_core::TraceContext;
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let context = TraceContext::parse(header, None).unwrap();
    /// let one = context.within(&["order-7", "2"]);
    /// assert_eq!(one, context.within(&["order-7", "2"]));
    /// assert_ne!(one.span_id(), context.within(&["order-7", "3"]).span_id());
    /// assert_eq!(one.trace_id(), context.trace_id());
    /// ```
    #[must_use]
    pub fn within(&self, words: &[&str]) -> Self {
        Self {
            span_id: mixed(self.span_id, "within", words),
            ..self.clone()
        }
    }

    /// The header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let Self {
            trace_id,
            span_id,
            flags,
            ..
        } = self;
        format!("00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }

    /// The header `tracestate`, if there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the starter asked for the trace to be recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())
    }
}

/// A number that follows from the words (FNV-1a, with the last step of SplitMix64); never 0. It must never change: ids
/// of spans that are exported follow from it.
fn mixed(seed: u64, salt: &str, words: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut take = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    take(&seed.to_be_bytes());
    for word in std::iter::once(&salt).chain(words) {
        // The length keeps words apart.
        take(&(word.len() as u64).to_be_bytes());
        take(word.as_bytes());
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn headers_come_through_as_they_were() {
        for state in [None, Some("a=1,b=2")] {
            let context = TraceContext::parse(FIT, state).unwrap();
            let json = serde_json::to_string(&context).unwrap();
            assert_eq!(
                serde_json::from_str::<TraceContext>(&json).unwrap(),
                context
            );
        }
        assert!(TraceContext::parse(FIT, None).unwrap().is_sampled());
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        for unfit in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(TraceContext::parse(unfit, None).is_err(), "{unfit}");
        }
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x";
        assert!(TraceContext::parse(later, None).is_ok());
        assert!(TraceContext::parse(FIT, Some("a=\n")).is_err());
        assert!(TraceContext::parse(FIT, Some(&"x".repeat(513))).is_err());
    }

    #[test]
    fn ids_of_spans_never_change() {
        let context = TraceContext::parse(FIT, None).unwrap();
        let spans = [
            context.within(&["order-7", "1"]).span_id(),
            context.within(&["order-", "71"]).span_id(),
        ];
        assert_ne!(spans[0], spans[1]);
        let derived = TraceContext::derived(&["order-7"]);
        assert_eq!(
            (spans[0], derived.trace_id()),
            (IDS.0, IDS.1),
            "what was exported before has these ids"
        );
    }

    const IDS: (u64, u128) = (
        9_470_398_356_718_107_977,
        4_031_771_281_227_091_394_931_556_146_653_049_535,
    );
}
