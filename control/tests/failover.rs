//! A path that fails in the middle of a transfer: what it costs, and when its value is back.

use crate::controlled::Controlled;
use dataplane::Ns;
use dataplane::nic::{EvState, NicParams};
use dataplane::path::SprayingParams;
use dataplane::time::{MS, US};
use dataplane::transport::TransportParams;
use mrcnic_tests::{Channel, Fate};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const RTT: u64 = 6 * US;
/// Values, each of them a path of its own: 256 to 263.
const PATHS: u32 = 8;

/// A transfer that lasts, over eight paths with room to spare: what limits it is the window. Paths in `holes` swallow everything.
struct Transfer {
    run: Controlled,
    qpn: dataplane::nic::Qpn,
    peer_qpn: dataplane::nic::Qpn,
    holes: Rc<Cell<u32>>,
    used: Rc<RefCell<BTreeMap<u32, u32>>>,
}

impl Transfer {
    fn start(transport: TransportParams) -> Transfer {
        let spraying = SprayingParams { entropy_mask_bits: PATHS.ilog2() as u8, ..SprayingParams::default() };
        let params = NicParams { spraying, transport, ..NicParams::default() };
        let mut run = Controlled::new(1, params, 1 << 20, Channel { delay_ns: RTT / 2, ..Channel::default() });
        let qp = run.pair.connect(0);
        let holes: Rc<Cell<u32>> = Rc::default();
        let used: Rc<RefCell<BTreeMap<u32, u32>>> = Rc::default();
        let (swallow, count) = (holes.clone(), used.clone());
        run.pair.filter = Some(Box::new(move |_, from, packet, _| {
            let path = packet.ev() - 256;
            if from == 0 && packet.bth.opcode.is_data() {
                *count.borrow_mut().entry(path).or_default() += 1;
            }
            if from == 0 && swallow.get() >> path & 1 == 1 { Fate::Drop } else { Fate::Pass }
        }));
        Transfer { run, qpn: qp.qpn[0], peer_qpn: qp.qpn[1], holes, used }
    }

    /// Lets time pass until `end`, with requests enough to go on.
    fn run_until(&mut self, end: Ns) {
        while self.run.pair.now < end {
            while self.run.pair.nics[0].pending(self.qpn) < 16 {
                let write = self.run.pair.write(0, 0, 0, 1 << 20);
                self.run.pair.nics[0].post_write(self.qpn, &write).unwrap();
            }
            let next = (self.run.pair.now + 10 * US).min(end);
            self.run.run_until(next);
        }
    }

    /// Bytes placed between now and `end`.
    fn goodput(&mut self, end: Ns) -> u64 {
        let placed = |run: &Controlled, qpn| run.pair.nics[1].qp_stats(qpn).unwrap().delivered_bytes;
        let before = placed(&self.run, self.peer_qpn);
        self.run_until(end);
        placed(&self.run, self.peer_qpn) - before
    }

    /// Lets time pass until this many values are assumed bad.
    fn until_bad(&mut self, count: usize, end: Ns) -> Ns {
        while self.run.bad().len() != count {
            assert!(self.run.pair.now < end, "{:?} are assumed bad", self.run.bad());
            self.run_until(self.run.pair.now + US);
        }
        self.run.pair.now
    }
}

/// SACK gaps say nothing of a path, and would repair every loss before its timer runs out: here the timers find them.
fn by_timer() -> TransportParams {
    TransportParams { sack_loss_min_retx_pkts: 1023, ..TransportParams::default() }
}

#[test]
fn a_black_hole_in_one_of_eight_paths_costs_its_first_timeout_and_no_goodput_after_that() {
    let mut transfer = Transfer::start(by_timer());
    transfer.run_until(Ns(MS));
    let before = transfer.goodput(Ns(2 * MS));
    transfer.holes.set(1 << 3);
    let out_at = transfer.until_bad(1, Ns(3 * MS));
    assert_eq!(transfer.run.bad(), [259]);
    let took = out_at.since(Ns(2 * MS));
    assert!((150 * US..=150 * US + RTT).contains(&took), "its first loss times out after 150 us: {took}");
    // What else was lost on it times out within the round trip in which it was sent.
    transfer.run_until(out_at + 150 * US);
    transfer.used.borrow_mut().clear();
    let after = transfer.goodput(transfer.run.pair.now + MS);
    assert!(after * 100 >= before * 99, "{after} of {before} bytes a millisecond");
    let used = transfer.used.borrow().clone();
    assert!(!used.contains_key(&3) && used.len() == 7);
    let (least, most) = (used.values().min().unwrap(), used.values().max().unwrap());
    assert!(most - least <= 1, "to within one packet a rotation: {used:?}");
    assert_eq!(transfer.run.pair.nics[0].stats().qp_errors.get(), 0);
}

#[test]
fn with_k_values_bad_one_is_back_within_k_probe_periods_and_a_round_trip_after_its_path_heals() {
    for bad in 1..=4 {
        let mut transfer = Transfer::start(by_timer());
        transfer.run_until(Ns(MS));
        transfer.holes.set((1 << bad) - 1);
        transfer.until_bad(bad, Ns(4 * MS));
        // One path heals at a time that has nothing to do with the probes'.
        transfer.run_until(Ns(5 * MS + 37 * US));
        assert_eq!(transfer.run.bad().len(), bad);
        transfer.holes.set(((1 << bad) - 1) & !1);
        let back_at = transfer.until_bad(bad - 1, Ns(8 * MS));
        let state = transfer.run.pair.nics[0].ev_states(transfer.run.pair.address(1)).find(|(ev, _)| *ev == 256);
        assert_eq!(state.map(|(_, state)| state), Some(EvState::Good));
        let took = back_at.since(Ns(5 * MS + 37 * US));
        // The controller of this harness looks every microsecond, at either end of a probe.
        assert!(took <= bad as u64 * 150 * US + RTT + 2 * US, "{bad} bad: back after {took} ns");
    }
}

#[test]
fn at_the_defaults_gaps_find_some_of_the_losses_and_the_black_hole_is_left_all_the_same() {
    let mut transfer = Transfer::start(TransportParams::default());
    transfer.run_until(Ns(MS));
    let before = transfer.goodput(Ns(2 * MS));
    transfer.holes.set(1 << 3);
    transfer.run_until(Ns(3 * MS));
    let after = transfer.goodput(Ns(4 * MS));
    let stats = transfer.run.pair.nics[0].stats();
    assert!(stats.lost_by_gap.get() > 0 && stats.lost_by_timeout.get() > 0);
    assert_eq!((transfer.run.bad(), stats.qp_errors.get()), (vec![259], 0));
    assert!(after * 100 >= before * 99, "{after} of {before} bytes a millisecond");
}
