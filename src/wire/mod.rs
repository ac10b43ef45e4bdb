//! Bounded lenses on the bytes of a frame.
