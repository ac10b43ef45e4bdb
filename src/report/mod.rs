//! Results put into files: tables for people, JSON for programs, pictures as SVG. Knows nothing of how they came about.

pub mod folder;
pub mod repeats;
pub mod summary;
