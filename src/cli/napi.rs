//! `weir napi`: makes the far end of a veth fit for frames that are redirected to it.

use weir::port::xdp::program::pass_everything;
use weir::run::nic::{IfName, NicFacts};

use super::Failure;

/// Arguments of `weir napi`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ends of veths whose other ends weir bridges
    #[arg(required = true, value_name = "IF")]
    interfaces: Vec<IfName>,
}

/// Runs `weir napi`.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    for name in &args.interfaces {
        let nic = NicFacts::inspect(name).map_err(|e| e.to_string())?;
        pass_everything(nic.index)
            .map_err(|e| format!("{name}: {e}; if a program is there already: ip link set dev {name} xdpdrv off"))?;
        eprintln!(
            "weir: {name}: a program passes everything, which gives it NAPI; to remove it: ip link set dev {name} xdpdrv off"
        );
    }
    Ok(())
}
