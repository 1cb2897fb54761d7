//! Two NICs in virtual time, of which one has a controller.

use control::controller::{ControlEnd, Controller, PROBE_PERIOD, WorkerEnd, link};
use dataplane::Ns;
use dataplane::nic::{EvState, NicParams};
use dataplane::path::SprayingParams;
use dataplane::time::US;
use mrcnic_tests::{Channel, Pair};

/// A pair whose NIC 0 has a controller.
pub(crate) struct Controlled {
    pub(crate) pair: Pair,
    pub(crate) controller: Controller,
    worker: WorkerEnd,
    control: ControlEnd,
}

impl Controlled {
    pub(crate) fn new(planes: u8, params: NicParams, bytes: usize, channel: Channel) -> Controlled {
        let spraying = SprayingParams { assumed_bad_ns: None, ..params.spraying };
        let pair = Pair::in_planes(planes, true, NicParams { spraying, ..params }, bytes, channel, 1);
        let (worker, control) = link(None);
        Controlled { pair, controller: Controller::new(PROBE_PERIOD, 1, planes), worker, control }
    }

    /// Lets time pass; the controller looks every microsecond, which is finer than anything that it does.
    pub(crate) fn run_until(&mut self, end: Ns) {
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

    pub(crate) fn bad(&self) -> Vec<u32> {
        let states = self.pair.nics[0].ev_states(self.pair.address(1));
        states.filter(|(_, state)| *state == EvState::AssumedBad).map(|(ev, _)| ev).collect()
    }
}
