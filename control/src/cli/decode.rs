//! `mrcnic decode`: what a capture holds, one packet a line.

mod json;
mod text;
mod verdict;

use super::output::standard_output;
use crate::error::Error;
use crate::error::say;
use crate::records::capture::{Capture, CapturedPacket, Observations};
use dataplane::wire::{DscpMap, Rules, UDP_PORT, UDP_PORT_ALTERNATE, UDP_PORTS_MAX};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use text::Text;
use verdict::{Icrc, Verdict, judge};

/// Arguments of `mrcnic decode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic decode trace.pcap
  mrcnic decode trace.pcapng --json | jq 'select(.op == \"NACK\")'
  tcpdump -i eth0 -U -w - udp port 4791 | mrcnic decode -")]
pub(super) struct Args {
    /// The capture: pcap or pcapng, of Ethernet frames; `-` reads standard input
    file: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// UDP destination port that carries MRC; give it up to four times
    #[arg(
        long = "port",
        value_name = "N",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..),
        default_values_t = [UDP_PORT, UDP_PORT_ALTERNATE],
    )]
    ports: Vec<u16>,
}

impl Args {
    fn rules(&self) -> Result<Rules, Error> {
        let mut udp_ports = [0; UDP_PORTS_MAX];
        let room = udp_ports.get_mut(..self.ports.len()).ok_or_else(|| {
            let given = self.ports.len();
            Error::Usage(format!("--port is given {given} times, and {UDP_PORTS_MAX} ports can be told apart at most"))
        })?;
        room.copy_from_slice(&self.ports);
        Ok(Rules { udp_ports, dscp: DscpMap::default() })
    }
}

/// Decodes a capture to standard output. What can't be decoded is summed up on standard error.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let rules = args.rules()?;
    let mut capture = Capture::open(&args.file)?;
    let mut out = standard_output(args.file == Path::new("-"));
    let mut summary = Summary::default();
    let done = print_packets(&mut capture, &rules, args.json, &mut *out, &mut summary);
    // What was decoded before an error is not lost, and stands before the error's message.
    out.flush()?;
    done?;
    if !args.json {
        summary.say();
    }
    finish(&capture)
}

fn print_packets(
    capture: &mut Capture,
    rules: &Rules,
    as_json: bool,
    out: &mut dyn Write,
    summary: &mut Summary,
) -> Result<(), Error> {
    let mut text = Text::default();
    let mut line = Vec::new();
    while let Some(captured) = capture.next_packet()? {
        let verdict = judge(&captured, rules);
        line.clear();
        if as_json {
            json::write(&mut line, &captured, &verdict)?;
        } else {
            text.write(&mut line, &captured, &verdict)?;
        }
        line.push(b'\n');
        out.write_all(&line)?;
        summary.count(&captured, &verdict);
    }
    Ok(())
}

/// Tells what the capture as a whole is short of; a cut tail is an error.
fn finish(capture: &Capture) -> Result<(), Error> {
    let &Observations { obsolete_packets, cut_tail, .. } = capture.observations();
    let name = capture.name();
    if obsolete_packets > 0 {
        say(&format!(
            "warning: {name}: {obsolete_packets} packets are in blocks of pcapng's obsolete packet type and were passed over; \
             convert the file with editcap"
        ));
    }
    match cut_tail {
        Some(tail) => Err(Error::Failure(format!("{name}: {tail} (record at byte {})", tail.at))),
        None => Ok(()),
    }
}

/// What the text form ends with.
#[derive(Default)]
struct Summary {
    packets: u64,
    bad_icrc: u64,
    refused: BTreeMap<String, u64>,
}

impl Summary {
    fn count(&mut self, captured: &CapturedPacket<'_>, verdict: &Verdict) {
        self.packets = captured.index + 1;
        match verdict {
            Verdict::Read { icrc, .. } => self.bad_icrc += u64::from(*icrc == Icrc::Wrong),
            Verdict::Refused { kind, .. } => *self.refused.entry(kind.clone()).or_default() += 1,
        }
    }

    fn say(&self) {
        let refused: u64 = self.refused.values().sum();
        if refused == 0 && self.bad_icrc == 0 {
            return;
        }
        let plural = if self.packets == 1 { "" } else { "s" };
        let mut text =
            format!("{} packet{plural}: {} decoded, {refused} refused", self.packets, self.packets - refused);
        if self.bad_icrc > 0 {
            let _ = write!(text, ", {} with a wrong iCRC", self.bad_icrc);
        }
        for (kind, count) in &self.refused {
            let _ = write!(text, "\n  {count:>8}  {kind}");
        }
        say(&text);
    }
}
