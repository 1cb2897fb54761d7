//! A file that says what a device is: the `[device]` table, beside the NIC's attributes.

use super::spec::DeviceSpec;
use super::table::{PortTable, Table, idle_polls, one};
use crate::config::{Finding, Loaded, Setup};
use crate::error::Error;
use crate::file::{FileError, Source, Step};
use crate::neighbour::{InterfaceAddress, NeighbourSpec};
use dataplane::dpdk::PortSpec;
use dataplane::nic::{NicParams, Paths};
use dataplane::wire::MacAddr;
use serde::Deserialize;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Characters of a name at most.
const NAME_MAX: usize = 63;

/// The `[device]` table as it stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    #[serde(default = "name")]
    name: String,
    ip: InterfaceAddress,
    #[serde(default)]
    gateway: Option<IpAddr>,
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    vlan: Option<u16>,
    #[serde(default = "one")]
    workers: usize,
    #[serde(default)]
    cores: Option<Vec<usize>>,
    #[serde(default = "idle_polls")]
    idle_polls: u32,
    #[serde(default)]
    ctl: Option<PathBuf>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    port: Vec<PortTable>,
    #[serde(default)]
    neighbour: Vec<NeighbourTable>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighbourTable {
    ip: IpAddr,
    /// One for each port.
    mac: Vec<String>,
}

fn name() -> String {
    "mrcnic0".into()
}

#[derive(Deserialize)]
struct Whole {
    device: Option<DeviceTable>,
}

/// What a file says of a device.
#[derive(Clone, Debug)]
pub struct DeviceFile {
    /// The device, to be opened. Its seed is the file's; without one it is 0, and whoever opens it draws one.
    pub spec: DeviceSpec,
    /// Whether the file gives the seed.
    pub seeded: bool,
    /// The attributes that are not the device's alone.
    pub setup: Setup,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its Ethernet address, where it is not the port's own.
    pub mac: Option<MacAddr>,
    /// VLAN tag control information of its frames.
    pub vlan: Option<u16>,
    /// The Ethernet addresses, one for each port, by which others are reached without being asked for.
    pub neighbours: HashMap<IpAddr, Vec<MacAddr>>,
}

