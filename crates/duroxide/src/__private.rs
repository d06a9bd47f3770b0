//! What the attributes generate refers to. Not for use by hand; may change at any time.

pub use duroxide_core::Body;
use duroxide_core::Retryable;

/// The two types of a `Result`, whatever alias it is written as.
#[diagnostic::on_unimplemented(
    message = "a handler returns a `Result`, not `{Self}`",
    note = "write `-> Result<{Self}, String>`, or an error type of your own"
)]
pub trait IsResult {
    /// What it gives.
    type Ok;
    /// How it fails.
    type Err;
}

impl<T, E> IsResult for Result<T, E> {
    type Ok = T;
    type Err = E;
}

/// An error that is asked whether it may be retried.
#[derive(Debug)]
pub struct Ask<'a, E>(pub &'a E);

/// Errors that know. The compiler prefers this one where it applies, because it needs one reference less.
pub trait AskRetryable {
    /// Whether trying again may help.
    fn ask(&self) -> bool;
}

impl<E: Retryable> AskRetryable for Ask<'_, E> {
    fn ask(&self) -> bool {
        self.0.is_retryable()
    }
}

/// All other errors.
pub trait AskDefault {
    /// Whether trying again may help: yes.
    fn ask(&self) -> bool {
        true
    }
}

impl<E> AskDefault for &Ask<'_, E> {}
