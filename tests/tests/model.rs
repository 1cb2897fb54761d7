//! A model of what must hold, over thousands of random histories: parameters, messages and a channel that loses, repeats, reorders, marks,
//! trims and corrupts. A history that fails prints its seed; `MRCNIC_SEED=N cargo nextest run -p mrcnic-tests -E 'test(/^model::/)'` runs that one.

use dataplane::nic::{NicParams, Operation, Status, WriteRequest};
use dataplane::time::{SEC, US};
use dataplane::transport::{Psn, RttMode, TransportParams};
use dataplane::wire::Ext;
use mrcnic_tests::{Channel, Fate, Pair, QpPair, random_congestion};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::rc::Rc;

const MEMORY: usize = 64 * 1024;
const HISTORIES: u64 = 3_000;

fn random_params<R: Rng>(rng: &mut R) -> NicParams {
    let transport = TransportParams {
        mss: [16, 100, 256, 1024, 4096][rng.random_range(0..5)],
        max_psn_range: [1, 2, 17, 128, 256, 1024][rng.random_range(0..6)],
        sack_loss_min_retx_pkts: [0, 3, 64, 512][rng.random_range(0..4)],
        rtt_mode: [RttMode::LocalDatabase, RttMode::WireTimestamp][rng.random_range(0..2)],
        service_time: rng.random(),
        write_imm_limit: rng.random_range(1..=8),
        dynamic_mpr: rng.random_bool(0.3),
        ..TransportParams::default()
    };
    NicParams {
        transport,
        congestion: random_congestion(rng),
        trimming: rng.random_bool(0.8),
        out_of_order_limit: [u32::MAX, 20][rng.random_range(0..2)],
        ..NicParams::default()
    }
}

/// What the watcher of the network holds against each frame.
#[derive(Default)]
struct Seen {
    /// The highest cumulative ACK that any reply carried.
    cack: Option<Psn>,
    /// The highest PSN sent.
    highest: Option<Psn>,
    broken: Option<String>,
}

/// New data goes no further than the window beyond any cumulative ACK that the responder has sent.
fn watch_window(pair: &mut Pair, first: u32, window: u32) -> Rc<RefCell<Seen>> {
    let seen = Rc::new(RefCell::new(Seen { cack: Some(Psn::new(first).plus(-1)), ..Seen::default() }));
    let watcher = seen.clone();
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        let mut seen = watcher.borrow_mut();
        let psn = Psn::new(packet.bth.psn);
        match (from, &packet.ext) {
            (1, Ext::Sack(_) | Ext::Ack(_)) if seen.cack.is_none_or(|cack| psn.is_after(cack)) => seen.cack = Some(psn),
            (0, Ext::Write(_)) if !packet.bth.rtx => {
                let ahead = seen.cack.map_or(0, |cack| psn.distance(cack));
                if ahead > window as i32 {
                    seen.broken = Some(format!("at {now:?} PSN {psn} is {ahead} beyond the cumulative ACK"));
                }
                if seen.highest.is_some_and(|highest| psn != highest.next()) {
                    seen.broken = Some(format!("at {now:?} PSN {psn} does not follow {:?}", seen.highest));
                }
                seen.highest = Some(psn);
            }
            _ => {}
        }
        Fate::Pass
    }));
    seen
}

/// Posts messages at random places that do not overlap, and says what the target must hold in the end.
fn post_messages<R: Rng>(pair: &mut Pair, qp: &QpPair, rng: &mut R, mss: usize) -> (Vec<WriteRequest>, Vec<u8>) {
    let mut expected = vec![0; MEMORY];
    let mut requests = Vec::new();
    let mut at = 0;
    for id in 0..rng.random_range(1..12u64) {
        let len = match rng.random_range(0..5) {
            0 => 0,
            1 => rng.random_range(1..=mss),
            2 => mss * rng.random_range(1..=4),
            _ => rng.random_range(0..=mss * 6),
        };
        if at + len + 16 > MEMORY {
            break;
        }
        let immediate = rng.random_bool(0.4).then(|| rng.random());
        let request = WriteRequest { immediate, ..pair.write(id, at, at, len) };
        expected[at..at + len].copy_from_slice(&pair.bytes(0, at, len));
        pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
        requests.push(request);
        at += len + 16;
        if rng.random_bool(0.3) {
            pair.run_for(rng.random_range(0..200 * US));
        }
        if rng.random_bool(0.2) {
            pair.nics[1].set_window(qp.qpn[1], rng.random_range(0..2048));
        }
    }
    (requests, expected)
}