impl DeviceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Usage`]: it can't be read, has no `[device]` table, or what is wrong with it.
    pub fn load(path: &Path) -> Result<DeviceFile, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Error::Usage(format!("can't read {name}: {e}")))?;
        DeviceFile::read(&text, &name)
    }

    /// Reads the text of a file that is called `name` in messages.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn read(text: &str, name: &str) -> Result<DeviceFile, Error> {
        DeviceFile::read_with(text, name, &[])
    }

    /// As [`DeviceFile::read`], with attributes in place of the file's: `KEY=VALUE` each.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn read_with(text: &str, name: &str, sets: &[String]) -> Result<DeviceFile, Error> {
        let loaded = Loaded::read_with(text, name, sets).map_err(|findings| Finding::refusal(&findings))?;
        let source = Source { text, name };
        let whole: Whole = source.read().map_err(|e| Error::Usage(e.to_string()))?;
        let table = whole.device.ok_or_else(|| Error::Usage(format!("{name}: has no table [device]")))?;
        check(&table, source, loaded.config.setup()).map_err(|e| Error::Usage(e.to_string()))
    }

    /// A device without a file: one port whose frames come back, at 127.0.0.1, so that the QPs of a process reach each other.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such port.
    pub fn loopback() -> Result<DeviceFile, Error> {
        DeviceFile::of("net_ring0", Ipv4Addr::LOCALHOST.into(), Loaded::default().config.setup())
    }

    /// A device without a file: one port, as DPDK names it with its arguments, at `ip`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such port.
    pub fn of(port: &str, ip: IpAddr, setup: Setup) -> Result<DeviceFile, Error> {
        let port = port.parse::<PortSpec>().map_err(|e| Error::Usage(e.to_string()))?;
        let spec = DeviceSpec { name: name(), ports: vec![port], ..spec(&setup, 0) };
        Ok(DeviceFile { spec, seeded: false, setup, ip, mac: None, vlan: None, neighbours: HashMap::new() })
    }

    /// How the packets of a QP find their way, whose own UDP source port is `udp_port`.
    #[must_use]
    pub const fn paths(&self, udp_port: u16) -> Paths {
        self.setup.paths(udp_port)
    }
}

fn spec(setup: &Setup, seed: u64) -> DeviceSpec {
    let params = NicParams { seed, ..setup.nic };
    DeviceSpec { params, probe_period_ns: setup.probe_period_ns, ..DeviceSpec::default() }
}

fn check(table: &DeviceTable, source: Source<'_>, setup: Setup) -> Result<DeviceFile, FileError> {
    let place = Table { source, name: "device" };
    place.check_name(&table.name, NAME_MAX)?;
    place.check_workers(table.workers, table.cores.as_deref())?;
    let ports = place.ports(&table.port)?;
    let own = place.own_mac(&["mac".into()], table.mac.as_deref(), ports.len())?;
    let mut neighbours = HashMap::new();
    for (n, neighbour) in table.neighbour.iter().enumerate() {
        let path = |key| ["neighbour".into(), n.into(), Step::Key(key)];
        let macs = place.macs(&path("mac"), &neighbour.mac, ports.len())?;
        if neighbours.insert(neighbour.ip, macs).is_some() {
            return Err(place.wrong(&path("ip"), format!("there is a neighbour {} already", neighbour.ip)));
        }
    }
    place.check_gateway(&["gateway".into()], table.ip, table.gateway)?;
    let DeviceTable { name, ip: address, gateway, vlan, workers, cores, idle_polls, ctl, seed, .. } = table.clone();
    let among = NeighbourSpec { address, gateway, mac: own, vlan, fixed: neighbours.clone() };
    let spec = DeviceSpec {
        name,
        ports,
        workers,
        cores,
        idle_polls,
        ctl,
        neighbours: Some(among),
        ..spec(&setup, seed.unwrap_or_default())
    };
    Ok(DeviceFile { spec, seeded: seed.is_some(), setup, ip: address.ip, mac: own, vlan, neighbours })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[qp_manager]
max_psn_range = 256

[device]
ip = "10.0.0.1"
mac = "02:00:00:00:00:01"

[[device.port]]
device = "net_memif0,role=server,socket=/tmp/m"

[[device.neighbour]]
ip = "10.0.0.2"
mac = ["02:00:00:00:00:02"]
"#;

    #[test]
    fn a_device_is_read_with_its_attributes_and_its_defaults() {
        let file = DeviceFile::read(FILE, "d.toml").unwrap();
        assert_eq!((file.spec.name.as_str(), file.spec.workers, file.spec.idle_polls), ("mrcnic0", 1, 64));
        assert_eq!((file.spec.params.transport.max_psn_range, file.seeded), (256, false));
        assert_eq!(file.ip, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(file.mac, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(file.neighbours[&IpAddr::from([10, 0, 0, 2])], [MacAddr([2, 0, 0, 0, 0, 2])]);
    }

    #[test]
    fn what_is_wrong_with_a_device_is_named_with_its_line_and_the_way_out() {
        for (from, to, said) in [
            ("ip = \"10.0.0.1\"", "", "d.toml:5: device: missing field `ip`"),
            ("mac = \"02:00:00:00:00:01\"", "mac = \"2\"", "d.toml:7: device.mac: \"2\" is no Ethernet address"),
            ("mac = \"02:00:00:00:00:01\"", "macs = 1", "no such key: \"macs\"; did you mean \"mac\"?"),
            ("mac = [\"02:00:00:00:00:02\"]", "mac = []", "d.toml:14: device.neighbour.1.mac: 0 addresses for 1 ports"),
            ("net_memif0", "memif0", "d.toml:10: device.port.1.device: "),
            ("[[device.port]]", "[[device.ports]]", "no such key: \"ports\"; did you mean \"port\"?"),
            ("max_psn_range = 256", "max_psn_range = 0", "max_psn_range"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let error = DeviceFile::read(&text, "d.toml").unwrap_err().to_string();
            assert!(error.contains(said), "{to}: {error}");
        }
        let error = DeviceFile::read("[nscc]\npass_through = true\n", "d.toml").unwrap_err().to_string();
        assert_eq!(error, "d.toml: has no table [device]");
    }
}
