//! The `mrcnic` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    control::cli::run(std::env::args_os())
}
