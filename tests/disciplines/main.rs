//! The disciplines in virtual time, through their specifications: properties that hold of all of
//! them, what each is for, and situations that once went wrong elsewhere.

mod ack_filter;
mod bench;
mod dualpi2;
mod ecn;
mod fq_codel;
mod low_rates;
mod properties;
mod shaping;
