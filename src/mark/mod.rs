//! What may be done to the DS byte, and to the two bytes of multi-bit ECN.

pub mod ecn;
pub mod mb_ecn;
pub mod sce;
