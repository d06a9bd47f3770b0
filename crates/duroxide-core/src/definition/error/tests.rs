//! From stored details to the typed errors of calls: what comes back as the author's own error, and what does not.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{ActivityError, OrchestrationError, Timeout};
use crate::codec;
use crate::definition::misfit;
use crate::event::{AppErrorKind, ErrorDetails};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Own {
    Declined { code: u32 },
}

#[test]
fn an_error_of_the_author_comes_back_as_its_own_type() {
    let text = codec::encode(&Own::Declined { code: 7 }).unwrap();
    let details = ErrorDetails::activity_failed(text);
    let error = ActivityError::<Own>::of(details);
    assert_eq!(error, ActivityError::Failed(Own::Declined { code: 7 }));
}

#[test]
fn a_panic_and_a_stranger_are_told_from_an_error() {
    let of = |text: &str| ActivityError::<Own>::of(ErrorDetails::activity_failed(text));
    assert!(matches!(
        of("activity panicked: oh"),
        ActivityError::Panicked { .. }
    ));
    assert!(matches!(of("who knows"), ActivityError::Undecodable(_)));
}

/// Panics, and values that do not fit, seen by a caller whose error decodes from any text.
fn is_told_apart<E: DeserializeOwned + PartialEq + fmt::Debug>(own: E) {
    let of = |text: &str| ActivityError::<E>::of(ErrorDetails::activity_failed(text));
    let panicked = of("activity panicked: oh");
    assert!(
        matches!(panicked, ActivityError::Panicked { .. }),
        "{panicked:?}"
    );
    for misfit in [
        misfit::Misfit::Input,
        misfit::Misfit::Output,
        misfit::Misfit::Error,
    ] {
        let text = misfit.of_activity("refund", "a number was expected");
        let read = of(&text);
        assert!(matches!(read, ActivityError::Undecodable(_)), "{read:?}");
    }
    assert_eq!(of("\"no funds\""), ActivityError::Failed(own));
    let child = |text: &str| {
        let (kind, message) = (AppErrorKind::OrchestrationFailed, text.to_owned());
        OrchestrationError::<E>::of(ErrorDetails::Application {
            kind,
            message,
            retryable: false,
        })
    };
    for refusal in [
        "sub-orchestration instance id 'a' already exists",
        "the input of the orchestration does not decode: eof",
    ] {
        let read = child(refusal);
        assert!(
            matches!(read, OrchestrationError::Undecodable(_)),
            "{read:?}"
        );
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct AnyText(String);

#[test]
fn the_words_of_the_engine_are_no_error_of_the_author_even_if_they_decode() {
    is_told_apart(codec::decode::<String>("\"no funds\"").unwrap());
    is_told_apart(codec::decode::<AnyText>("\"no funds\"").unwrap());
    is_told_apart(codec::decode::<serde_json::Value>("\"no funds\"").unwrap());
}

#[test]
fn every_time_limit_comes_back_as_itself() {
    for which in [
        Timeout::StartToClose,
        Timeout::ScheduleToClose,
        Timeout::Queue,
        Timeout::Heartbeat,
    ] {
        let details = which.to_details("work", Duration::from_secs(1));
        assert_eq!(
            ActivityError::<Own>::of(details),
            ActivityError::TimedOut { which }
        );
    }
}
