//! `mrcnic bench`.

use super::config::{load_with, warn};
use super::ctl::read_profile;
use super::output::standard_output;
use super::records::RecordArgs;
use super::signal;
use crate::bench::{self, FabricOptions, Link, Op, Options, Spraying, Watcher};
use crate::config::{Loaded, Setup, SprayingType, Switches};
use crate::controller::metrics::MetricsAddress;
use crate::controller::{PROBE_PERIOD, ProfileSpec};
use crate::error::Error;
use crate::sim::{Rate, plan_file};
use bytesize::ByteSize;
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::dpdk::{Impairments, PortSpec};
use dataplane::nic::{NicParams, RATE_MAX as PACING_MAX};
use dataplane::path::profile::PLANES_MAX;
use dataplane::time::US;
use dataplane::transport::{MESSAGE_MAX, SEND_QUEUE_MAX, TransportParams};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `InitialAckTimeout` in us where nothing is lost but by a worker that is kept from its core, which a longer one waits for.
const ACK_TIMEOUT_US: u64 = 1_000;
/// Where the last of a round may be lost on purpose, which timers alone find.
const LOSSY_ACK_TIMEOUT_US: u64 = 300;
/// Where a fabric in software shares cores with what it joins.
const FABRIC_ACK_TIMEOUT_US: u64 = 2_000;
/// Where many QPs fill the window with small packets, which take long to pass it.
const QPS_ACK_TIMEOUT_US: u64 = 5_000;

/// `SACKLossMinRetxPkts` where nothing is overtaken: a window of the bench holds fewer packets than the usual 512, by which no loss would be
/// found.
const LOSS_DEPTH: u32 = 8;

/// Measure Writes between two NICs, and check every byte
///
/// Without options the two NICs are joined by DPDK's net_ring in this process: no hardware, no root and no hugepages are needed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What each message is
    #[arg(long, value_enum, value_name = "OP", default_value_t = Op::Write)]
    op: Op,
    /// Message sizes, such as 64, 4KiB or 1MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64,512,4096,65536,1048576", value_parser = size)]
    sizes: Vec<usize>,
    /// Seconds of sending at each size
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// QPs of each requester
    #[arg(long, value_name = "N", default_value_t = 1)]
    qps: usize,
    /// Writes in flight on each QP
    #[arg(long, value_name = "N", default_value_t = 128)]
    depth: usize,
    /// Writes posted on a QP before it is the next one's turn
    #[arg(long, value_name = "N", default_value_t = 16)]
    post_list: usize,
    /// What joins the NICs: net_ring, or net_null to bench one NIC without a peer
    #[arg(long, value_name = "VDEV", default_value = "net_ring", conflicts_with = "port")]
    vdev: String,
    /// A DPDK port, given twice: vdev strings or PCI addresses of two ports that reach each other
    #[arg(long, value_name = "PORT", num_args = 1)]
    port: Vec<String>,
    /// Ports of each NIC, 1 to 8, each in a plane of its own: as many pairs of net_ring ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(PLANES_MAX)))]
    planes: u8,
    /// Put a fabric between the NICs: the [fabric] and [[fault]] of a TOML file, of two NICs; faults count from the first frame
    #[arg(long, value_name = "FILE", conflicts_with_all = ["planes", "port"])]
    fabric: Option<PathBuf>,
    /// How packets are spread over paths [default: default; with --fabric: over all its paths, evenly]
    #[arg(long, value_enum, value_name = "HOW")]
    spraying: Option<Spraying>,
    /// An EV profile for all QPs, in TOML; structured and SRv6 ones imply --ipv6
    #[arg(long, value_name = "FILE", conflicts_with = "spraying")]
    ev_profile: Option<PathBuf>,
    /// Give the QPs IPv6 addresses
    #[arg(long)]
    ipv6: bool,
    /// Workers in all: 1 drives both NICs, else half of them drive each
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// A core for each worker, such as 0,1; workers may share one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Option<Vec<usize>>,
    /// Share of received frames to lose on purpose, 0 to 1, on both NICs
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    loss: f64,
    /// Share of received frames that come twice
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    duplicate: f64,
    /// Share of received frames that later ones overtake
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    reorder: f64,
    /// Share of received frames that are trimmed, as by a switch, if they are data
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    trim: f64,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Registered memory of each side
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size)]
    memory: usize,
    /// The NICs' configuration, as `mrcnic config` reads it; what other options say goes before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An attribute of that configuration, or of the defaults without one, as in qp_manager.mss=1024; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How what may be in flight to a destination is found [default: fixed; with --config or --set nscc, as those have it]
    #[arg(long, value_enum)]
    congestion: Option<Congestion>,
    /// What may be in flight to a destination, with --congestion fixed [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    window: Option<usize>,
    /// Microseconds of a round trip without load, with --congestion nscc (ConfigBaseRTT) [default: 6]
    #[arg(long, value_name = "US", requires = "congestion", value_parser = clap::value_parser!(u64).range(1..=8_000_000))]
    base_rtt: Option<u64>,
    /// Rate that each port keeps to, as if it were a link of that rate, as in 10Gbps [default: as fast as it is]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    link_rate: Option<u64>,
    /// Microseconds that an acknowledgement may take at first [default: 1000, or as --config has it; with --loss and its like 300, with several QPs
    /// 5000, with --fabric 2000]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=8_000_000))]
    ack_timeout: Option<u64>,
    /// PSNs by which those that arrived are ahead of one that did not before it counts as lost (SACKLossMinRetxPkts) [default: 8 where nothing
    /// overtakes anything; else 512, or as --config has it]
    #[arg(long, value_name = "PSNS", value_parser = clap::value_parser!(u32).range(1..))]
    loss_depth: Option<u32>,
    /// Payload of a packet in bytes [default: 4096, or what the ports carry, or as --config has it]
    #[arg(long, value_name = "BYTES")]
    mss: Option<u32>,
    /// Measure on the same cores what driver and machine allow, too: the same frames over the same rings without MRC, and a round trip. It doubles
    /// the time
    #[arg(long, conflicts_with_all = ["port", "fabric", "planes"])]
    anchors: bool,
    /// Copy payload into frames, where a port could also send it from where it lies
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    records: RecordArgs,
    /// Turns without work after which a worker yields its core; 0 never
    #[arg(long, value_name = "N", default_value_t = 64)]
    idle_polls: u32,
    /// Listen on this UNIX socket for `mrcnic ctl`, which calls the NICs a (it writes) and b
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// Serve metrics for Prometheus over HTTP at ADDR:PORT of this machine alone, at public:ADDR:PORT, or at unix:PATH
    #[arg(long, value_name = "WHERE")]
    metrics: Option<MetricsAddress>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The constant window where nothing is said.
