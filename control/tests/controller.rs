//! The controller over two NICs in virtual time: values that time out, probes, and values that come back.

use control::controller::{Command, ControlEnd, Controller, PROBE_PERIOD, WorkerEnd, link};
use dataplane::Ns;
use dataplane::nic::{EvState, NicParams};
use dataplane::path::SprayingParams;
use dataplane::time::{MS, US};
use dataplane::transport::TransportParams;
use dataplane::wire::Opcode;
use mrcnic_tests::{Channel, Fate, Pair};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A pair whose NIC 0 has a controller.
struct Controlled {
    pair: Pair,
    controller: Controller,
    worker: WorkerEnd,
    control: ControlEnd,
}

impl Controlled {
    fn new(params: NicParams, bytes: usize) -> Controlled {
        let spraying = SprayingParams { assumed_bad_ns: None, ..params.spraying };
        let pair = Pair::new(NicParams { spraying, ..params }, bytes, Channel::default(), 1);
        let (worker, control) = link(None);
        Controlled { pair, controller: Controller::new(PROBE_PERIOD, 1, 1), worker, control }
    }

    /// Lets time pass; the controller looks every microsecond, which is finer than anything that it does.
    fn run_until(&mut self, end: Ns) {
        while self.pair.now < end {
            self.pair.run_for(US);
            self.exchange();
            while let Some(event) = self.control.poll() {
                self.controller.on_event(self.pair.now, 0, event);
            }
            self.controller.on_time(self.pair.now);
            while let Some(command) = self.controller.poll_command() {
                self.control.ask(command).unwrap();
            }
            self.exchange();
        }
    }

    fn exchange(&mut self) {
        self.worker.exchange(self.pair.now, &mut self.pair.nics[0]);
    }

    fn bad(&self) -> Vec<u32> {
        let states = self.pair.nics[0].ev_states(self.pair.address(1));
        states.filter(|(_, state)| *state == EvState::AssumedBad).map(|(ev, _)| ev).collect()
    }
}

#[test]
fn ev_probes_go_to_each_of_three_bad_values_every_450_us_and_a_lost_one_leaves_its_value_out() {
    let mut run = Controlled::new(NicParams::default(), 1 << 20);
    let qp = run.pair.connect(0);
    // Three values are black holes until 5 ms.
    let holes: Rc<RefCell<Vec<u32>>> = Rc::default();
    let probes: Rc<RefCell<Vec<(Ns, u32)>>> = Rc::default();
    let (chosen, seen) = (holes.clone(), probes.clone());
    run.pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 1 {
            return Fate::Pass;
        }
        let mut holes = chosen.borrow_mut();
        if packet.bth.opcode == Opcode::Probe {
            seen.borrow_mut().push((now, packet.ev()));
        } else if holes.len() < 3 && !holes.contains(&packet.ev()) {
            holes.push(packet.ev());
        }
        if now < Ns(5 * MS) && holes.contains(&packet.ev()) { Fate::Drop } else { Fate::Pass }
    }));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 64 * 1024)).unwrap();
    run.run_until(Ns(4 * MS));
    assert_eq!(run.bad().len(), 3);
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for &(at, ev) in probes.borrow().iter() {
        times.entry(ev).or_default().push(at.micros());
    }
    assert_eq!(times.len(), 3);
    for times in times.values() {
        assert!(times.len() >= 8);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 450), "{times:?}");
    }
    // The paths heal: within 3 x 150 us and a round trip all values are back, and probing stops.
    run.run_until(Ns(5 * MS + 455 * US));
    assert!(run.bad().is_empty());
    assert_eq!(run.controller.next_wake(), None);
    let sent = run.controller.probes();
    run.run_until(Ns(8 * MS));
    assert_eq!(run.controller.probes(), sent);
    assert_eq!(run.pair.completions[0].len(), 1);
}

#[test]
fn ev_states_keep_a_black_hole_out_of_the_rotation_and_the_others_carry_equal_shares() {
    // Eight values, each a path; one is black-holed from 200 us on.
    let spraying = SprayingParams { entropy_mask_bits: 3, ..SprayingParams::default() };
    // SACK gaps say nothing of a path, and would repair every loss before its timer runs out: here the timers find them.
    let transport = TransportParams { sack_loss_min_retx_pkts: 1023, ..TransportParams::default() };
    let params = NicParams { spraying, transport, ..NicParams::default() };
    let mut run = Controlled::new(params, 1 << 20);
    let qp = run.pair.connect(0);
    let counts: Rc<RefCell<BTreeMap<u32, u32>>> = Rc::default();
    let (counted, counting) = (counts.clone(), Rc::new(Cell::new(false)));
    let on = counting.clone();
    run.pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 0 && packet.bth.opcode.is_data() && on.get() {
            *counted.borrow_mut().entry(packet.ev()).or_default() += 1;
        }
        if from == 0 && packet.ev() == 259 && now > Ns(200 * US) { Fate::Drop } else { Fate::Pass }
    }));
    for id in 0..400 {
        run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(id, 0, 0, 256 * 1024)).unwrap();
    }
    run.run_until(Ns(200 * US));
    assert!(run.bad().is_empty());
    // The first timeout of the value comes 150 us after its first loss.
    run.run_until(Ns(360 * US));
    assert_eq!(run.bad(), [259]);
    counting.set(true);
    run.run_until(Ns(600 * US));
    let counts = counts.borrow();
    assert!(!counts.contains_key(&259));
    assert_eq!(counts.len(), 7);
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(most - least <= 1, "equal to within one packet a rotation: {counts:?}");
    assert_eq!(run.pair.nics[0].stats().qp_errors.get(), 0);
}

#[test]
fn a_value_that_the_controller_denies_is_unused_from_then_on() {
    let mut run = Controlled::new(NicParams::default(), 1 << 20);
    let qp = run.pair.connect(0);
    let peer = run.pair.address(1);
    let (denied, _) = run.pair.nics[0].ev_states(peer).next().unwrap();
    assert!(run.controller.deny(Some(peer), denied, true));
    run.run_until(Ns(2 * US));
    let used: Rc<RefCell<Vec<u32>>> = Rc::default();
    let seen = used.clone();
    run.pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 {
            seen.borrow_mut().push(packet.ev());
        }
        Fate::Pass
    }));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 1 << 20)).unwrap();
    run.run_until(Ns(MS));
    assert_eq!(used.borrow().len(), 256);
    assert!(!used.borrow().contains(&denied));
    assert_eq!(run.controller.poll_command(), None::<Command>);
}

#[test]
fn probing_forgets_a_destination_without_an_open_qp() {
    let transport = TransportParams { exponential_retry_count: 0, linear_retry_count: 1, ..TransportParams::default() };
    let mut run = Controlled::new(NicParams { transport, ..NicParams::default() }, 4096);
    let qp = run.pair.connect(0);
    run.pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 64)).unwrap();
    run.run_until(Ns(MS));
    assert_eq!(run.pair.completions[0].len(), 1);
    let now = run.pair.now;
    assert!(run.pair.nics[0].close(now, qp.qpn[0]));
    run.run_until(Ns(2 * MS));
    assert_eq!(run.controller.suspects(run.pair.address(1)).count(), 0);
    assert_eq!(run.controller.next_wake(), None);
}
