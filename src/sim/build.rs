//! From a scenario to a simulation.

use super::applications::{App, Web, turn};
use super::events::Events;
use super::frames::{Ends, Template};
use super::network::{Network, Next, PortSetup};
use super::record::Record;
use super::tcp::control::{self, Kind};
use super::tcp::rtt::Estimator;
use super::tcp::{Config, Endpoint};
use super::{Connection, Conversation, Event, ORIGIN, Simulation, swapped};
use crate::pipeline::Link;
use crate::rng::Random;
use crate::scenario::draws::{self, Draws};
use crate::scenario::{self, Dtp, Flow, Scenario, Side, SlowStart, Tcp, Timer};
use crate::spec::Stage;
use crate::time::SECOND;
use crate::wire::protocol;

/// Names of the senders.
pub const SENDERS: [&str; Kind::ALL.len()] = {
    let mut names = [""; Kind::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Kind::ALL[i].0;
        i += 1;
    }
    names
};

/// Lays out a scenario.
///
/// # Errors
/// If it asks for a sender that is not here, or for a flow whose path takes no time and that would never end.
pub fn build(scenario: &Scenario, seed: u64, link: Link) -> Result<Simulation, String> {
    scenario.flows.iter().try_for_each(|flow| check_time(scenario, flow))?;
    let (setups, entries) = ports(scenario, link);
    let mut random = draws::of_run(seed);
    let mut simulation = Simulation {
        network: Network::new(setups, seed),
        seed,
        now: ORIGIN,
        end: ORIGIN + scenario.duration,
        events: Events::default(),
        conversations: Vec::new(),
        records: Vec::new(),
        webs: Vec::new(),
        routes: Vec::new(),
        open: 0,
        sized: 0,
        pilots: Vec::new(),
        scenario: scenario.clone(),
    };
    simulation.events.at(ORIGIN + scenario.steady_from, Event::Steady);
    simulation.events.at(ORIGIN + scenario.interval, Event::Sample);
    for (i, node) in scenario.nodes.iter().enumerate() {
        for step in &node.steps {
            let delays = [(2 * i, step.down_delay), (2 * i + 1, step.up_delay)];
            for (port, ns) in delays.into_iter().filter_map(|(p, ns)| Some((p, ns?))) {
                simulation.events.at(ORIGIN + step.at, Event::Delay(port as u32, ns));
            }
            let lines = [(2 * i, step.down_line), (2 * i + 1, step.up_line)];
            for (port, bps) in lines.into_iter().filter_map(|(p, bps)| Some((p, bps?))) {
                simulation.events.at(ORIGIN + step.at, Event::Line(port as u32, bps));
            }
        }
    }
    simulation.take_pilots(link);
    for flow in &scenario.flows {
        for i in 0..flow.count {
            add_flow(&mut simulation, flow, i, &entries, &mut random)?;
        }
    }
    for ping in &scenario.pings {
        let c = simulation.conversations.len();
        let ends = ends(scenario, ping.client, ping.server, c);
        simulation.records.push(Record::new(ping.name.clone(), ping.name.clone(), "ping".into(), true, ORIGIN));
        let kind = if ends.src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let app = App::Ping { interval: ping.interval, size: ping.size, ds: ping.dscp << 2, sequence: 0 };
        let start = ORIGIN + ping.start + draws::jitter(&mut random);
        simulation.conversations.push(Conversation {
            record: simulation.records.len() - 1,
            app,
            tcp: None,
            plain: Some([Template::new(ends, kind), Template::new(swapped(ends), kind)]),
            random: Random::seeded(random.u64()),
            entry: [entries[ping.client], entries[ping.server]],
        });
        simulation.events.at(start, Event::App(c as u32, turn::START));
    }
    Ok(simulation)
}

