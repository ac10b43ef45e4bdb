//! Every recorded scenario of the kernel's disciplines, decision by decision (`tests/golden/README.md`).

use std::path::Path;

use weir::qdisc::Compat;
use weir::trace::golden::{self, Finding};

/// Runs all scenarios of one folder; each must agree in every packet and every figure.
fn every_scenario_agrees(discipline: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(discipline);
    let mut scenarios: Vec<_> = folder.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    scenarios.retain(|p| golden::is_scenario(p));
    scenarios.sort();
    assert!(!scenarios.is_empty(), "{} holds no scenario", folder.display());
    let differing: Vec<String> = scenarios
        .iter()
        .filter_map(|path| match golden::check(path, Compat::V6_12) {
            Ok(Finding::Agrees { .. }) => None,
            Ok(Finding::Differs(what)) | Err(what) => Some(format!("{}: {what}", path.display())),
        })
        .collect();
    assert!(differing.is_empty(), "{} of {} differ\n{}", differing.len(), scenarios.len(), differing.join("\n"));
}

#[test]
fn fifos_decide_as_recorded() {
    every_scenario_agrees("fifo");
}

#[test]
fn codel_decides_as_recorded() {
    every_scenario_agrees("codel");
}

#[test]
fn fq_codel_decides_as_recorded() {
    every_scenario_agrees("fq_codel");
}

#[test]
fn dualpi2_decides_as_recorded() {
    every_scenario_agrees("dualpi2");
}

#[test]
fn tbf_and_its_children_decide_as_recorded() {
    every_scenario_agrees("tbf");
}

#[test]
fn cake_decides_as_recorded() {
    every_scenario_agrees("cake");
}

#[test]
fn netem_decides_as_recorded() {
    every_scenario_agrees("netem");
}

#[test]
fn one_class_of_htb_decides_as_recorded() {
    every_scenario_agrees("htb");
}
