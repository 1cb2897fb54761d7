//! A scenario under way.

use super::flows::{Done, Traffic};
use super::report::Report;
use super::sample::{Sample, Sampler};
use super::scenario::Scenario;
use super::world::{World, WorldError};
use crate::error::Error;
use crate::records::{RecordCounts, RecordSpec};
use dataplane::Ns;

/// A scenario under way.
pub struct Run {
    scenario: Scenario,
    world: World,
    traffic: Traffic,
    messages: Vec<Done>,
    sampler: Sampler,
}

impl Run {
    /// Builds everything; nothing has happened yet.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn new(mut scenario: Scenario) -> Result<Run, WorldError> {
        let mut world = scenario.world()?;
        let traffic = Traffic::new(&mut world, core::mem::take(&mut scenario.flows), scenario.verify)?;
        let sampler = Sampler::new(&world, &traffic);
        Ok(Run { scenario, world, traffic, messages: Vec::new(), sampler })
    }

    /// Lets time pass to `end`, or to the scenario's end, or until all flows have ended, whichever is first.
    ///
    /// # Errors
    /// [`WorldError`] of a QP that could not be opened.
    pub fn until(&mut self, end: Ns) -> Result<(), WorldError> {
        let messages = &mut self.messages;
        self.traffic.run(&mut self.world, end.min(self.scenario.duration), |_, done| messages.push(done))
    }

    /// Is there nothing left to happen?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.world.now() >= self.scenario.duration || self.traffic.is_done()
    }

    /// Records what the NICs do, before anything has happened.
    ///
    /// # Errors
    /// [`Error::Usage`] names what cannot be written.
    pub fn record(&mut self, spec: &RecordSpec) -> Result<(), Error> {
        self.world.record(spec)
    }

    /// Ends the records of the NICs.
    ///
    /// # Errors
    /// [`Error::Failure`], when something could not be written.
    pub fn finish_records(&mut self) -> Result<Option<RecordCounts>, Error> {
        self.world.finish_records()
    }

    /// What happened since the last sample.
    pub fn sample(&mut self) -> Sample {
        self.sampler.take(&self.world, &self.traffic)
    }

    /// The scenario; its flows are in [`Run::traffic`] now.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The NICs and the fabric.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// The flows.
    #[must_use]
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The messages that are done.
    #[must_use]
    pub fn messages(&self) -> &[Done] {
        &self.messages
    }

    /// What has become of everything, with the time that it took on a clock, in seconds.
    #[must_use]
    pub fn report(&self, wall_s: f64) -> Report {
        Report::new(self, wall_s)
    }
}