/// Refuses a connection that would send for ever in one moment: nothing bounds what it sends, and nothing on its way
/// takes time.
fn check_time(scenario: &Scenario, flow: &Flow) -> Result<(), String> {
    let endless = match flow.app {
        scenario::App::Bulk { size, .. } => size.is_none(),
        scenario::App::Request { think, .. } | scenario::App::Web { think, .. } => think == 0,
        _ => false,
    };
    let far = |host: usize| scenario.hosts[host].delay > 0;
    let slow = scenario.nodes.iter().any(|node| {
        let lines = node.down_line.is_some() || node.up_line.is_some();
        let specs = node.down.iter().chain(&node.up);
        lines || node.down_delay + node.up_delay > 0 || specs.flat_map(|s| s.stages()).any(takes_time)
    });
    if !endless || slow || far(flow.client) || flow.servers.iter().all(|server| far(*server)) {
        return Ok(());
    }
    Err(format!(
        "flow \"{}\": nothing on its way takes time, so it would send for ever in one moment: give a [[node]] a line, a \
         delay or a rate, or the flow a size or a think time",
        flow.name
    ))
}

/// Whether a stage ever keeps a packet while the line is free.
fn takes_time(stage: &Stage) -> bool {
    match stage {
        Stage::Fifo(_) | Stage::Codel(_) | Stage::FqCodel(_) | Stage::Dualpi2(_) => false,
        Stage::Cake(p) => !p.rate.is_zero(),
        Stage::Netem(p) => p.delay > 0 || p.jitter > 0 || p.rate.is_some() || p.slots.is_some(),
        Stage::Marked { inner, .. } => takes_time(inner),
        Stage::Tbf(_) | Stage::Htb(_) | Stage::Link(_) => true,
    }
}

/// The ports: for each node one down and one up, then those of the hosts' own lines. With them where
/// each host's frames enter.
fn ports(scenario: &Scenario, link: Link) -> (Vec<PortSetup>, Vec<Next>) {
    let nodes = &scenario.nodes;
    let mut setups = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        setups.push(PortSetup {
            name: format!("{}.down", node.name),
            pipeline: node.down.as_ref().map(|s| s.build(link)),
            line_bps: node.down_line,
            delay: node.down_delay,
            next: if i == 0 { Next::Hosts } else { Next::Port(2 * (i - 1)) },
        });
        setups.push(PortSetup {
            name: format!("{}.up", node.name),
            pipeline: node.up.as_ref().map(|s| s.build(link)),
            line_bps: node.up_line,
            delay: node.up_delay,
            next: if i + 1 == nodes.len() { Next::Hosts } else { Next::Port(2 * (i + 1) + 1) },
        });
    }
    let inward = |side| match side {
        _ if nodes.is_empty() => Next::Hosts,
        Side::Client => Next::Port(1),
        Side::Server => Next::Port(2 * (nodes.len() - 1)),
    };
    let entries = scenario.hosts.iter().map(|host| {
        if host.delay == 0 {
            return inward(host.side);
        }
        // The host's own line is flown twice on the way out: once for it, once for the way back.
        setups.push(PortSetup {
            name: format!("{}.line", host.name),
            pipeline: None,
            line_bps: None,
            delay: 2 * host.delay,
            next: inward(host.side),
        });
        Next::Port(setups.len() - 1)
    });
    let entries = entries.collect();
    (setups, entries)
}

fn ends(scenario: &Scenario, client: usize, server: usize, c: usize) -> Ends {
    Ends {
        src: scenario.hosts[client].address,
        dst: scenario.hosts[server].address,
        sport: 32_768 + (c % 28_000) as u16,
        dport: 5001,
    }
}

fn config(tcp: &Tcp, dscp: u8) -> Result<Config, String> {
    let kind = Kind::named(&tcp.sender)
        .ok_or_else(|| format!("the simulator has no sender \"{}\"; it has {}", tcp.sender, SENDERS.join(", ")))?;
    let default = Config::default();
    Ok(Config {
        control: kind,
        slow_start: match tcp.slow_start {
            SlowStart::Plain => control::SlowStart::Plain,
            SlowStart::HyStart => control::SlowStart::HyStart,
            SlowStart::HyStartPlusPlus => control::SlowStart::HyStartPlusPlus,
        },
        mss: if kind == Kind::Fixed { control::SMALL_MSS } else { default.mss },
        ecn: tcp.ecn,
        estimator: match tcp.timer {
            Timer::Rfc6298 => Estimator::Rfc6298 { floor: SECOND / 5 },
            Timer::Jacobson => Estimator::Jacobson1988,
            Timer::Rfc793 => Estimator::Rfc793,
        },
        receive_window: tcp.window,
        delayed_acks: tcp.delayed_acks,
        dscp,
        retries: tcp.retries.unwrap_or(default.retries),
        patience: tcp.patience,
    })
}

