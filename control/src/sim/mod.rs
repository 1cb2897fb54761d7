//! Virtual time: many NICs over a fabric in software, with controllers, and one seed for one history; and the files that say what happens.

mod fault_file;
mod file;
mod flows;
pub mod plan_file;
#[cfg(test)]
mod plan_file_tests;
mod units;
mod world;

pub use file::FileError;
pub use flows::{Done, Flow, FlowReport, Traffic};
pub use plan_file::PlanFile;
pub use units::{Rate, Share, Size, Time};
pub use world::{Completed, Link, World, WorldError};
