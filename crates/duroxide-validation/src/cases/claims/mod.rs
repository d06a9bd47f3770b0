//! Claiming: everybody is served, exactly what was claimed is touched, and batches keep the rules of single claims.

mod ahead;
mod batches;
mod cached;
mod crowd;
mod rows;

pub use ahead::*;
pub use batches::*;
pub use cached::*;
pub use crowd::*;
pub use rows::*;