fn add_flow(s: &mut Simulation, flow: &Flow, i: u32, entries: &[Next], random: &mut Random) -> Result<(), String> {
    let name = if flow.count == 1 { flow.name.clone() } else { format!("{}-{}", flow.name, i + 1) };
    let server = flow.servers[i as usize % flow.servers.len()];
    let draws = Draws::next(&flow.app, random);
    let start = ORIGIN + flow.start + flow.every * u64::from(i) + draws.jitter;
    let udp = matches!(flow.app, scenario::App::Constant { .. } | scenario::App::OnOff { .. });
    let dtp = if let scenario::App::Dtp(dtp) = &flow.app { Some(dtp) } else { None };
    let kind = match (dtp, udp) {
        (Some(_), _) => "dtp".to_string(),
        (_, true) => "udp".to_string(),
        _ => flow.tcp.sender.clone(),
    };
    let mut app = application(flow);
    s.records.push(Record::new(name, flow.group.clone(), kind, !app.server_sends(), start));
    if let Some(dtp) = dtp {
        let hosts = [flow.client, server];
        let (route, number) =
            super::dtp::add(s, flow, dtp, hosts, hosts.map(|h| entries[h]), draws.first().ends as u32)?;
        app = super::dtp::app(route, number, dtp.up);
    }
    if let scenario::App::Web { think, .. } = flow.app {
        s.webs.push(Web::new(think));
    }
    if let scenario::App::Bulk { size: Some(_), .. } = flow.app {
        s.open += 1;
        s.sized += 1;
    }
    for seeds in draws.connections {
        let c = s.conversations.len();
        let ends = ends(&s.scenario, flow.client, server, c);
        let mut app = app.clone();
        if let App::Web { web, .. } = &mut app {
            *web = s.webs.len() - 1;
            s.webs[*web].connections.push(c);
        }
        let (tcp, plain) = if dtp.is_some() {
            (None, None)
        } else if udp {
            let template = |e| Template::new(e, protocol::UDP);
            (None, Some([template(ends), template(swapped(ends))]))
        } else {
            let config = config(&flow.tcp, flow.dscp)?;
            let server_end = Endpoint::new(config.clone(), seeds.ends);
            let connection = Connection {
                ends: [Endpoint::new(config, !seeds.ends), server_end],
                templates: [Template::new(ends, protocol::TCP), Template::new(swapped(ends), protocol::TCP)],
            };
            (Some(Box::new(connection)), None)
        };
        s.conversations.push(Conversation {
            record: s.records.len() - 1,
            app,
            tcp,
            plain,
            random: Random::seeded(seeds.app),
            entry: [entries[flow.client], entries[server]],
        });
        s.events.at(start, Event::App(c as u32, turn::START));
        if let Some(stop) = flow.stop {
            s.events.at(ORIGIN + stop, Event::App(c as u32, turn::STOP));
        }
    }
    Ok(())
}

fn application(flow: &Flow) -> App {
    let ds = flow.dscp << 2;
    let exchange = Default::default();
    let until = crate::time::Instant::ZERO;
    match flow.app {
        scenario::App::Bulk { size, up } => App::Bulk { up, size, exchange },
        scenario::App::Request { request, response, think } => App::Request { request, response, think, exchange },
        scenario::App::Web { .. } => App::Web { web: 0, exchange },
        scenario::App::Dtp(Dtp { up, .. }) => super::dtp::app(0, 0, up),
        scenario::App::Constant { rate, packet, up } => {
            App::Datagrams { up, packet, gap: scenario::gap(rate, packet), ds, phases: None, until, running: false }
        }
        scenario::App::OnOff { rate, packet, up, on, off } => App::Datagrams {
            up,
            packet,
            gap: scenario::gap(rate, packet),
            ds,
            phases: Some((on, off)),
            until,
            running: false,
        },
    }
}
