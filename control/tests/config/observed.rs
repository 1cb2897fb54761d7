//! Runs of configured NICs in virtual time, and what is seen of them.

use super::read;
use control::sim::{Beside, Run, Scenario};
use dataplane::Ns;
use dataplane::congestion::NsccSnapshot;
use dataplane::fabric::NicId;
use dataplane::nic::{DropReason, NicParams};
use dataplane::time::{MS, US};
use mrcnic_tests::{Channel, Fate, Pair, QpPair, trimmed};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Payload of a full packet.
const FULL: usize = 4096;
/// 256 full packets.
const MESSAGE: usize = 256 * FULL;
/// How long a frame is on its way, in ns, if it is not late.
const DELAY: u64 = 1_000;

/// How late each frame is, in ns; there and back twice as much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late(pub(super) u64);

/// A data frame of the first NIC.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Ns,
    len: usize,
    dscp: u8,
    port: u32,
    psn: u32,
    again: bool,
}

type Log = Rc<RefCell<Vec<Sent>>>;

/// Two NICs of a configuration, and a queue pair as that says.
fn pair(text: &str, bytes: usize) -> (Pair, QpPair) {
    let mut pair = Pair::new(read(text).config.setup().nic, bytes, Channel::default(), 1);
    let qp = connect(&mut pair, text);
    (pair, qp)
}

fn connect(pair: &mut Pair, text: &str) -> QpPair {
    let setup = read(text).config.setup();
    pair.connect_with(0, |_, spec| spec.path.paths = setup.paths(50_000))
}

/// Writes down what the first NIC sends of data, and asks what becomes of it: by how many came before.
fn watch(pair: &mut Pair, fate: impl Fn(usize, &[u8]) -> Fate + 'static) -> Log {
    let log = Log::default();
    let writer = Rc::clone(&log);
    pair.filter = Some(Box::new(move |at, from, packet, frame| {
        if from == 1 || !packet.bth.opcode.is_data() {
            return Fate::Pass;
        }
        let mut log = writer.borrow_mut();
        let (dscp, port, psn, again) = (frame[15] >> 2, packet.ev(), packet.bth.psn, packet.bth.rtx);
        log.push(Sent { at, len: frame.len(), dscp, port, psn, again });
        fate(log.len() - 1, frame)
    }));
    log
}

fn post(pair: &mut Pair, qp: &QpPair, len: usize) {
    let write = pair.write(0, 0, 0, len);
    pair.nics[0].post_write(qp.qpn[0], &write).unwrap();
}

/// A message of `len` bytes between two NICs for `ns`, of which `fate` decides; what was sent.
fn sent(text: &str, len: usize, ns: u64, fate: impl Fn(usize, &[u8]) -> Fate + 'static) -> (Pair, Vec<Sent>) {
    let (mut pair, qp) = pair(text, len);
    let log = watch(&mut pair, fate);
    post(&mut pair, &qp, len);
    pair.run_for(ns);
    let sent = log.borrow().clone();
    (pair, sent)
}

fn pass(_: usize, _: &[u8]) -> Fate {
    Fate::Pass
}

fn lose(_: usize, _: &[u8]) -> Fate {
    Fate::Drop
}