fn history(seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (params, channel) = (random_params(&mut rng), Channel::random(&mut rng, 0.2));
    let mut pair = Pair::over(rng.random(), params, MEMORY, channel, seed);
    pair.fill(seed);
    let first = [0, 0xFF_FFF0, rng.random_range(0..1 << 24)][rng.random_range(0..3)];
    let qp = pair.connect(first);
    let seen = watch_window(&mut pair, first, params.transport.max_psn_range);
    for id in 0..32 {
        pair.nics[1].post_receive(qp.qpn[1], id).unwrap();
    }
    let (requests, expected) = post_messages(&mut pair, &qp, &mut rng, params.transport.mss as usize);
    pair.run_for(20 * SEC);
    let context = format!("seed {seed}: {params:?} {channel:?}");
    assert_eq!(seen.borrow().broken, None, "{context}");
    let ends: Vec<(u64, Status)> =
        pair.completions[0].iter().map(|c| (c.completion.wr_id, c.completion.status)).collect();
    let all: Vec<(u64, Status)> = requests.iter().map(|r| (r.wr_id, Status::Success)).collect();
    assert_eq!(ends, all, "{context}");
    let received: Vec<(u32, u32)> = pair.completions[1]
        .iter()
        .map(|c| match c.completion.operation {
            Operation::Receive { immediate } => (immediate, c.completion.len),
            other => panic!("NIC 1 posted no {other:?}"),
        })
        .collect();
    let sent: Vec<(u32, u32)> = requests.iter().filter_map(|r| r.immediate.map(|i| (i, r.len))).collect();
    assert_eq!(received, sent, "{context}");
    assert!(pair.bytes(1, 0, MEMORY) == expected, "every byte in its place and no other written; {context}");
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 0, "{context}");
    let placed = pair.nics[1].stats().placed_bytes.get();
    assert_eq!(placed, requests.iter().map(|r| u64::from(r.len)).sum::<u64>(), "each byte is placed once; {context}");
    assert_eq!((pair.nics[0].next_wake(), pair.nics[1].next_wake()), (None, None), "{context}");
}

#[test]
fn in_every_history_bytes_completions_and_windows_are_as_they_must_be() {
    if let Some(seed) = std::env::var("MRCNIC_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return history(seed);
    }
    for seed in 0..HISTORIES {
        history(seed);
    }
}

/// A budget of retries that runs out in some histories: every request still ends once and in order, and nothing is left behind.
#[test]
fn in_every_history_with_a_budget_of_retries_all_requests_end_once_and_in_order() {
    for seed in 0..500 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut params = random_params(&mut rng);
        params.transport.linear_retry_count = rng.random_range(0..3);
        params.transport.exponential_retry_count = rng.random_range(0..2);
        let channel = Channel { loss: 0.5, trim: 0.2, ..Channel::random(&mut rng, 0.2) };
        let mut pair = Pair::new(params, MEMORY, channel, seed);
        let qp = pair.connect(7);
        let count = rng.random_range(1..20u64);
        for id in 0..count {
            pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 3000)).unwrap();
        }
        pair.run_for(20 * SEC);
        let ids: Vec<u64> = pair.completions[0].iter().map(|c| c.completion.wr_id).collect();
        assert_eq!(ids, (0..count).collect::<Vec<_>>(), "seed {seed}");
        let bad: Vec<Status> =
            pair.completions[0].iter().map(|c| c.completion.status).skip_while(|&s| s == Status::Success).collect();
        assert!(bad.is_empty() || bad[0] == Status::RetryExceeded, "seed {seed}: {bad:?}");
        assert!(bad.iter().skip(1).all(|&s| s == Status::Flushed), "seed {seed}: {bad:?}");
        assert_eq!(pair.nics[0].inflight(pair.address(1)), 0, "seed {seed}");
    }
}
