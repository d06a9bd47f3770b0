//! Who lost a lease can do nothing any more, and what is rejected changes nothing.

mod meeting;
mod rejected;
mod takeover;

pub use meeting::*;
pub use rejected::*;
pub use takeover::*;
