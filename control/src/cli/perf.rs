//! `mrcnic perf`.

use super::bench::size;
use super::config::{load_with, warn};
use super::output::standard_output;
use super::signal;
use crate::config::{Setup, Switches};
use crate::error::{Error, say};
use crate::host::{DeviceFile, ExchangeAddress, Patience};
use crate::perf::{self, Asked, Mode, Nic, Options, PORT, Report, Until, Watcher};
use dataplane::congestion::profile::CcConfig;
use dataplane::time::MS;
use dataplane::transport::{MESSAGE_MAX, RETRY_FOREVER, TransportParams};
use std::io::Write;
use std::path::PathBuf;

/// What may be in flight where nothing is said of it: shared memory takes no more without waiting.
const WINDOW_BYTES: u64 = 128 * 1024;
/// QPs wait longer where four threads may share a core, and they give up after 2.6 s where nothing else is said.
const PATIENCE: Patience = Patience { ack_timeout_ns: 5 * MS, linear: 3, exponential: 7 };
/// The sizes of --all.
const ALL: std::ops::RangeInclusive<u32> = 1..=23;

/// Measure Writes between two processes: a server, and a client that names it
///
/// Without --config both run on this machine, without root and without hugepages: their NICs meet in shared memory (net_memif). Start
/// `mrcnic perf` in one terminal and `mrcnic perf localhost` in another. What the client measures the server agrees with, unless its own
/// options say otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic perf                                  the server
  mrcnic perf localhost                        bandwidth of Writes of 64 KiB
  mrcnic perf localhost --lat -s 64            latency of 64 bytes, half of there and back
  mrcnic perf localhost -a -n 1000 --verify    sizes from 2 B to 8 MiB, and every byte is checked
  mrcnic perf localhost -b --imm -q 4 --json   both directions, Writes with Immediate, four QPs
  mrcnic perf 10.0.0.1 --config nic.toml       another machine, each with a [device] table (docs/libmrc.md)")]
pub(super) struct Args {
    /// The server: a host, or the path of its UNIX socket (with a / in it); without it this is the server
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// TCP port of the exchange
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Where a server waits: an address, or the path of a UNIX socket [default: 127.0.0.1; with --config all addresses]
    #[arg(long, value_name = "WHERE", conflicts_with = "host")]
    listen: Option<String>,
    /// A server waits for the next client when one has gone
    #[arg(long, conflicts_with = "host")]
    forever: bool,
    /// Bytes of a message, such as 64, 4KiB or 1MiB; several with commas between them [default: 64KiB; with --lat 8]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    size: Vec<usize>,
    /// All powers of two from 2 B to 8 MiB
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// Messages of each QP at each size
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    iters: Option<u64>,
    /// Seconds at each size [default: 2]
    #[arg(short = 'D', long, value_name = "S")]
    duration: Option<f64>,
    /// QPs [default: 1]
    #[arg(short, long, value_name = "N")]
    qp: Option<usize>,
    /// Messages in flight on each QP [default: 128]
    #[arg(short, long, value_name = "N")]
    tx_depth: Option<usize>,
    /// Writes with Immediate, each of which completes a receive at the other end
    #[arg(long)]
    imm: bool,
    /// Both ends send at the same time
    #[arg(short, long)]
    bidirectional: bool,
    /// Measure latency: a message there and one back, half of which is one way
    #[arg(long)]
    lat: bool,
    /// Check every byte at the end of each size
    #[arg(long)]
    verify: bool,
    /// The NIC: its attributes, and its ports and addresses in a table [device] (docs/libmrc.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An attribute in place of the file's, or of the defaults without one, as in qp_manager.mss=1024; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object a measurement to standard output, and everything else to standard error
    #[arg(long)]
    json: bool,
}

impl Args {
    fn sizes(&self) -> Result<Option<Vec<u32>>, Error> {
        if self.all {
            return Ok(Some(ALL.map(|n| 1 << n).collect()));
        }
        let fits = |&size: &usize| match u32::try_from(size) {
            Ok(size) if size <= MESSAGE_MAX => Ok(size),
            _ => Err(Error::Usage(format!("--size {size}: a message has 1 GiB at most"))),
        };
        let sizes = self.size.iter().map(fits).collect::<Result<Vec<_>, _>>()?;
        Ok((!sizes.is_empty()).then_some(sizes))
    }

