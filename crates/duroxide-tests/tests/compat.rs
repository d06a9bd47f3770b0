//! Every published path, named once with its published shape: losing one fails to compile. Most of it never runs.

#[path = "compat/author.rs"]
mod author;
#[path = "compat/client.rs"]
mod client;
#[path = "compat/kit.rs"]
mod kit;
#[path = "compat/paths.rs"]
mod paths;
#[path = "compat/runtime.rs"]
mod runtime;
#[path = "compat/third_party.rs"]
mod third_party;
