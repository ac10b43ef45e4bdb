//! What the figures depend on besides scenario and code: the machine.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use super::space::Space;
use super::topology::HOST;

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = text.lines().find(|l| l.starts_with("model name"))?;
    model.split_once(':').map(|(_, name)| name.trim().to_string())
}

/// Other work of the machine shall disturb as little as it can: the calling thread, and those it starts from now on, go before
/// whatever has no priority of its own. Hosts and routers alike, so that nothing between them changes.
pub fn go_first() {
    // Without the right to it, the run is as good as the machine is quiet; the manifest tells.
    let _ = rustix::process::setpriority_process(None, -20);
}

/// Kernel, processor, clock and load as they are now.
pub fn facts() -> Value {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    json!({
        "kernel": line("/proc/sys/kernel/osrelease"),
        "cpu": processor(),
        "cores": thread::available_parallelism().map_or(0, usize::from),
        "clock_source": line(clock),
        "load_average": line("/proc/loadavg"),
        "nice": rustix::process::getpriority_process(None).ok(),
    })
}

/// What a host's interface leaves to the NIC: the features that are on.
pub fn offloads(host: &Space) -> Value {
    let listed = host.command("ethtool", &["-k", HOST]).unwrap_or_default();
    let names = [
        "tx-checksumming",
        "rx-checksumming",
        "scatter-gather",
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
    ];
    let state = |name: &str| {
        let line = listed.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(": "));
        (name.to_string(), json!(line.map(|l| l.split(' ').next().unwrap_or_default() == "on")))
    };
    Value::Object(names.into_iter().map(state).collect())
}
