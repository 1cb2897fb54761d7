//! `mrcnic completions`.

use super::output::standard_output;
use crate::error::Error;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `mrcnic completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic completions bash > ~/.local/share/bash-completion/completions/mrcnic
  mrcnic completions zsh > ~/.zfunc/_mrcnic
  mrcnic completions fish > ~/.config/fish/completions/mrcnic.fish")]
pub(super) struct Args {
    /// The shell that is to complete `mrcnic`
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script to standard output.
pub(super) fn run(args: &Args, mut command: clap::Command) -> Result<(), Error> {
    // By way of memory: the generator panics where its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mrcnic", &mut script);
    let mut out = standard_output(false);
    out.write_all(&script)?;
    Ok(out.flush()?)
}
