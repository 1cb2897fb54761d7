//! The `[run]` table of a NIC's configuration: what `mrcnic run` starts, and whom it knows.

use crate::controller::ProfileSpec;
use crate::controller::metrics::MetricsAddress;
use crate::file::{FileError, Source, Step};
use crate::host::table::{Table, idle_polls, one};
use crate::host::{ExchangeAddress, OFFER_QPS_MAX, Offer, PortTable};
use crate::neighbour::{InterfaceAddress, NeighbourSpec};
use crate::records::{Format, SNAPLEN_MAX};
use crate::units::{Size, Time};
use dataplane::dpdk::PortSpec;
use dataplane::wire::MacAddr;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::LevelFilter;

/// QPs of all peers together at most.
pub const QPS_MAX: usize = 4096;
/// Characters of a name at most.
const NAME_MAX: usize = 64;
/// How long a NIC that goes down waits for what is in flight, where the file does not say.
const DRAIN_NS: u64 = 5_000_000_000;

/// The `[run]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// What operators and peers call this NIC.
    pub name: String,
    /// Workers, each with a queue of each port.
    #[serde(default = "one")]
    pub workers: usize,
    /// A core for each worker; the operating system chooses without.
    #[serde(default)]
    pub cores: Option<Vec<usize>>,
    /// Socket for operators.
    #[serde(default)]
    pub ctl: Option<PathBuf>,
    /// Where peers connect to.
    #[serde(default)]
    pub listen: Option<String>,
    /// Turns without work after which a worker yields its core.
    #[serde(default = "idle_polls")]
    pub idle_polls: u32,
    /// Seed of all that is random; another for each start without.
    #[serde(default)]
    pub seed: Option<u64>,
    /// How long to wait for what is in flight when going down.
    #[serde(default = "drain")]
    pub drain: Time,
    /// How much is logged to standard error; what the command line says without.
    #[serde(default)]
    pub log: Option<LogLevel>,
    /// Where metrics are served over HTTP.
    #[serde(default)]
    pub metrics: Option<String>,
    /// The NIC's number in records.
    #[serde(default)]
    pub node_id: u32,
    /// What is recorded, and where.
    #[serde(default)]
    pub records: RecordsTable,
    /// Its ports.
    #[serde(default)]
    pub port: Vec<PortTable>,
    /// Its addresses.
    pub address: AddressTable,
    /// EV profiles, as `mrcnic ctl profile create --file` takes them.
    #[serde(default)]
    pub profile: Vec<ProfileSpec>,
    /// Memory that peers write, and that is written to them.
    #[serde(default)]
    pub region: Vec<RegionTable>,
    /// Whom it has QPs with.
    #[serde(default)]
    pub peer: Vec<PeerTable>,
}

/// Records. Which there are is up to the attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordsTable {
    /// Their directory.
    pub dir: Option<PathBuf>,
    /// How rows are written.
    pub format: Format,
    /// A file for a capture of the packets that the monitor selects.
    pub capture: Option<PathBuf>,
    /// Bytes of each packet that the capture keeps; all without.
    pub snaplen: Option<u32>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What ends something.
    Error,
    /// And what is amiss.
    Warn,
    /// And peers that come and go.
    Info,
    /// And more.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

/// The NIC's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressTable {
    /// Its IP address, with the prefix of its network where not everybody is on that.
    pub ip: InterfaceAddress,
    /// The router for those that are not.
    #[serde(default)]
    pub gateway: Option<IpAddr>,
    /// Its Ethernet address, where it has one port; that of the port without.
    #[serde(default)]
    pub mac: Option<String>,
    /// VLAN tag control information of its frames, 16 bits.
    #[serde(default)]
    pub vlan: Option<u16>,
}

