//! `mrcnic replay`: a capture through the NIC.

use super::output::standard_output;
use super::signal;
use crate::error::Error;
use crate::error::say;
use crate::replay::{self, MORE_PORTS, Options, Rate, replay};
use dataplane::transport::MPR_MAX;
use std::path::PathBuf;

/// Arguments of `mrcnic replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic replay trace.pcap
  mrcnic replay trace.pcapng --out answers.pcap && mrcnic decode answers.pcap
  mrcnic replay trace.pcap --loop 1000 --rate 1M --json | jq .packets_per_s")]
pub(super) struct Args {
    /// The capture: pcap or pcapng, of Ethernet frames
    file: PathBuf,
    /// Write the NIC's answers to this file, a pcap
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Send the capture through N times; PSNs repeat, so that later rounds are duplicates
    #[arg(long = "loop", value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value_t = 1)]
    rounds: u64,
    /// Packets a second, as in 500, 10k or 1.5Mpps; as fast as possible without it
    #[arg(long)]
    rate: Option<Rate>,
    /// MaxPSNRange: how many PSNs beyond the cumulative ACK are taken
    #[arg(long, value_name = "PSNS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MPR_MAX)), default_value_t = 1024)]
    window: u32,
    /// UDP destination port that carries MRC, besides 4791 and 4971; give it up to twice
    #[arg(long = "port", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
}

/// Replays a capture. The report goes to standard output, warnings to standard error. Ctrl-C ends it early, with a report.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    if args.ports.len() > MORE_PORTS {
        let given = args.ports.len();
        return Err(Error::Usage(format!(
            "--port is given {given} times, and {MORE_PORTS} ports can be told apart at most, besides 4791 and 4971"
        )));
    }
    let options = Options {
        file: args.file.clone(),
        out: args.out.clone(),
        rounds: args.rounds,
        rate: args.rate,
        window: args.window,
        ports: args.ports.clone(),
    };
    let interrupted = signal::interrupted()?;
    let report = replay(&options, &interrupted)?;
    for warning in report.warnings() {
        say(&format!("warning: {warning}"));
    }
    let mut out = standard_output(false);
    if args.json { report.write_json(&mut *out) } else { report.write_text(&mut *out) }?;
    Ok(out.flush()?)
}

impl From<replay::Error> for Error {
    fn from(error: replay::Error) -> Error {
        let text = error.to_string();
        if error.is_usage() { Error::Usage(text) } else { Error::Failure(text) }
    }
}
