//! What the tables of files that make a device have in common, `[device]` and `[run]`: the same checks, with the same words.

use super::spec::WORKERS_MAX;
use crate::file::{FileError, Source, Step};
use crate::neighbour::InterfaceAddress;
use dataplane::dpdk::PortSpec;
use dataplane::nic::PORTS_MAX;
use dataplane::wire::MacAddr;
use serde::Deserialize;
use std::net::IpAddr;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortTable {
    /// A device as DPDK names it with its arguments, or a PCI address.
    pub device: String,
}

/// One worker, or one QP, where nothing is said.
pub(crate) const fn one() -> usize {
    1
}

/// Turns without work after which a worker yields its core, where nothing is said.
pub(crate) const fn idle_polls() -> u32 {
    64
}

/// Reads an Ethernet address.
pub(crate) fn mac(text: &str) -> Result<MacAddr, String> {
    text.parse().map_err(|()| format!("{text:?} is no Ethernet address, as in 02:00:00:00:00:01"))
}

/// The table of this name in a file.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) name: &'static str,
}

impl Table<'_> {
    /// What is wrong at a place of the table.
    pub(crate) fn wrong(&self, path: &[Step<'_>], why: String) -> FileError {
        self.source.wrong(&[&[self.name.into()], path].concat(), why)
    }

    /// Checks the NIC's name.
    pub(crate) fn check_name(&self, name: &str, most: usize) -> Result<(), FileError> {
        if name.is_empty() || name.len() > most {
            return Err(self.wrong(&["name".into()], format!("a name has 1 to {most} characters")));
        }
        Ok(())
    }

    /// Checks how many workers there are, and that each has a core where cores are named.
    pub(crate) fn check_workers(&self, workers: usize, cores: Option<&[usize]>) -> Result<(), FileError> {
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(self.wrong(&["workers".into()], format!("a NIC has 1 to {WORKERS_MAX} workers")));
        }
        match cores {
            Some(cores) if cores.len() != workers => {
                let why =
                    format!("names {} cores for {workers} workers: name one for each, or leave it out", cores.len());
                Err(self.wrong(&["cores".into()], why))
            }
            _ => Ok(()),
        }
    }

    /// Reads the ports.
    pub(crate) fn ports(&self, ports: &[PortTable]) -> Result<Vec<PortSpec>, FileError> {
        if ports.is_empty() || ports.len() > PORTS_MAX {
            let why = format!("a NIC has 1 to {PORTS_MAX} ports: give each a table [[{}.port]]", self.name);
            return Err(self.wrong(&["port".into()], why));
        }
        let port = |(n, port): (usize, &PortTable)| {
            let path = ["port".into(), n.into(), "device".into()];
            port.device.parse::<PortSpec>().map_err(|e| self.wrong(&path, e.to_string()))
        };
        ports.iter().enumerate().map(port).collect()
    }

    /// Reads the NIC's own Ethernet address at `path`, which only a NIC with one port has.
    pub(crate) fn own_mac(
        &self,
        path: &[Step<'_>],
        text: Option<&str>,
        ports: usize,
    ) -> Result<Option<MacAddr>, FileError> {
        let own = text.map(|text| mac(text).map_err(|why| self.wrong(path, why))).transpose()?;
        if own.is_some() && ports > 1 {
            let why = "goes with one port: several have an address each, which is their own";
            return Err(self.wrong(path, why.into()));
        }
        Ok(own)
    }

    /// Checks the gateway at `path`.
    pub(crate) fn check_gateway(
        &self,
        path: &[Step<'_>],
        own: InterfaceAddress,
        gateway: Option<IpAddr>,
    ) -> Result<(), FileError> {
        gateway.map_or(Ok(()), |gateway| own.check_gateway(gateway).map_err(|why| self.wrong(path, why)))
    }

    /// Reads the Ethernet addresses at `path`, by which somebody is reached on each of so many ports.
    pub(crate) fn macs(&self, path: &[Step<'_>], texts: &[String], ports: usize) -> Result<Vec<MacAddr>, FileError> {
        if texts.len() != ports {
            let why = format!("{} addresses for {ports} ports: give one for each", texts.len());
            return Err(self.wrong(path, why));
        }
        texts.iter().map(|text| mac(text)).collect::<Result<_, _>>().map_err(|why| self.wrong(path, why))
    }
}