/// A region of memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionTable {
    /// What it is called in this file.
    pub name: String,
    /// Its size.
    pub size: Size,
    /// A file that it is, shared with who maps it too; memory of the process without.
    #[serde(default)]
    pub file: Option<PathBuf>,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerTable {
    /// The name that it has in its own file.
    pub name: String,
    /// Where to connect to, to exchange QPs; without, it connects to this NIC.
    #[serde(default)]
    pub connect: Option<String>,
    /// Its IP address, where no other is to be taken.
    #[serde(default)]
    pub ip: Option<IpAddr>,
    /// The Ethernet address to send to on each port; the peer's own without.
    #[serde(default)]
    pub next_hop: Option<Vec<String>>,
    /// The region that it writes, and that is written to it.
    pub region: String,
    /// QPs with it.
    #[serde(default = "one")]
    pub qps: usize,
    /// The EV profile of its QPs; without one the attributes say how packets are spread.
    #[serde(default)]
    pub profile: Option<u64>,
    /// Whether the two exchange the numbers of their QPs when they meet; else both files have them.
    #[serde(default = "yes")]
    pub exchange: bool,
    /// What this NIC has for it, to be checked, where nothing is exchanged.
    #[serde(default)]
    pub own: Option<Offer>,
    /// What it has for this NIC, where nothing is exchanged.
    #[serde(default)]
    pub other: Option<Offer>,
}

const fn yes() -> bool {
    true
}

const fn drain() -> Time {
    Time(DRAIN_NS)
}

/// A file of which the `[run]` table alone counts here: the attributes beside it are read elsewhere.
#[derive(Deserialize)]
struct Whole {
    run: Option<RunTable>,
}

/// A `[run]` table that was checked.
#[derive(Clone, Debug)]
pub struct RunFile {
    /// The table as it stands.
    pub table: RunTable,
    /// Its ports.
    pub ports: Vec<PortSpec>,
    /// Where peers connect to.
    pub listen: Option<ExchangeAddress>,
    /// Where metrics are served.
    pub metrics: Option<MetricsAddress>,
    /// Where each peer is connected to, in the order of the file.
    pub connect: Vec<Option<ExchangeAddress>>,
    /// Ethernet addresses to send to, of each peer, for each port; empty where the peer's own are.
    pub next_hops: Vec<Vec<MacAddr>>,
    /// The NIC's own Ethernet address, where the file has one.
    pub mac: Option<MacAddr>,
}

impl RunFile {
    /// Reads the `[run]` table of a file that is called `name` in messages; `None` when it has none.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn read(text: &str, name: &str) -> Result<Option<RunFile>, FileError> {
        let source = Source { text, name };
        let whole: Whole = source.read()?;
        whole.run.map(|table| check(table, source)).transpose()
    }

    /// What the NIC is among its neighbours.
    #[must_use]
    pub fn neighbours(&self) -> NeighbourSpec {
        let AddressTable { ip: address, gateway, vlan, .. } = self.table.address;
        NeighbourSpec { gateway, mac: self.mac, vlan, ..NeighbourSpec::new(address) }
    }
}