fn joined(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

/// How many data packets as many queue pairs send before an answer could have come.
pub(super) fn before_the_first_answer(text: &str, qps: usize) -> String {
    let bytes = 1100 * FULL;
    let (mut pair, first) = pair(text, bytes);
    let log = watch(&mut pair, lose);
    let more: Vec<QpPair> = (1..qps).map(|_| connect(&mut pair, text)).collect();
    for qp in core::iter::once(&first).chain(&more) {
        post(&mut pair, qp, bytes);
    }
    pair.run_for(DELAY);
    let count = log.borrow().len();
    count.to_string()
}

/// When the last packet of a message of 256 is sent for the first time, in us.
pub(super) fn last_first_sent(text: &str) -> String {
    let (_, sent) = sent(text, MESSAGE, 200 * US, pass);
    let fresh: Vec<&Sent> = sent.iter().filter(|sent| !sent.again).collect();
    assert_eq!(fresh.len(), 256);
    (fresh[255].at.0 / US).to_string()
}

/// How many data packets a port takes that sends none of them.
pub(super) fn payloads_in_a_full_egress_buffer(text: &str) -> String {
    let (mut pair, qp) = pair(text, MESSAGE);
    // It takes frames, and never says that they are sent.
    pair.stuck_ports[0] = 1;
    post(&mut pair, &qp, MESSAGE);
    pair.run_for(100 * US);
    pair.nics[0].stats().tx_data.get().to_string()
}

fn some_or_none(count: u64) -> String {
    if count > 0 { "some" } else { "none" }.to_owned()
}

/// Whether the ingress buffer of a NIC drops packets, where two NICs write to each other.
pub(super) fn dropped_at_ingress(text: &str) -> String {
    let (mut pair, qp) = pair(text, MESSAGE);
    post(&mut pair, &qp, MESSAGE);
    let mut back = pair.write(0, 0, 0, MESSAGE);
    back.local_key = pair.keys[1];
    back.remote_key = pair.keys[0];
    pair.nics[1].post_write(qp.qpn[1], &back).unwrap();
    pair.run_for(40 * US);
    some_or_none(pair.nics[1].stats().drops_by(DropReason::IngressFull))
}

/// Whether the ingress buffer of the receiver drops packets; the sender is as the first two lines of the configuration say.
pub(super) fn ingress_of_the_second(text: &str) -> String {
    let params = |text: &str| -> NicParams { read(text).config.setup().nic };
    let others: Vec<&str> = text.lines().take(2).collect();
    let mut pair = Pair::new(params(&others.join("\n")), MESSAGE, Channel::default(), 1);
    pair.replace_nic(1, params(text));
    let qp = connect(&mut pair, text);
    post(&mut pair, &qp, MESSAGE);
    pair.run_for(40 * US);
    some_or_none(pair.nics[1].stats().drops_by(DropReason::IngressFull))
}

/// The DSCP of a packet that is lost, and of its retransmission.
pub(super) fn marks(text: &str) -> String {
    let (_, sent) = sent(text, FULL, 200 * US, |before, _| if before == 0 { Fate::Drop } else { Fate::Pass });
    assert_eq!(sent.iter().map(|sent| sent.again).collect::<Vec<_>>(), [false, true]);
    joined(sent.iter().map(|sent| sent.dscp))
}

/// Lengths of the data frames of a message of 4,096 bytes.
pub(super) fn sizes(text: &str) -> String {
    joined(sent(text, FULL, 20 * US, pass).1.iter().map(|sent| sent.len))
}

/// How many SACKs the packets of a message of 1 MiB drew, where 108 come in one burst.
pub(super) fn sacks(text: &str) -> String {
    let (pair, _) = sent(text, MESSAGE, 100 * US, pass);
    pair.nics[1].stats().tx_sacks.get().to_string()
}

/// How many UDP source ports 256 data packets have.
pub(super) fn ports(text: &str) -> String {
    let (_, sent) = sent(text, MESSAGE, 100 * US, pass);
    sent.iter().map(|sent| sent.port).collect::<BTreeSet<u32>>().len().to_string()
}

/// The lowest one of them.
pub(super) fn lowest_port(text: &str) -> String {
    let (_, sent) = sent(text, MESSAGE, 100 * US, pass);
    sent.iter().map(|sent| sent.port).min().unwrap().to_string()
}

/// How many losses a gap told of, and how many a timer, where the first of 256 packets is lost.
pub(super) fn losses(text: &str) -> String {
    let (pair, sent) = sent(text, MESSAGE, 400 * US, |before, _| if before == 0 { Fate::Drop } else { Fate::Pass });
    assert_eq!(sent.iter().filter(|sent| sent.again).map(|sent| sent.psn).collect::<Vec<_>>(), [0]);
    let stats = pair.nics[0].stats();
    joined([&stats.lost_by_gap, &stats.lost_by_timeout].into_iter().map(|counter| counter.get()))
}

/// When a packet that is always lost is sent again the first three times, in us.
pub(super) fn resent_at(text: &str) -> String {
    let (_, sent) = sent(text, FULL, 3 * MS, lose);
    joined(sent.iter().filter(|sent| sent.again).take(3).map(|sent| sent.at.0 / US))
}

/// How often a packet that is always lost is sent in 2 ms, and how many queue pairs have failed then.
pub(super) fn retries(text: &str) -> String {
    let (pair, sent) = sent(text, FULL, 2 * MS, lose);
    joined([sent.len() as u64, pair.nics[0].stats().qp_errors.get()].into_iter())
}

/// A round trip of one packet in time, so that 2 us become the base, and then what is late.
fn with_a_base(text: &str, late: Late) -> (Pair, QpPair) {
    let (mut pair, qp) = pair(text, 8 * MESSAGE);
    post(&mut pair, &qp, FULL);
    pair.run_for(20 * US);
    assert_eq!(nscc(&pair).base_rtt_ns, 2 * DELAY);
    pair.channel.delay_ns += late.0;
    (pair, qp)
}

fn nscc(pair: &Pair) -> NsccSnapshot {
    pair.nics[0].groups(pair.address(1)).next().unwrap().nscc.unwrap()
}

/// What is seen after one packet that is late.
fn after_one(text: &str, late: Late) -> NsccSnapshot {
    let (mut pair, qp) = with_a_base(text, late);
    post(&mut pair, &qp, FULL);
    pair.run_for(2 * (DELAY + late.0) + US);
    nscc(&pair)
}

/// The average queueing delay in ns after one packet that is late.
pub(super) fn average_delay(text: &str, late: Late) -> String {
    after_one(text, late).average_delay_ns.to_string()
}

/// What NSCC does on the SACK of one packet that is late.
pub(super) fn rule(text: &str, late: Late) -> String {
    format!("{:?}", after_one(text, late).rule)
}

/// The window once eight packets were trimmed, in bytes.
pub(super) fn window_after_trims(text: &str) -> String {
    let (mut pair, qp) = with_a_base(text, Late(0));
    watch(&mut pair, |before, frame| if before < 8 { Fate::Replace(trimmed(frame, 12)) } else { Fate::Pass });
    post(&mut pair, &qp, 8 * FULL);
    // Their NACKs have come, and no SACK of what is sent again.
    pair.run_for(3 * DELAY);
    nscc(&pair).cwnd.to_string()
}

/// The window some us after a message began whose first 60 packets were lost.
pub(super) fn window(text: &str, late: Late, us: u64) -> u64 {
    let (mut pair, qp) = with_a_base(text, late);
    watch(&mut pair, |before, _| if before < 60 { Fate::Drop } else { Fate::Pass });
    post(&mut pair, &qp, 8 * MESSAGE);
    pair.run_for(us * US);
    nscc(&pair).cwnd
}

/// A run in a fabric, whose NICs have the configuration.
fn simulated(text: &str, scenario: &str, end: u64) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let nic = dir.path().join("nic.toml");
    std::fs::write(&nic, text).unwrap();
    let beside = Beside { config: Some(&nic), ..Beside::default() };
    let mut run = Run::new(Scenario::read_beside(scenario, "s.toml", &beside).unwrap()).unwrap();
    run.until(Ns(end)).unwrap();
    run
}

/// When a message of one packet between two NICs below one switch is done, in ns.
pub(super) fn ends_after(text: &str) -> String {
    let scenario = "[fabric]\ntopology = \"leaf-spine\"\nleaves = 1\nnics_per_leaf = 2\nspines = 1\n\
                    host = { overhead = 0 }\n\
                    [[traffic]]\npattern = \"point-to-point\"\nsrc = 0\ndst = 1\nsize = 4096\ncount = 1\n";
    let run = simulated(text, scenario, MS);
    run.traffic().flow(run.world(), 0).unwrap().1.ended.unwrap().0.to_string()
}

/// How many probes a NIC sends in 3 ms that has eight paths, one of which swallows everything.
pub(super) fn probes(text: &str) -> String {
    let scenario = "verify = false\nduration = \"3ms\"\n[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 8\n\
                    [[fault]]\nat = \"0ns\"\nwhat = \"black-hole\"\nwhere = \"p0.t0.0>p0.t1.0\"\n\
                    [[traffic]]\npattern = \"point-to-point\"\nsrc = 0\ndst = 1\nsize = \"1MiB\"\noutstanding = 4\n";
    let run = simulated(text, scenario, 3 * MS);
    run.world().nic(NicId(0)).stats().tx_probes.get().to_string()
}
