//! The disciplines in virtual time, through their specifications: properties that hold of all of
//! them, what each is for, and situations that once went wrong elsewhere.

mod bench;
mod properties;
