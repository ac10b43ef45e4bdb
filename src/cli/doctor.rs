//! `weir doctor IF…`: is this machine ready, and if not, the command that fixes it.

use clap::Parser;
use serde::Serialize;
use weir::run::nic::{Check, IfName, NicFacts, Verdict, machine_checks, nic_checks};

use super::Failure;

/// `weir doctor …`
#[derive(Parser)]
pub(crate) struct Args {
    /// Interfaces that are to be the ends of a wire; without any, only the machine is looked at
    #[arg(value_name = "IF")]
    interfaces: Vec<IfName>,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    ready: bool,
    checks: Vec<Check>,
    interfaces: Vec<NicFacts>,
}

/// Looks, changes nothing, and says what it saw.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut checks = machine_checks();
    let mut interfaces: Vec<NicFacts> = Vec::new();
    for name in &args.interfaces {
        match NicFacts::inspect(name) {
            Ok(facts) if interfaces.iter().any(|nic| nic.index == facts.index) => {
                return Err(Failure::Run(format!("{} is named twice; a bridge needs two interfaces", facts.name)));
            }
            Ok(mut facts) => {
                facts.probe_native_mtu();
                checks.extend(nic_checks(&facts));
                checks.extend(left_over(&facts));
                interfaces.push(facts);
            }
            Err(e) => checks.push(Check {
                check: "exists",
                nic: Some(name.to_string()),
                verdict: Verdict::Fail,
                message: e.to_string(),
                fix: Some("ip -br link".into()),
            }),
        }
    }
    checks.extend(together(&interfaces));
    let failures = checks.iter().filter(|c| c.verdict == Verdict::Fail).count();
    let report = Report { ready: failures == 0, checks, interfaces };
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| Failure::Run(format!("cannot write JSON: {e}")))?;
        println!("{text}");
    } else {
        print!("{}", as_text(&report.checks));
    }
    match failures {
        0 => Ok(()),
        1 => Err(Failure::Run("not ready: 1 check failed".into())),
        n => Err(Failure::Run(format!("not ready: {n} checks failed"))),
    }
}

/// What a weir has left that was killed.
#[cfg(feature = "xdp")]
fn left_over(facts: &NicFacts) -> Option<Check> {
    weir::run::left::left_over(facts).map(|(message, fix)| left_over_check(facts, message, fix))
}

#[cfg(not(feature = "xdp"))]
fn left_over(facts: &NicFacts) -> Option<Check> {
    let fix = weir::run::nic::left_over(facts, std::path::Path::new(weir::run::DIRECTORY))?;
    Some(left_over_check(facts, "a weir that was killed has left settings changed".into(), fix))
}

fn left_over_check(facts: &NicFacts, message: String, fix: String) -> Check {
    Check { check: "left-over", nic: Some(facts.name.clone()), verdict: Verdict::Note, message, fix: Some(fix) }
}

/// What is to be said of the interfaces beside one another.
fn together(interfaces: &[NicFacts]) -> Option<Check> {
    let (first, rest) = interfaces.split_first()?;
    let differs = rest.iter().find(|nic| nic.mtu != first.mtu)?;
    Some(Check {
        check: "mtu",
        nic: None,
        verdict: Verdict::Note,
        message: format!(
            "{} has MTU {} and {} has {}: larger packets are dropped in between",
            first.name, first.mtu, differs.name, differs.mtu
        ),
        fix: Some(format!("ip link set dev {} mtu {}", differs.name, first.mtu)),
    })
}

fn as_text(checks: &[Check]) -> String {
    let mut text = String::new();
    let mut about = None;
    for check in checks {
        if about != Some(&check.nic) {
            about = Some(&check.nic);
            text += &format!("{}\n", check.nic.as_deref().unwrap_or("machine"));
        }
        let word = match check.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Fail => "FAIL",
        };
        text += &format!("  {word:<4}  {}\n", check.message);
        if let Some(fix) = &check.fix {
            text += &format!("        -> {fix}\n");
        }
    }
    text
}
