//! Control side of mrcnic: the `mrcnic` command, records, and what else is not on the data path.

pub mod cli;
pub mod records;
