//! What is read from and written to files.

pub mod capture;
