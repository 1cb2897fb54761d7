//! `mrcnic ctl`.

use super::output::standard_output;
use crate::controller::{Request, ask};
use crate::error::Error;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Ask a running NIC, over its UNIX socket
///
/// A NIC listens when it was started with --ctl PATH. Answers are JSON.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The NIC's socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Which NIC of the process
    #[arg(long, value_name = "NAME", default_value = "a")]
    nic: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// NICs, denials and probes
    Status,
    /// Entropy values
    #[command(subcommand)]
    Ev(Ev),
    /// Probe a path
    Probe {
        /// To whom
        destination: IpAddr,
        /// On which entropy value
        #[arg(long, value_parser = entropy_value)]
        ev: u32,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Ev {
    /// All values, their states, and the packets that took them
    List,
    /// Use a value no more
    Deny {
        /// The value, decimal or 0x hexadecimal
        #[arg(value_parser = entropy_value)]
        ev: u32,
        /// Towards this address only
        #[arg(long, value_name = "ADDRESS")]
        to: Option<IpAddr>,
    },
    /// Lift a denial
    Allow {
        /// The value, decimal or 0x hexadecimal
        #[arg(value_parser = entropy_value)]
        ev: u32,
        /// Towards this address only
        #[arg(long, value_name = "ADDRESS")]
        to: Option<IpAddr>,
    },
}

fn entropy_value(text: &str) -> Result<u32, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = hexadecimal.map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    value.map_err(|_| "an entropy value has 32 bits: give a decimal number, or 0x and hexadecimal digits".into())
}

impl Args {
    fn request(&self) -> Request {
        let nic = self.nic.clone();
        match self.what {
            What::Status => Request::Status {},
            What::Ev(Ev::List) => Request::EvList { nic },
            What::Ev(Ev::Deny { ev, to }) => Request::EvDeny { nic, destination: to, ev, denied: true },
            What::Ev(Ev::Allow { ev, to }) => Request::EvDeny { nic, destination: to, ev, denied: false },
            What::Probe { destination, ev } => Request::Probe { nic, destination, ev },
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let answer = ask(&args.socket, &args.request())?;
    let mut out = standard_output(false);
    writeln!(out, "{answer}")?;
    out.flush()?;
    Ok(())
}
