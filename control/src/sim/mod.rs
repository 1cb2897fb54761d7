//! Virtual time: many NICs over a fabric in software, with controllers, and one seed for one history.

mod flows;
mod world;

pub use flows::{Done, Flow, FlowReport, Traffic};
pub use world::{Completed, Link, World, WorldError};
