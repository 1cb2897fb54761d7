//! NSCC over a fabric in virtual time: fairness, queueing delay, and incast.

use control::sim::{Flow, Traffic, World};
use dataplane::Ns;
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::fabric::{EcnParams, LinkParams, NicId, Plan, QueueParams, Topology};
use dataplane::nic::{NicParams, PathSpec};
use dataplane::path::SprayingParams;
use dataplane::time::{MS, US};

/// NICs that send to the last one, over paths with room to spare: what is narrow is its own link.
fn plan(senders: u32, ecn: Option<EcnParams>) -> Plan {
    let topology = Topology::Paths { nics: senders + 1, paths: 16 };
    let mut plan = Plan::new(topology);
    plan.host = LinkParams { reorder: 1.0, late_ns: 50, ..LinkParams::default() };
    plan.queue = QueueParams { ecn, data: 1 << 20, ..QueueParams::default() };
    plan
}

fn stream(src: u32, dst: u32, start: Ns) -> Flow {
    Flow {
        src: NicId(src),
        dst: NicId(dst),
        message: 1 << 20,
        count: None,
        outstanding: 16,
        start,
        after: Vec::new(),
        path: PathSpec::default(),
        back: PathSpec::default(),
    }
}

fn params(base_rtt_ns: u64) -> NicParams {
    let nscc = NsccParams { config_base_rtt_ns: base_rtt_ns, ..NsccParams::default() };
    let spraying = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
    NicParams { congestion: CcConfig::Nscc(nscc), base_rtt_ns, spraying, ..NicParams::default() }
}

/// The round-trip time of a full packet without any load, to the receiver.
fn unloaded_rtt(plan: &Plan, dst: u32) -> u64 {
    let mut world = World::new(plan, params(6_000), false, 1).unwrap();
    let one = Flow { message: 4096, outstanding: 1, ..stream(0, dst, Ns::ZERO) };
    let mut traffic = Traffic::new(&mut world, vec![one], true).unwrap();
    traffic.run(&mut world, Ns(50 * US), |_, _| ()).unwrap();
    world.nic(NicId(0)).last_rtt(world.address(NicId(dst))).unwrap()
}

struct Outcome {
    /// Bytes of each flow in the time that was looked at.
    bytes: Vec<u64>,
    /// Mean queueing delay in ns, from the windows' own averages.
    delay: f64,
    timeouts: u64,
    errors: u64,
    marked: u64,
    trimmed: u64,
}

/// Lets streams run, and looks at them from `from` to `to`.
fn run(plan: &Plan, params: NicParams, flows: Vec<Flow>, from: Ns, to: Ns) -> Outcome {
    let mut world = World::new(plan, params, false, 7).unwrap();
    let senders: Vec<NicId> = flows.iter().map(|flow| flow.src).collect();
    let dst = flows[0].dst;
    let mut traffic = Traffic::new(&mut world, flows, true).unwrap();
    traffic.run(&mut world, from, |_, _| ()).unwrap();
    let received = |world: &World| -> Vec<u64> {
        let from = senders.iter().map(|&nic| world.address(nic));
        from.map(|address| world.nic(dst).received_from(address)).collect()
    };
    let before = received(&world);
    let peer = world.address(dst);
    let (mut delay, mut samples) = (0, 0);
    while world.now() < to {
        let next = (world.now() + 10 * US).min(to);
        traffic.run(&mut world, next, |_, _| ()).unwrap();
        for &nic in &senders {
            if let Some(nscc) = world.nic(nic).groups(peer).find_map(|group| group.nscc) {
                delay += nscc.average_delay_ns;
                samples += 1;
            }
        }
    }
    let bytes = received(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    let stats = || senders.iter().map(|&nic| world.nic(nic).stats());
    let links = || world.fabric().links().map(|(_, _, stats)| stats);
    assert_eq!(traffic.reports(&world).iter().map(|(_, report)| report.corrupt).sum::<u64>(), 0);
    Outcome {
        bytes,
        delay: delay as f64 / f64::from(samples.max(1)),
        timeouts: stats().map(|stats| stats.lost_by_timeout.get()).sum(),
        errors: stats().map(|stats| stats.qp_errors.get()).sum(),
        marked: links().map(|link| link.marked).sum(),
        trimmed: links().map(|link| link.trimmed).sum(),
    }
}

/// Payload that 400 Gbps carry in a time, in full packets.
fn line(ns: u64) -> f64 {
    ns as f64 * 50.0 * 4096.0 / 4174.0
}

#[test]
fn two_flows_that_began_at_different_times_share_a_bottleneck_fairly_at_the_target_delay() {
    let ecn = EcnParams { min: 100_000, max: 300_000, last_hop: true };
    let plan = plan(2, Some(ecn));
    let base = unloaded_rtt(&plan, 2);
    let flows = || vec![stream(0, 2, Ns::ZERO), stream(1, 2, Ns(MS))];
    let fair = run(&plan, params(base), flows(), Ns(8 * MS), Ns(12 * MS));
    let target = 0.75 * base as f64;
    let share = |outcome: &Outcome| outcome.bytes[0] as f64 / outcome.bytes.iter().sum::<u64>() as f64;
    let goodput = |outcome: &Outcome| outcome.bytes.iter().sum::<u64>() as f64 / line(4 * MS);
    let show = |what: &str, outcome: &Outcome| {
        println!(
            "{what}: shares {:.3} / {:.3}, goodput {:.3} of the line, mean delay {:.0} ns (target {target:.0}), {} marked, {} trimmed, {} timeouts",
            share(outcome),
            1.0 - share(outcome),
            goodput(outcome),
            outcome.delay,
            outcome.marked,
            outcome.trimmed,
            outcome.timeouts
        );
    };
    show(&format!("base RTT {base} ns"), &fair);
    // What happens without marks, and with a base RTT that is not the fabric's.
    let unmarked = Plan { queue: QueueParams { ecn: None, ..plan.queue }, ..plan.clone() };
    show("without ECN", &run(&unmarked, params(base), flows(), Ns(8 * MS), Ns(12 * MS)));
    show("base RTT twice too long", &run(&plan, params(2 * base), flows(), Ns(8 * MS), Ns(12 * MS)));
    show("base RTT half as long", &run(&plan, params(base / 2), flows(), Ns(8 * MS), Ns(12 * MS)));
    assert!((0.45..=0.55).contains(&share(&fair)));
    assert!(fair.delay <= 1.1 * target);
    assert!(goodput(&fair) > 0.95);
    assert_eq!(fair.errors, 0);
}

#[test]
fn an_incast_of_seven_keeps_the_bottleneck_busy_and_sees_no_timeout() {
    for last_hop in [false, true] {
        let plan = plan(7, Some(EcnParams { last_hop, ..EcnParams::default() }));
        let base = unloaded_rtt(&plan, 7);
        let flows = (0..7).map(|n| stream(n, 7, Ns(u64::from(n) * 10 * US))).collect();
        let incast = run(&plan, params(base), flows, Ns(MS), Ns(4 * MS));
        let goodput = incast.bytes.iter().sum::<u64>() as f64 / line(3 * MS);
        let (least, most) = (incast.bytes.iter().min().unwrap(), incast.bytes.iter().max().unwrap());
        println!(
            "marks on the last hop: {last_hop}: goodput {goodput:.3} of the line, shares {least} to {most}, mean delay {:.0} ns, {} marked, {} trimmed",
            incast.delay, incast.marked, incast.trimmed
        );
        assert!(goodput > 0.95);
        assert_eq!((incast.timeouts, incast.errors), (0, 0));
    }
}
