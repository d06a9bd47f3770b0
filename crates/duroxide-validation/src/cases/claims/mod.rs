//! Claiming: everybody is served, exactly what was claimed is touched, and batches keep the rules of single claims.

mod batches;
mod cached;
mod crowd;
mod early;
mod rows;

pub use batches::*;
pub use cached::*;
pub use crowd::*;
pub use early::*;
pub use rows::*;
