//! The words of a panic of author's code. In: what `catch_unwind` caught. Out: the text that is recorded as the failure
//! of an activity, or of an effect in place.

use std::any::Any;

/// The words of a panic, without the number of the task that happened to run it.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    match text {
        Some(text) => format!("activity panicked: {text}"),
        None => "activity panicked".to_owned(),
    }
}
