//! How a port is named on a command line.

use core::fmt;
use core::str::FromStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::Error;

/// A port to open: a virtual device, such as `net_memif0,role=server,socket=/run/x.sock`, or the address of a PCI
/// device, such as `0000:3b:00.0`.
#[derive(Clone, Debug)]
pub struct PortSpec {
    pub(super) kind: Kind,
    /// Files that the arguments name by descriptor.
    pub(super) files: Vec<Arc<File>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Vdev { name: String, args: Vec<(String, Option<String>)> },
    Pci(String),
}

impl PortSpec {
    /// A `net_pcap` port that receives the frames of `rx` and writes what it sends to `tx`. Any file name will do: one
    /// that DPDK can't take in its arguments (a comma ends them) is handed over by its descriptor.
    ///
    /// # Errors
    /// [`Error::File`] when a file can't be opened, and for an empty `rx`, of which DPDK makes no port.
    pub fn pcap(number: u32, rx: Option<&Path>, tx: Option<&Path>) -> Result<PortSpec, Error> {
        let name = format!("net_pcap{number}");
        let mut files = Vec::new();
        let mut args = Vec::new();
        let mut add = |key: &str, path: &Path, options: &OpenOptions| {
            let fault = |why: String| Error::File { spec: name.clone(), path: path.display().to_string(), why };
            let file = options.open(path).map_err(|e| fault(e.to_string()))?;
            if key == "rx_pcap" && file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
                return Err(fault("the file is empty, not a capture".into()));
            }
            let text = path.to_str().filter(|text| text.bytes().all(plain));
            args.push((key.to_owned(), Some(text.map_or_else(|| descriptor(&file), str::to_owned))));
            if text.is_none() {
                files.push(Arc::new(file));
            }
            Ok(())
        };
        if let Some(rx) = rx {
            add("rx_pcap", rx, OpenOptions::new().read(true))?;
        }
        if let Some(tx) = tx {
            add("tx_pcap", tx, OpenOptions::new().read(true).write(true).create(true).truncate(true))?;
        }
        Ok(PortSpec { kind: Kind::Vdev { name, args }, files })
    }

    /// The address, when it is a PCI device: it belongs on the allow-list of [`super::EalOptions::pci`].
    #[must_use]
    pub fn pci(&self) -> Option<&str> {
        match &self.kind {
            Kind::Pci(address) => Some(address),
            Kind::Vdev { .. } => None,
        }
    }

    /// The device's name: what comes before the first comma, or the PCI address.
    #[must_use]
    pub fn device(&self) -> &str {
        match &self.kind {
            Kind::Vdev { name, .. } => name,
            Kind::Pci(address) => address,
        }
    }

    pub(super) fn argument(&self, key: &str) -> Option<&str> {
        match &self.kind {
            Kind::Vdev { args, .. } => {
                args.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_deref().unwrap_or(""))
            }
            Kind::Pci(_) => None,
        }
    }

    /// Gives the driver an argument, unless the user gave it.
    pub(super) fn default_argument(&mut self, key: &str, value: impl fmt::Display) {
        if self.argument(key).is_none()
            && let Kind::Vdev { args, .. } = &mut self.kind
        {
            args.push((key.to_owned(), Some(value.to_string())));
        }
    }

    /// The driver's arguments, in one string.
    pub(super) fn arguments(&self) -> String {
        let Kind::Vdev { args, .. } = &self.kind else { return String::new() };
        let words = args.iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.clone(),
        });
        words.collect::<Vec<_>>().join(",")
    }
}

/// Bytes that mean nothing to DPDK's argument parser.
fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-+:@~%".contains(&byte)
}

fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// `0000:3b:00.0`, or `3b:00.0` for the same.
fn pci_address(text: &str) -> Option<String> {
    let hex = |s: &str, len: usize| s.len() == len && s.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split(':').collect();
    let (domain, bus, rest) = match parts[..] {
        [domain, bus, rest] => (domain, bus, rest),
        [bus, rest] => ("0000", bus, rest),
        _ => return None,
    };
    let (device, function) = rest.split_once('.')?;
    (hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1))
        .then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

impl FromStr for PortSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<PortSpec, Error> {
        let fault = |why: &str| Error::BadSpec { spec: text.to_owned(), why: why.to_owned() };
        if text.contains('\0') {
            return Err(fault("there is a zero byte in it"));
        }
        if let Some(address) = pci_address(text) {
            return Ok(PortSpec { kind: Kind::Pci(address), files: Vec::new() });
        }
        let mut words = text.split(',');
        let name = words.next().unwrap_or_default();
        if !name.starts_with("net_") && !name.starts_with("eth_") {
            return Err(fault(
                "not a port; write a device of DPDK's, such as net_memif0,role=client or net_af_packet0,iface=eth0, or a PCI \
                 address, such as 0000:3b:00.0",
            ));
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') || name.len() > 60 {
            return Err(fault("a device's name has letters, digits and _ alone, at most 60 of them"));
        }
        let mut args = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("", _)) => return Err(fault("an argument has no name")),
                Some((key, value)) => args.push((key.to_owned(), Some(value.to_owned()))),
                None if word.is_empty() => return Err(fault("an argument is empty")),
                None => args.push((word.to_owned(), None)),
            }
        }
        Ok(PortSpec { kind: Kind::Vdev { name: name.to_owned(), args }, files: Vec::new() })
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device())?;
        match self.arguments() {
            args if args.is_empty() => Ok(()),
            args => write!(f, ",{args}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_reads_back_as_it_was_written() {
        for text in ["net_memif0,role=server,socket=/x.sock", "net_null0", "net_tap3,iface=a", "0000:3b:00.0"] {
            assert_eq!(text.parse::<PortSpec>().expect(text).to_string(), text);
        }
        assert_eq!("3B:00.1".parse::<PortSpec>().expect("short").to_string(), "0000:3b:00.1");
    }

    #[test]
    fn what_is_no_port_is_refused_with_a_word() {
        for text in ["", "eth0", "net_memif0,", "net_null 0", "net_null0,=4", "net_null0,a\0"] {
            let e = text.parse::<PortSpec>().expect_err(text);
            assert!(e.is_usage(), "{e}");
        }
    }

    #[test]
    fn an_argument_of_the_user_wins_over_a_default() {
        let mut spec: PortSpec = "net_memif0,bsize=2048".parse().expect("a port");
        spec.default_argument("bsize", 9_000);
        spec.default_argument("rsize", 11);
        assert_eq!(spec.to_string(), "net_memif0,bsize=2048,rsize=11");
    }
}
