//! The `mrcnic` command.
fn main() {}