fn check(table: RunTable, source: Source<'_>) -> Result<RunFile, FileError> {
    let place = Table { source, name: "run" };
    let wrong = |path: &[Step<'_>], why: String| place.wrong(path, why);
    place.check_name(&table.name, NAME_MAX)?;
    place.check_workers(table.workers, table.cores.as_deref())?;
    let ports = place.ports(&table.port)?;
    let mac = place.own_mac(&["address".into(), "mac".into()], table.address.mac.as_deref(), ports.len())?;
    place.check_gateway(&["address".into(), "gateway".into()], table.address.ip, table.address.gateway)?;
    let address = |path: &[Step<'_>], text: &Option<String>| {
        let parsed = text.as_deref().map(|text| text.parse::<ExchangeAddress>().map_err(|why| wrong(path, why)));
        parsed.transpose()
    };
    let listen = address(&["listen".into()], &table.listen)?;
    let metrics = table.metrics.as_deref().map(|text| text.parse().map_err(|why| wrong(&["metrics".into()], why)));
    let metrics = metrics.transpose()?;
    if table.records.snaplen.is_some_and(|len| len == 0 || len > SNAPLEN_MAX) {
        let path = ["records".into(), "snaplen".into()];
        return Err(wrong(&path, format!("a capture keeps 1 to {SNAPLEN_MAX} bytes of a packet")));
    }
    let mut names = BTreeSet::new();
    for (n, region) in table.region.iter().enumerate() {
        let path = |key| ["region".into(), n.into(), Step::Key(key)];
        if !names.insert(region.name.as_str()) {
            return Err(wrong(&path("name"), format!("there is a region {:?} already", region.name)));
        }
        if region.size.0 == 0 {
            return Err(wrong(&path("size"), "a region has one byte at least".into()));
        }
    }
    let mut peers = BTreeSet::new();
    let (mut connect, mut next_hops, mut qps) = (Vec::new(), Vec::new(), 0);
    for (n, peer) in table.peer.iter().enumerate() {
        let path = |key| ["peer".into(), n.into(), Step::Key(key)];
        if !peers.insert(peer.name.as_str()) {
            return Err(wrong(&path("name"), format!("there is a peer {:?} already", peer.name)));
        }
        if peer.name == table.name {
            return Err(wrong(&path("name"), "is the name of this NIC: give the peer's".into()));
        }
        if !names.contains(peer.region.as_str()) {
            return Err(wrong(&path("region"), no_region(&peer.region, &names)));
        }
        if let Some(id) = peer.profile
            && table.profile.iter().all(|profile| profile.id != id)
        {
            let why = format!("there is no EV profile {id}: give a table [[run.profile]] with this id");
            return Err(wrong(&path("profile"), why));
        }
        if !(1..=OFFER_QPS_MAX).contains(&peer.qps) {
            return Err(wrong(&path("qps"), format!("a peer has 1 to {OFFER_QPS_MAX} QPs")));
        }
        qps += peer.qps;
        if qps > QPS_MAX {
            return Err(wrong(&path("qps"), format!("makes {qps} QPs in all: there are {QPS_MAX} at most")));
        }
        if !peer.exchange && peer.connect.is_some() {
            return Err(wrong(&path("connect"), "goes not with exchange = false: nobody connects then".into()));
        }
        for (key, given) in [("own", peer.own.is_some()), ("other", peer.other.is_some())] {
            if given && peer.exchange {
                let why = "goes with exchange = false alone: numbers that are exchanged are other ones each time";
                return Err(wrong(&path(key), why.into()));
            }
        }
        if peer.exchange && peer.connect.is_none() && listen.is_none() {
            let why = format!(
                "nobody begins with {:?}: give connect, or run.listen so that it can connect, or exchange = false and both ends' numbers",
                peer.name
            );
            return Err(wrong(&path("name"), why));
        }
        connect.push(address(&path("connect"), &peer.connect)?);
        let hops = peer.next_hop.as_deref().unwrap_or_default();
        next_hops.push(match hops {
            [] => Vec::new(),
            hops => place.macs(&path("next_hop"), hops, ports.len())?,
        });
    }
    Ok(RunFile { table, ports, listen, metrics, connect, next_hops, mac })
}

fn no_region(name: &str, names: &BTreeSet<&str>) -> String {
    let nearest = names.iter().map(|there| (strsim::damerau_levenshtein(name, there), there)).min();
    match nearest {
        None => format!("there is no region {name:?}: give a table [[run.region]]"),
        Some((distance, there)) if distance <= 2 => format!("there is no region {name:?}; did you mean {there:?}?"),
        Some(_) => {
            let all = names.iter().copied().collect::<Vec<_>>().join(", ");
            format!("there is no region {name:?}; there are {all}")
        }
    }
}

/// Reads the `[run]` table of the file at `path`.
///
/// # Errors
/// [`crate::error::Error::Usage`] when it can't be read, is wrong, or has none.
pub(super) fn load(path: &Path, text: &str) -> Result<RunFile, crate::error::Error> {
    let name = path.display().to_string();
    let file = RunFile::read(text, &name).map_err(|e| crate::error::Error::Usage(e.to_string()))?;
    file.ok_or_else(|| {
        crate::error::Error::Usage(format!("{name}: has no table [run]: docs/run.md says what belongs into it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[nscc]
pass_through = true

[run]
name = "a"
listen = "127.0.0.1:7471"

[[run.port]]
device = "net_memif0,role=server,socket=/tmp/m"

[run.address]
ip = "10.0.0.1"

[[run.region]]
name = "main"
size = "1MiB"

[[run.peer]]
name = "b"
region = "main"
"#;

    fn refusal(from: &str, to: &str) -> String {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE, "{from}");
        RunFile::read(&text, "nic.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_table_is_read_with_its_defaults_and_what_is_beside_it_is_left_alone() {
        let file = RunFile::read(FILE, "nic.toml").unwrap().unwrap();
        let table = &file.table;
        assert_eq!((table.workers, table.idle_polls, table.drain, table.seed), (1, 64, Time(5_000_000_000), None));
        assert_eq!((table.region[0].size, table.peer[0].qps), (Size(1 << 20), 1));
        assert_eq!(file.listen, Some(ExchangeAddress::Tcp("127.0.0.1:7471".into())));
        assert!(
            RunFile::read(
                "[nscc]
pass_through = true
",
                "nic.toml"
            )
            .unwrap()
            .is_none()
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_key_and_the_way_out() {
        for (from, to, said) in [
            ("listen =", "lisen =", "nic.toml:7: run.lisen: no such key: \"lisen\"; did you mean \"listen\"?"),
            ("region = \"main\"", "region = \"main\"\nprofile = 7", "run.peer.1.profile: there is no EV profile 7"),
            (
                "region = \"main\"",
                "region = \"mian\"",
                "nic.toml:21: run.peer.1.region: there is no region \"mian\"; did you mean \"main\"?",
            ),
            ("size = \"1MiB\"", "size = \"1Mb\"", "nic.toml:17: run.region.1.size: "),
            ("size = \"1MiB\"", "size = 0", "one byte at least"),
            ("name = \"b\"", "name = \"a\"", "nic.toml:20: run.peer.1.name: is the name of this NIC"),
            ("name = \"b\"", "name = \"b\"\nqps = 2000", "nic.toml:21: run.peer.1.qps: a peer has 1 to 1024 QPs"),
            ("net_memif0", "memif0", "nic.toml:10: run.port.1.device: "),
            ("ip = \"10.0.0.1\"", "ip = \"10.0.0.1\"\nmac = \"2:0\"", "\"2:0\" is no Ethernet address"),
            ("listen = \"127.0.0.1:7471\"", "listen = \"here\"", "nic.toml:7: run.listen: \"here\" is no address"),
            ("listen = \"127.0.0.1:7471\"", "cores = [0, 1]", "names 2 cores for 1 workers"),
            ("listen = \"127.0.0.1:7471\"", "seed = 1", "nobody begins with \"b\": give connect"),
            (
                "region = \"main\"",
                "region = \"main\"\nexchange = false\nconnect = \"b:1\"",
                "nic.toml:23: run.peer.1.connect: goes not with exchange = false",
            ),
            ("[run.address]\nip = \"10.0.0.1\"", "", "nic.toml:5: run: missing field `address`"),
            ("[[run.port]]\ndevice = \"net_memif0,role=server,socket=/tmp/m\"", "", "a NIC has 1 to 8 ports"),
        ] {
            let error = refusal(from, to);
            assert!(error.contains(said), "{to}: {error}");
        }
    }
}
