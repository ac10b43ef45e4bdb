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

/// Priority of hosts, as `nice` has it: other work of the machine shall disturb as little as it can.
pub const HOSTS: i32 = -10;
/// Priority of routers: a link keeps its rate however busy the hosts are that share the machine with it.
pub const ROUTERS: i32 = -20;

/// The calling thread, and those it starts from now on, have a priority.
pub fn go_before(others: i32) {
    // Without the right to it, the run is as good as the machine is quiet; the manifest tells.
    let _ = rustix::process::setpriority_process(None, others);
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
