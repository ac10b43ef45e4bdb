//! `weir ingress`: shape what comes from WAN before this machine sees it.

use weir::port::xdp::program::OnFailure;
use weir::run::bridge::Way;
use weir::run::ingress::{self, Ingress, NewName, Wanted};
use weir::run::nic::IfName;
use weir::spec::Spec;

use super::bridge::{Running, direction, introduce};
use super::{Failure, session};

/// Arguments of `weir ingress`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interface behind which the bottleneck is
    wan: IfName,
    /// The name of the interface to be made, where this machine then has its addresses and routes
    #[arg(long, value_name = "IF", required_unless_present = "restore")]
    host: Option<NewName>,
    /// Move WAN's addresses and routes to IF, and back at the end
    #[arg(long)]
    move_addresses: bool,
    /// Only undo what a weir ingress that was killed has left at WAN
    #[arg(long, conflicts_with_all = ["host", "move_addresses", "down", "up", "duration", "hist", "json"])]
    restore: bool,
    #[command(flatten)]
    running: Running,
    /// How this instance is called; WAN-IF unless said otherwise
    #[arg(long)]
    name: Option<String>,
    /// What becomes of frames when weir dies or hangs
    #[arg(long, value_enum, default_value = "bypass")]
    on_failure: OnFailureArg,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OnFailureArg {
    /// Straight between WAN and IF, unshaped
    Bypass,
    /// Nowhere
    Drop,
}

/// Runs `weir ingress`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Some(host) = args.host else { return restore(&args.wan) };
    let running = &args.running;
    let down = behind_the_bottleneck(direction(running.down.as_deref(), Way::Down)?, running.down.as_deref());
    let specs = [down, direction(running.up.as_deref(), Way::Up)?];
    running.check(&specs)?;
    let name = args.name.unwrap_or_else(|| format!("{}-{host}", args.wan));
    let on_failure = match args.on_failure {
        OnFailureArg::Bypass => OnFailure::Bypass,
        OnFailureArg::Drop => OnFailure::Drop,
    };
    // weir's end of the pair has its name later.
    let settings = running.settings(name, [args.wan.clone(), args.wan.clone()], specs, on_failure);
    let wanted = Wanted { wan: args.wan, host, moves: args.move_addresses };
    let mut held = None;
    let run = session::run(running.options(), || {
        let (ingress, bridge) = Ingress::start(&wanted, &settings).map_err(|e| e.to_string())?;
        introduce(bridge.facts(), running.mode);
        settings.specs.iter().zip(Way::BOTH).for_each(|(spec, way)| eprintln!("weir: {}: {spec}", way.name()));
        about(&ingress, &wanted);
        let watch = ingress.watch();
        held = Some(ingress);
        Ok((bridge, Some(Box::new(watch))))
    });
    let back = held.map_or(Ok(()), Ingress::restore).map_err(|e| Failure::Run(e.to_string()));
    run.and(back)
}

fn restore(wan: &IfName) -> Result<(), Failure> {
    if ingress::restore(wan).map_err(|e| e.to_string())? {
        eprintln!("weir: {wan} is as it was before weir ingress");
    } else {
        eprintln!("weir: no weir ingress has left anything at {wan}");
    }
    Ok(())
}

/// What comes from WAN has passed the bottleneck already, so cake counts what it drops; unless `egress` is written.
fn behind_the_bottleneck(spec: Spec, words: Option<&str>) -> Spec {
    let chosen = words.is_some_and(|w| w.split_whitespace().any(|word| word == "egress"));
    if chosen { spec } else { spec.behind_the_bottleneck() }
}

/// Says where the host's addresses are, and what is to be done if they are at the wrong place.
fn about(ingress: &Ingress, wanted: &Wanted) {
    let Wanted { wan, host, moves } = wanted;
    if ingress.adopted() {
        eprintln!("weir: {host} was there, from an instance that had died");
    }
    if let (Some((addresses, routes)), false) = (ingress.moved(), ingress.adopted()) {
        eprintln!("weir: moved {addresses} addresses and {routes} routes from {wan} to {host}, until the end");
    }
    if *moves {
        eprintln!("weir: rules of a firewall that name {wan} must name {host} while this runs");
        return;
    }
    eprintln!("weir: this machine is behind {host} now: get an address there, as from DHCP");
    for address in ingress.stranded() {
        eprintln!(
            "weir: {wan} still has {address}, which does not answer; by hand: ip addr del {address} dev {wan} && \
             ip addr add {address} dev {host}; with its routes, and back at the end: --move-addresses"
        );
    }
}
