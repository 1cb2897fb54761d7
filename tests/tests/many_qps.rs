//! Several QPs between two NICs, in both directions, that fail, are closed and made again while ports stall and the channel misbehaves:
//! every request ends once and in order, and nothing is left in flight. `MRCNIC_SEED=N` runs one history.

use dataplane::nic::{NicParams, Operation, QpState, Qpn, Status, WriteRequest};
use dataplane::time::{SEC, US};
use dataplane::transport::{RttMode, TransportParams};
use mrcnic_tests::{Channel, IOVA, Pair, QpPair, random_congestion};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

const SLOT: usize = 16 * 1024;
const SLOTS: usize = 48;

fn params<R: Rng>(rng: &mut R) -> NicParams {
    let transport = TransportParams {
        mss: [100, 1000, 4096][rng.random_range(0..3)],
        max_psn_range: [4, 100, 200, 1024][rng.random_range(0..4)],
        sack_loss_min_retx_pkts: [0, 3, 512][rng.random_range(0..3)],
        rtt_mode: [RttMode::LocalDatabase, RttMode::WireTimestamp][rng.random_range(0..2)],
        write_imm_limit: rng.random_range(1..=4),
        dynamic_mpr: rng.random_bool(0.5),
        linear_retry_count: rng.random_range(2..=7),
        exponential_retry_count: [0, 25, 25][rng.random_range(0..3)],
        ..TransportParams::default()
    };
    NicParams {
        transport,
        congestion: random_congestion(rng),
        trimming: rng.random_bool(0.8),
        out_of_order_limit: [u32::MAX, 20][rng.random_range(0..2)],
        held_immediates_limit: [u32::MAX, 1][rng.random_range(0..2)],
        ..NicParams::default()
    }
}

/// What was posted on a QP, in order.
type Posted = BTreeMap<Qpn, Vec<u64>>;

/// Posts a Write of NIC `from`'s slot `id`, now and then one that must fail.
fn post<R: Rng>(pair: &mut Pair, qp: &QpPair, from: usize, id: u64, posted: &mut Posted, rng: &mut R) {
    let va = IOVA + id * SLOT as u64;
    let mut request = WriteRequest {
        wr_id: id,
        local_key: pair.keys[from],
        local_va: va,
        remote_key: pair.keys[1 - from],
        remote_va: va,
        len: [0, 1, 4096, rng.random_range(0..SLOT as u32)][rng.random_range(0..4)],
        immediate: rng.random_bool(0.3).then_some(id as u32),
        signaled: true,
    };
    match rng.random_range(0..40) {
        0 => request.remote_key.0 ^= 1,
        1 => request.local_key.0 ^= 1,
        _ => {}
    }
    if request.immediate.is_some() && rng.random_bool(0.95) {
        pair.nics[1 - from].post_receive(qp.qpn[1 - from], id).unwrap();
    }
    pair.nics[from].post_write(qp.qpn[from], &request).unwrap();
    posted.entry(qp.qpn[from]).or_default().push(id);
}

fn history(seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let own = params(&mut rng);
    let mss = own.transport.mss;
    let mut pair = Pair::new(own, SLOT * SLOTS, Channel::random(&mut rng, 0.3), seed);
    let mut other = params(&mut rng);
    (other.transport.mss, other.transport.max_psn_range) = (mss, own.transport.max_psn_range);
    pair.replace_nic(1, other);
    pair.fill(seed);
    let mut posted: [Posted; 2] = Default::default();
    let mut qps: Vec<QpPair> =
        (0..rng.random_range(1..5)).map(|_| pair.connect(rng.random_range(0..1 << 24))).collect();
    for id in 0..SLOTS as u64 {
        let at = rng.random_range(0..qps.len());
        let from = usize::from(rng.random_bool(0.4));
        post(&mut pair, &qps[at], from, id, &mut posted[from], &mut rng);
        match rng.random_range(0..12) {
            0..5 => pair.run_for(rng.random_range(0..300 * US)),
            5 => pair.held_until[from] = pair.now + rng.random_range(0..500 * US),
            6 => qps[at] = pair.reconnect(&qps[at], rng.random_range(0..1 << 24)),
            7 => pair.channel = Channel::random(&mut rng, 0.3),
            8 => _ = pair.nics[1 - from].set_window(qps[at].qpn[1 - from], rng.random_range(0..2_000)),
            _ => {}
        }
    }
    pair.run_for(SEC);
    let context = format!("seed {seed}: {own:?} {other:?} {:?}", pair.channel);
    // Now that nothing is lost any more, no packet waits longer than the longest timeout.
    pair.channel = Channel::default();
    pair.run_for(60 * SEC);
    for nic in [0, 1] {
        let mut ended = Posted::new();
        let mut bad: BTreeMap<Qpn, Status> = BTreeMap::new();
        for entry in &pair.completions[nic] {
            if matches!(entry.completion.operation, Operation::Receive { .. }) {
                continue;
            }
            ended.entry(entry.qpn).or_default().push(entry.completion.wr_id);
            match (bad.get(&entry.qpn), entry.completion.status) {
                (None, Status::Success) | (Some(_), Status::Flushed) => {}
                (None, status) => _ = bad.insert(entry.qpn, status),
                (Some(_), status) => panic!("{status:?} after a failure; {context}"),
            }
        }
        assert_eq!(ended, posted[nic], "NIC {nic}; {context}");
        assert_eq!(pair.nics[nic].inflight(pair.address(1 - nic)), 0, "NIC {nic}; {context}");
        assert_eq!(pair.nics[nic].next_wake(), None, "NIC {nic}; {context}");
    }
    // What succeeded is there. (A slot has one writer.)
    for nic in [0, 1] {
        for entry in &pair.completions[nic] {
            let (id, len) = (entry.completion.wr_id as usize, entry.completion.len as usize);
            let is_write = !matches!(entry.completion.operation, Operation::Receive { .. });
            if is_write && entry.completion.status == Status::Success {
                let (source, target) = (pair.bytes(nic, id * SLOT, len), pair.bytes(1 - nic, id * SLOT, len));
                assert!(source == target, "Write {id} of NIC {nic}; {context}");
            }
        }
    }
    // A QP that is alive at both ends still works, whatever became of the others.
    for qp in &qps {
        let alive = [0, 1].map(|n| pair.nics[n].state(qp.qpn[n]) == Some(QpState::Rts));
        let before = pair.completions[0].len();
        pair.nics[0].post_write(qp.qpn[0], &pair.write(99, 0, 0, SLOT)).unwrap();
        pair.run_for(50_000 * US);
        let status = pair.completions[0].get(before).map(|entry| entry.completion.status);
        assert!(status.is_some(), "{context}");
        assert!(!alive.iter().all(|&alive| alive) || status == Some(Status::Success), "{status:?}; {context}");
    }
}

#[test]
fn whatever_becomes_of_the_qps_every_request_ends_once_and_in_order() {
    if let Some(seed) = std::env::var("MRCNIC_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return history(seed);
    }
    for seed in 0..500 {
        history(seed);
    }
}
