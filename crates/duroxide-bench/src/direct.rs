//! A direct provider in memory, to be compared with the generic adapter over the store in memory: the complete provider
//! of the guide on writing one, taken as it is, and around it the wake-ups that the guide leaves out.

#[path = "../../duroxide-validation/examples/tiny_provider/admin.rs"]
mod admin;
#[path = "../../duroxide-validation/examples/tiny_provider/history.rs"]
mod history;
#[path = "../../duroxide-validation/examples/tiny_provider/provider.rs"]
mod provider;
#[path = "../../duroxide-validation/examples/tiny_provider/state.rs"]
mod state;
#[path = "../../duroxide-validation/examples/tiny_provider/turns.rs"]
mod turns;
mod waking;
#[path = "../../duroxide-validation/examples/tiny_provider/work.rs"]
mod work;

pub(crate) use self::waking::waking;