    fn until(&self) -> Result<Option<Until>, Error> {
        let Some(seconds) = self.duration else { return Ok(self.iters.map(Until::Messages)) };
        if !(0.001..=86_400.0).contains(&seconds) {
            return Err(Error::Usage(format!("--duration {seconds}: give 0.001 to 86400 seconds")));
        }
        Ok(Some(Until::Millis((seconds * 1e3).round() as u64)))
    }

    fn asked(&self) -> Result<Asked, Error> {
        let flag = |given: bool| given.then_some(true);
        Ok(Asked {
            mode: self.lat.then_some(Mode::Latency),
            immediate: flag(self.imm),
            bidirectional: flag(self.bidirectional),
            sizes: self.sizes()?,
            qps: self.qp,
            depth: self.tx_depth,
            until: self.until()?,
            verify: flag(self.verify),
        })
    }

    /// Where a server waits, and what a client connects to.
    fn addresses(&self) -> Result<(ExchangeAddress, Option<ExchangeAddress>), Error> {
        let address = |host: &str| -> Result<ExchangeAddress, Error> {
            // An IPv6 address stands in brackets before a port.
            let text = match host {
                path if path.contains('/') => path.to_owned(),
                v6 if v6.parse::<std::net::Ipv6Addr>().is_ok() => format!("[{v6}]:{}", self.port),
                host => format!("{host}:{}", self.port),
            };
            text.parse().map_err(Error::Usage)
        };
        let usual = if self.config.is_some() { "0.0.0.0" } else { "127.0.0.1" };
        Ok((address(self.listen.as_deref().unwrap_or(usual))?, self.host.as_deref().map(address).transpose()?))
    }

    /// The NIC of the file; without one, one of its own, whose patience and window are fit for shared memory unless an option sets them.
    fn nic(&self) -> Result<(Nic, Option<Patience>), Error> {
        let loaded = load_with(self.config.as_deref(), &self.set)?;
        warn(&loaded.warnings(Switches::default()));
        if let Some(path) = &self.config {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|e| Error::Usage(format!("can't read {name}: {e}")))?;
            return Ok((Nic::File(Box::new(DeviceFile::read_with(&text, &name, &self.set)?)), None));
        }
        let mut setup = loaded.config.setup();
        if !self.set.iter().any(|set| set.trim_start().starts_with("nscc.")) {
            setup.nic.congestion = CcConfig::Fixed { bytes: WINDOW_BYTES };
        }
        let patience = patience(&setup);
        Ok((Nic::Local(Box::new(setup)), Some(patience)))
    }
}

/// What an option sets counts; else it is that of this command.
fn patience(setup: &Setup) -> Patience {
    let (own, usual) = (setup.nic.transport, TransportParams::default());
    let timed = own.initial_ack_timeout_ns != usual.initial_ack_timeout_ns;
    let counted = own.exponential_retry_count != RETRY_FOREVER || own.linear_retry_count != usual.linear_retry_count;
    let given = Patience::of(&own);
    Patience {
        ack_timeout_ns: if timed { given.ack_timeout_ns } else { PATIENCE.ack_timeout_ns },
        linear: if counted { given.linear } else { PATIENCE.linear },
        exponential: if counted { given.exponential } else { PATIENCE.exponential },
    }
}

/// Where lines and reports go.
struct Output {
    json: bool,
}

impl Watcher for Output {
    fn says(&mut self, line: &str) {
        if self.json {
            return say(line);
        }
        let mut out = standard_output(true);
        // Nobody who reads it: the measurement goes on.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    fn measured(&mut self, report: &Report) -> Result<(), Error> {
        let mut out = standard_output(true);
        if self.json {
            serde_json::to_writer(&mut out, report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            report.print(&mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let (listen, connect) = args.addresses()?;
    let (nic, patience) = args.nic()?;
    let options = Options { connect, listen, asked: args.asked()?, nic, patience, forever: args.forever };
    if options.connect.is_some() {
        options.asked.settle().check().map_err(Error::Usage)?;
    }
    let interrupted = signal::interrupted()?;
    perf::run(&options, &interrupted, &mut Output { json: args.json })
}