const WINDOW_BYTES: usize = 128 * 1024;

/// How windows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Congestion {
    /// A constant window
    Fixed,
    /// NSCC, by round-trip times, marks and trimmed packets
    Nscc,
    /// No limit but the PSN window
    None,
}

/// Bits a second, with a unit.
fn rate(text: &str) -> Result<u64, String> {
    match text.parse::<Rate>() {
        Ok(Rate(rate)) if rate <= PACING_MAX => Ok(rate),
        Ok(_) => Err("a port keeps to 8Tbps at most".into()),
        Err(why) => Err(format!("it {why}, as in 10Gbps")),
    }
}

/// Bytes, with or without a unit.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let bytes =
        text.parse::<ByteSize>().map_err(|_| "give bytes, or a number with KB, KiB, MB, MiB or GiB".to_owned())?;
    usize::try_from(bytes.as_u64()).map_err(|_| "too large for this machine".into())
}

impl Args {
    fn options(&self) -> Result<Options, Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if let Some(size) = self.sizes.iter().find(|&&size| size > MESSAGE_MAX as usize) {
            return usage(format!("--sizes {size}: a message has 1 GiB at most"));
        }
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            return usage(format!("--seconds {}: give more than 0 and at most 86400", self.seconds));
        }
        let impairments = Impairments {
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            trim: self.trim,
            ..Impairments::default()
        };
        // What is wrong is named as the option is.
        impairments.validate().map_err(|e| Error::Usage(format!("--{e}")))?;
        if self.depth == 0 || self.depth > SEND_QUEUE_MAX {
            return usage(format!("--depth {}: give 1 to {SEND_QUEUE_MAX}", self.depth));
        }
        if self.post_list == 0 {
            return usage("--post-list 0: a QP gets one Write at least in its turn".into());
        }
        if self.qps == 0 {
            return usage("--qps 0: at least one QP is needed".into());
        }
        let link = self.link()?;
        if matches!(link, Link::Null(_)) && (self.qps != 1 || !impairments.is_none()) {
            return usage(
                "net_null has no other end: --qps, --loss, --duplicate, --reorder and --trim do not go with it".into(),
            );
        }
        if matches!(link, Link::Null(_)) && self.op != Op::Write {
            return usage(format!("net_null has no other end: --op {} does not go with it", self.op.name()));
        }
        self.check_planes(&link)?;
        let profile = self.ev_profile.as_deref().map(read_profile).transpose()?;
        let mut profiles = profile.map(|profile| [profile.clone(), profile]);
        let fabric = self.fabric.as_deref().map(|file| self.fabric(file, &link, &mut profiles)).transpose()?;
        let setup = self.configuration()?.map(|loaded| loaded.config.setup());
        let usual_timeout = TransportParams::default().initial_ack_timeout_ns;
        let own_timeout = setup.as_ref().map(|setup| setup.nic.transport.initial_ack_timeout_ns);
        let own_timeout = own_timeout.filter(|&ns| ns != usual_timeout);
        let ack_timeout = self.ack_timeout.map(|us| us * US).or(own_timeout);
        let usual_us = match (&fabric, self.qps) {
            (Some(_), _) => FABRIC_ACK_TIMEOUT_US,
            (None, 1) if impairments.is_none() => ACK_TIMEOUT_US,
            (None, 1) => LOSSY_ACK_TIMEOUT_US,
            (None, _) => QPS_ACK_TIMEOUT_US,
        };
        let usual = NicParams { merge_sacks: true, ..NicParams::default() };
        let mut base = setup.as_ref().map_or(usual, |setup| setup.nic);
        let in_order = setup.is_none() && fabric.is_none() && self.keeps_order(&link);
        if let Some(depth) = self.loss_depth.or(in_order.then_some(LOSS_DEPTH)) {
            base.transport.sack_loss_min_retx_pkts = depth;
        }
        let own_mss = setup.as_ref().map(|_| base.transport.mss).filter(|&mss| mss != TransportParams::default().mss);
        let own_spraying = setup.as_ref().map(|setup| match setup.spraying {
            SprayingType::None => Spraying::None,
            SprayingType::Default => Spraying::Default,
        });
        Ok(Options {
            op: self.op,
            sizes: self.sizes.clone(),
            duration: Duration::from_secs_f64(self.seconds),
            qps: self.qps,
            depth: self.depth,
            post_list: self.post_list,
            link,
            planes: fabric.as_ref().map_or(Ok(self.planes), |fabric| bench::planes(&fabric.plan))?,
            spraying: self.spraying.or(own_spraying).unwrap_or(Spraying::Default),
            ipv6: self.ipv6 || profiles.iter().flatten().any(ProfileSpec::needs_ipv6),
            profiles,
            fabric,
            ack_timeout: Duration::from_nanos(ack_timeout.unwrap_or(usual_us * US)),
            workers: self.workers,
            cores: self.cores.clone(),
            impairments,
            seed: self.seed,
            memory: self.memory,
            congestion: self.congestion(setup.as_ref()),
            base,
            probe_period_ns: setup.as_ref().map_or(PROBE_PERIOD, |setup| setup.probe_period_ns),
            link_rate: self.link_rate,
            mss: self.mss.or(own_mss),
            ctl: self.ctl.clone(),
            records: self.records.spec(setup.map(|setup| setup.records)),
            metrics: self.metrics.clone(),
            idle_polls: self.idle_polls,
            anchors: self.anchors,
            copy: self.copy,
        })
    }

    /// Do frames arrive in the order in which they were sent? One ring between one worker each keeps it.
    fn keeps_order(&self, link: &Link) -> bool {
        matches!(link, Link::Ring)
            && self.planes == 1
            && self.reorder == 0.0
            && self.workers.is_none_or(|count| count <= 2)
    }

    /// The NICs' configuration, if something is said of it.
    fn configuration(&self) -> Result<Option<Loaded>, Error> {
        if self.config.is_none() && self.set.is_empty() {
            return Ok(None);
        }
        let loaded = load_with(self.config.as_deref(), &self.set)?;
        warn(&loaded.warnings(Switches::default()));
        Ok(Some(loaded))
    }

    fn congestion(&self, setup: Option<&Setup>) -> CcConfig {
        let own = setup.map(|setup| setup.nic.congestion);
        match (self.congestion.or(self.window.map(|_| Congestion::Fixed)), own) {
            (None, Some(own)) => own,
            (None, None) | (Some(Congestion::Fixed), _) => {
                CcConfig::Fixed { bytes: self.window.unwrap_or(WINDOW_BYTES) as u64 }
            }
            (Some(Congestion::Nscc), own) => {
                let nscc = if let Some(CcConfig::Nscc(nscc)) = own { nscc } else { NsccParams::default() };
                let base_rtt = self.base_rtt.map_or(nscc.config_base_rtt_ns, |us| us * US);
                CcConfig::Nscc(NsccParams { config_base_rtt_ns: base_rtt, ..nscc })
            }
            (Some(Congestion::None), _) => CcConfig::None,
        }
    }

    /// The fabric of a file; where nothing else was said of paths, its own go into the profiles.
    fn fabric(
        &self,
        file: &Path,
        link: &Link,
        profiles: &mut Option<[ProfileSpec; 2]>,
    ) -> Result<FabricOptions, Error> {
        if !matches!(link, Link::Ring) {
            return Err(Error::Usage("--fabric goes with net_ring only".into()));
        }
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|e| Error::Usage(format!("{name}: {e}")))?;
        let plan = plan_file::read(&text, &name).map_err(|e| Error::Usage(e.to_string()))?.plan;
        bench::planes(&plan)?;
        let mut paths = Vec::new();
        if profiles.is_none() && self.spraying.is_none() {
            let (own, named) = bench::profiles(&plan, self.ipv6)?;
            (*profiles, paths) = (Some(own), named);
        }
        Ok(FabricOptions { plan, paths })
    }

    fn check_planes(&self, link: &Link) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        match link {
            Link::Ring => {}
            _ if self.planes > 1 => return usage(format!("--planes {}: several go with net_ring only", self.planes)),
            Link::Null(_) if self.ev_profile.is_some() || self.ipv6 || self.spraying == Some(Spraying::None) => {
                return usage(
                    "net_null has no other end: --spraying none, --ev-profile and --ipv6 do not go with it".into(),
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn link(&self) -> Result<Link, Error> {
        let spec = |text: &String| text.parse::<PortSpec>().map_err(Error::from);
        match self.port.as_slice() {
            [] => {}
            [a, b] => return Ok(Link::Ports(spec(a)?, spec(b)?)),
            ports => {
                let count = ports.len();
                return Err(Error::Usage(format!("--port was given {count} times: give it twice, once for each NIC")));
            }
        }
        match self.vdev.as_str() {
            "net_ring" => Ok(Link::Ring),
            null if null.starts_with("net_null") => Ok(Link::Null(spec(&self.vdev)?)),
            other => Err(Error::Usage(format!(
                "--vdev {other}: it is net_ring or net_null; two other ports that reach each other are given by --port A --port B"
            ))),
        }
    }
}

/// A bar for each size, on a terminal.
struct Bars {
    bar: ProgressBar,
    index: Option<usize>,
    sizes: usize,
}

impl Bars {
    fn new(sizes: usize, quiet: bool) -> Bars {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{msg:>24} [{bar:32}] {percent:>3}%");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Bars { bar, index: None, sizes }
    }
}

impl Watcher for Bars {
    fn progress(&mut self, index: usize, size: usize, share: f64) {
        if self.index.replace(index) != Some(index) {
            self.bar.set_message(format!("{size} B ({} of {})", index + 1, self.sizes));
        }
        self.bar.set_position((share * 1000.0) as u64);
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let options = args.options()?;
    let interrupted = signal::interrupted()?;
    let mut bars = Bars::new(options.sizes.len(), args.json);
    let report = bench::run(&options, &interrupted, &mut bars)?;
    bars.bar.finish_and_clear();
    let mut out = standard_output(false);
    if args.json {
        serde_json::to_writer(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        report.print(&mut out)?;
    }
    out.flush()?;
    verdict(&options, &report)
}

/// Every byte must be where it belongs, and every Write must have ended well.
fn verdict(options: &Options, report: &bench::Report) -> Result<(), Error> {
    let null = matches!(options.link, Link::Null(_));
    for result in &report.results {
        let why = match &result.fault {
            Some(fault) => fault.clone(),
            None if result.errors > 0 => format!("{} messages failed", result.errors),
            None if !result.verified && !null => "the target does not hold what was written".into(),
            None => continue,
        };
        return Err(Error::Failure(format!("{} B: {why}", result.size)));
    }
    Ok(())
}
