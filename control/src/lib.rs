//! Control side of mrcnic: the `mrcnic` command, records, and what else is not on the data path.

pub mod bench;
pub mod cli;
pub mod config;
pub mod controller;
pub mod error;
mod field;
mod file;
pub mod host;
pub mod neighbour;
mod pattern;
pub mod perf;
pub mod records;
pub mod replay;
pub mod report;
pub mod run;
pub mod sim;
mod text;
pub mod top;
mod units;
