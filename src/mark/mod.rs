//! What may be done to the DS byte.

pub mod ecn;
pub mod sce;
