//! The fuzz corpus of the wire lenses, run once by the ordinary compiler.

use std::path::Path;

#[path = "../fuzz/bodies/wire.rs"]
mod body;

#[test]
fn what_must_hold_for_any_frame_holds_for_the_corpus_cut_anywhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/wire");
    let mut frames = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let frame = std::fs::read(entry.unwrap().path()).unwrap();
        for len in 0..=frame.len() {
            body::run(&frame[..len]);
        }
        frames += 1;
    }
    assert!(frames >= 30, "{} holds {frames} frames", folder.display());
}

#[test]
fn what_must_hold_for_any_frame_holds_for_every_single_byte_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/wire");
    for entry in std::fs::read_dir(folder).unwrap() {
        let frame = std::fs::read(entry.unwrap().path()).unwrap();
        for at in 0..frame.len().min(80) {
            for value in [0, 1, 4, 5, 0x0F, 0x40, 0x45, 0x60, 0x80, 0xFF] {
                let mut changed = frame.clone();
                changed[at] = value;
                body::run(&changed);
            }
        }
    }
}
