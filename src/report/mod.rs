//! Results put side by side: tables for people, JSON for programs, pictures as SVG. Knows nothing of how they came about.

pub mod against;
pub mod captures;
pub mod charts;
pub mod compare;
pub mod flent;
pub mod folder;
pub mod hgrm;
pub mod page;
pub mod repeats;
pub mod summary;
pub mod svg;

/// Text that HTML and SVG cannot take for their own, in attributes either.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
