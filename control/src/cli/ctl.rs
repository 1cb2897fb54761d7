//! `mrcnic ctl`.

use super::output::standard_output;
use crate::controller::{LinkFault, ProfileSpec, Request, WriteOrder, ask, follow};
use crate::error::Error;
use crate::sim::Rate;
use bytesize::ByteSize;
use dataplane::transport::MESSAGE_MAX;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Ask a running NIC, over its UNIX socket
///
/// A NIC listens when it was started with --ctl PATH, or its file has run.ctl. Answers are JSON.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The NIC's socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Which NIC of the process [default: its first; for events and survey, all]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// NICs with their ports, peers, profiles, denials and probes
    Status,
    /// Entropy values
    #[command(subcommand)]
    Ev(Ev),
    /// EV profiles
    #[command(subcommand)]
    Profile(Profile),
    /// Ports (planes) of the NIC
    #[command(subcommand)]
    Port(Port),
    /// The fabric between the NICs
    #[command(subcommand)]
    Fabric(Fabric),
    /// QPs: their peers, states, what is in flight, and what they did
    Qps,
    /// Counters and gauges of all NICs, as text for Prometheus
    Metrics,
    /// All that there is to see of all NICs, or of the one that --nic names: what `mrcnic top` shows
    Survey,
    /// Send an EV probe, and wait for its answer: is the path alive, and what is its round-trip time?
    Probe {
        /// To whom
        destination: IpAddr,
        /// On which entropy value; whichever comes next without
        #[arg(long, value_parser = number)]
        ev: Option<u32>,
    },
    /// Peers of a NIC that runs: QPs, what they did, and which numbers they have
    Peers,
    /// Write to a peer, and wait until all has completed
    Write(Write),
    /// The last events, a line each: states of entropy values, and ports
    Events {
        /// Go on with those to come, until interrupted
        #[arg(long)]
        follow: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Write {
    /// Name of the peer
    #[arg(long, value_name = "NAME")]
    peer: String,
    /// Length of a message, such as 4096 or 1MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: u64,
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// Where in the local region they are read
    #[arg(long, value_name = "OFFSET", default_value = "0", value_parser = size)]
    local: u64,
    /// Where in the peer's region they are written
    #[arg(long, value_name = "OFFSET", default_value = "0", value_parser = size)]
    remote: u64,
    /// Give each message this immediate data, decimal or 0x hexadecimal
    #[arg(long, value_name = "X", value_parser = number)]
    imm: Option<u32>,
    /// Seconds that all of it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
}

impl Write {
    fn request(&self, nic: String) -> Result<Request, Error> {
        let size = u32::try_from(self.size)
            .map_err(|_| Error::Usage(format!("--size {}: a message has {MESSAGE_MAX} bytes at most", self.size)))?;
        if !(self.timeout > 0.0 && self.timeout <= 86_400.0) {
            return Err(Error::Usage(format!("--timeout {}: give seconds, up to a day", self.timeout)));
        }
        let Write { ref peer, count, local, remote, imm: immediate, timeout, .. } = *self;
        let peer = peer.clone();
        Ok(Request::Write(WriteOrder { nic, peer, size, count, local, remote, immediate, timeout }))
    }
}

/// Bytes, with or without a unit.
fn size(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<ByteSize>().map_err(|_| "give bytes, or a number with KB, KiB, MB, MiB or GiB")?;
    Ok(bytes.as_u64())
}

#[derive(Debug, clap::Subcommand)]
enum Ev {
    /// All values, their states, and the packets that took them
    List,
    /// Use a value no more
    Deny {
        /// The value, decimal or 0x hexadecimal
        #[arg(value_parser = number)]
        ev: u32,
        /// Towards this address only
        #[arg(long, value_name = "ADDRESS")]
        to: Option<IpAddr>,
    },
    /// Lift a denial
    Allow {
        /// The value, decimal or 0x hexadecimal
        #[arg(value_parser = number)]
        ev: u32,
        /// Towards this address only
        #[arg(long, value_name = "ADDRESS")]
        to: Option<IpAddr>,
    },
    /// Put another value into the place of one, in an explicit profile and in all QPs that use it
    Replace {
        /// The value that goes
        #[arg(value_parser = number)]
        current: u32,
        /// The value that comes
        #[arg(value_parser = number)]
        new: u32,
        /// The profile [default: the one that lists CURRENT]
        #[arg(long, value_name = "ID")]
        profile: Option<u64>,
        /// Port of the new value, from 1 [default: that of the old one]
        #[arg(long, value_name = "N")]
        port: Option<u8>,
        /// SRv6 path of the new value [default: that of the old one]
        #[arg(long, value_name = "ADDRESS")]
        segment: Option<Ipv6Addr>,
        /// In every place of the list, and not in the first alone
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Profile {
    /// Create a profile; it is offline then
    Create {
        /// Its number: the NIC draws its values, on all ports
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        id: Option<u64>,
        /// A TOML file that has all of it, its number included
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// One profile with its values, or all in short
    Show {
        /// Its number
        id: Option<u64>,
    },
    /// Let QPs use a profile
    Online {
        /// Its number
        id: u64,
    },
    /// Let no QP use a profile; refused while one does
    Offline {
        /// Its number
        id: u64,
    },
    /// Remove a profile that is offline
    Remove {
        /// Its number
        id: u64,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Port {
    /// Use a port again, once its link is up
    Up {
        /// The port, from 1
        port: u8,
    },
    /// Use a port no more, and tell all peers
    Down {
        /// The port, from 1
        port: u8,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Fabric {
    /// Each direction of each link: its state, and what it did
    Links,
    /// Break a link, or mend it
    Link {
        /// A-B is a link, as in p0.t0.0-p0.t1.3, and A>B one direction of it
        name: String,
        #[command(subcommand)]
        what: OnLink,
    },
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum OnLink {
    /// It goes down, and its ends see it
    Down,
    /// It comes back up
    Up,
    /// It swallows every frame, and looks up
    BlackHole,
    /// It is as planned again
    Heal,
    /// It loses a share of its frames
    Loss {
        /// 0 to 1
        share: f64,
    },
    /// It has another rate
    Rate {
        /// Such as 10Gbps
        #[arg(value_parser = rate)]
        rate: u64,
    },
}

impl Fabric {
    fn request(&self) -> Request {
        let Fabric::Link { name, what } = self else { return Request::FabricLinks {} };
        let fault = match *what {
            OnLink::Down => LinkFault::Down,
            OnLink::Up => LinkFault::Up,
            OnLink::BlackHole => LinkFault::BlackHole,
            OnLink::Heal => LinkFault::Heal,
            OnLink::Loss { share } => LinkFault::Loss(share),
            OnLink::Rate { rate } => LinkFault::Rate(rate),
        };
        Request::FabricLink { link: name.clone(), fault }
    }
}

/// Bits per second, as files have them.
fn rate(text: &str) -> Result<u64, String> {
    let rate = Rate::deserialize(StrDeserializer::<serde::de::value::Error>::new(text));
    rate.map(|rate| rate.0).map_err(|e| e.to_string())
}

fn number(text: &str) -> Result<u32, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = hexadecimal.map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    value.map_err(|_| "it has 32 bits: give a decimal number, or 0x and hexadecimal digits".into())
}

/// Reads an EV profile from a file.
pub(super) fn read_profile(path: &Path) -> Result<ProfileSpec, Error> {
    let wrong = |why: &dyn std::fmt::Display| Error::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
    ProfileSpec::read(&text).map_err(|e| wrong(&format_args!("this is no EV profile: {e}")))
}

impl Args {
    fn request(&self) -> Result<Request, Error> {
        let nic = self.nic.clone().unwrap_or_default();
        Ok(match &self.what {
            What::Status => Request::Status {},
            What::Qps => Request::Qps { nic },
            What::Metrics => Request::Metrics {},
            What::Survey => Request::Survey { nic: self.nic.clone(), qps: true, evs: true },
            What::Ev(ev) => ev.request(nic),
            What::Profile(profile) => profile.request(nic)?,
            &What::Port(Port::Up { port }) => Request::Port { nic, port, up: true },
            &What::Port(Port::Down { port }) => Request::Port { nic, port, up: false },
            What::Fabric(fabric) => fabric.request(),
            &What::Probe { destination, ev } => Request::Probe { nic, destination, ev },
            What::Peers => Request::Peers { nic },
            What::Write(write) => write.request(nic)?,
            &What::Events { follow } => Request::Events { nic: self.nic.clone(), follow },
        })
    }
}

impl Ev {
    const fn request(&self, nic: String) -> Request {
        match *self {
            Ev::List => Request::EvList { nic },
            Ev::Deny { ev, to } => Request::EvDeny { nic, destination: to, ev, denied: true },
            Ev::Allow { ev, to } => Request::EvDeny { nic, destination: to, ev, denied: false },
            Ev::Replace { current, new, profile, port, segment, all } => {
                Request::EvReplace { nic, current, new, profile, port, segment, all }
            }
        }
    }
}

impl Profile {
    fn request(&self, nic: String) -> Result<Request, Error> {
        Ok(match self {
            Profile::Create { file: Some(file), .. } => Request::ProfileCreate { nic, profile: read_profile(file)? },
            Profile::Create { id, .. } => {
                let profile = ProfileSpec { id: id.unwrap_or_default(), ..ProfileSpec::default() };
                Request::ProfileCreate { nic, profile }
            }
            &Profile::Show { id } => Request::ProfileShow { nic, id },
            &Profile::Online { id } => Request::ProfileOnline { nic, id },
            &Profile::Offline { id } => Request::ProfileOffline { nic, id },
            &Profile::Remove { id } => Request::ProfileRemove { nic, id },
        })
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let mut out = standard_output(false);
    match args.request()? {
        // Who follows wants each line at once.
        Request::Events { nic, follow: true } => {
            follow(&args.socket, nic, |line| writeln!(out, "{line}").and_then(|()| out.flush()))?;
        }
        request @ Request::Events { .. } => {
            let answer = ask(&args.socket, &request)?;
            for event in answer["events"].as_array().into_iter().flatten() {
                writeln!(out, "{event}")?;
            }
        }
        request @ Request::Metrics {} => {
            let answer = ask(&args.socket, &request)?;
            write!(out, "{}", answer["text"].as_str().unwrap_or_default())?;
        }
        request => writeln!(out, "{}", ask(&args.socket, &request)?)?,
    }
    out.flush()?;
    Ok(())
}
