//! Virtual time: many NICs over a fabric in software, with controllers, and one seed for one history; and the files that say what happens.

mod fault_file;
mod flows;
mod nic_config;
mod nic_file;
mod pattern;
pub mod plan_file;
#[cfg(test)]
mod plan_file_tests;
mod plot;
mod records;
mod report;
mod run;
mod sample;
mod scenario;
#[cfg(test)]
mod scenario_tests;
mod ways;
mod world;

use crate::{file, units};

pub use crate::file::FileError;
pub use crate::units::{Rate, Share, Size, Time};
pub use flows::{Done, Flow, FlowReport, Traffic};
pub use pattern::{FLOWS_MAX, MEMORY_MAX};
pub use plan_file::PlanFile;
pub use plot::Plot;
pub use records::Records;
pub use report::{FlowRow, LinkRow, Report, Times};
pub use run::Run;
pub use sample::{EvSample, FlowSample, LinkSample, Sample};
pub use scenario::{Beside, Scenario};
pub use world::{Completed, Link, World, WorldError};
