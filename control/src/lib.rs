//! Control side of mrcnic: records, and what else is not on the data path.

pub mod records;
