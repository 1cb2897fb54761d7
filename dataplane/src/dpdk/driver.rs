//! What DPDK's software drivers need to be told, and where what they report is not so.

use std::ffi::CString;
use std::path::Path;

use super::error::{Error, Said, strerror};
use super::spec::PortSpec;
use crate::nic::Pieces;

/// Ethernet header and two VLAN tags: what a frame has beyond its MTU.
pub(super) const OVERHEAD: usize = 14 + 8;
const ETHERNET: usize = 14;
const FCS: usize = 4;
/// The coarsest unit in which a card counts a receive buffer.
pub(super) const RX_UNIT: usize = 1_024;

/// `net_tap` sizes its buffers for this and can't be told otherwise.
const TAP_FRAME: usize = 1_522;
const TAP_MTU: u16 = 1_500;

/// Where the kernel puts a received frame within a slot of a packet ring (TPACKET_V2), at the most.
const PACKET_RX_OFFSET: usize = 66;
/// The driver's own default slot, in bytes.
const PACKET_SLOT: usize = 2_048;
/// Slots in a block, so that a block is whole pages for any slot that is a multiple of 512 bytes.
const PACKET_SLOTS_A_BLOCK: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Ring,
    Null,
    Pcap,
    Memif,
    AfPacket,
    Tap,
    Other,
}

/// How a port is to be set up.
pub(super) struct Plan {
    /// What the port carries.
    pub(super) mtu: u16,
    /// Largest frame that passes both ways, without FCS.
    pub(super) max_frame: usize,
    /// Room that the driver wants in a received mbuf.
    pub(super) rx_room: usize,
    /// Which memory of ours a frame may refer to: all where the driver reads what it sends by the CPU, segment by segment; what was mapped for
    /// it where a card does.
    pub(super) pieces: Pieces,
}

impl Driver {
    /// By the name of the device or of the driver.
    pub(super) fn of(name: &str) -> Driver {
        let stem = name.strip_prefix("net_").or_else(|| name.strip_prefix("eth_")).unwrap_or(name);
        let known = [
            ("ring", Driver::Ring),
            ("null", Driver::Null),
            ("pcap", Driver::Pcap),
            ("memif", Driver::Memif),
            ("af_packet", Driver::AfPacket),
            ("tap", Driver::Tap),
        ];
        known.iter().find(|(prefix, _)| stem.starts_with(prefix)).map_or(Driver::Other, |(_, driver)| *driver)
    }

    /// True for a memif port that connects, rather than listens.
    pub(super) fn is_memif_client(spec: &PortSpec) -> bool {
        spec.argument("role").is_none_or(|role| role == "client" || role == "slave")
    }

    /// True for a port on an Ethernet, rather than one that is joined to another NIC's, or to a file.
    pub(super) fn is_on_ethernet(self, spec: &PortSpec) -> bool {
        match self {
            Driver::Ring | Driver::Null | Driver::Memif => false,
            Driver::Pcap => ["iface", "rx_iface", "rx_iface_in"].iter().any(|key| spec.argument(key).is_some()),
            Driver::AfPacket | Driver::Tap | Driver::Other => true,
        }
    }

    /// True when the driver carries frames of any size its buffers hold, whatever MTU it reports.
    pub(super) fn ignores_mtu(self) -> bool {
        !matches!(self, Driver::Other | Driver::Tap)
    }

    /// Checks what DPDK would only log, adds the arguments that the user left out, and says what the port will carry.
    pub(super) fn plan(
        self,
        spec: &mut PortSpec,
        asked: Option<u16>,
        default: u16,
        queues: u16,
    ) -> Result<Plan, Error> {
        let mtu = asked.unwrap_or(default);
        let frame = usize::from(mtu) + OVERHEAD;
        let any = Plan { mtu, max_frame: frame, rx_room: frame, pieces: Pieces::All };
        match self {
            Driver::Ring | Driver::Null => Ok(any),
            Driver::Memif => {
                // In smaller buffers a frame is a chain, of three at the driver's default: slower, and when the ring ran
                // full, a chain was seen to arrive in pieces. The client's count for both sides.
                if Driver::is_memif_client(spec) {
                    spec.default_argument("bsize", frame.next_multiple_of(64).min(usize::from(u16::MAX)));
                }
                Ok(any)
            }
            Driver::Pcap => {
                check_pcap(spec)?;
                Ok(any)
            }
            Driver::Tap => {
                if let Some(asked) = asked.filter(|asked| *asked > TAP_MTU) {
                    let why = format!("net_tap carries frames of at most {TAP_FRAME} bytes, an MTU of {TAP_MTU}");
                    return Err(Error::Mtu { spec: spec.to_string(), asked, why });
                }
                if !Path::new("/dev/net/tun").exists() {
                    let why = "there is no such device; load the kernel module tun".into();
                    return Err(Error::File { spec: spec.to_string(), path: "/dev/net/tun".into(), why });
                }
                let mtu = mtu.min(TAP_MTU);
                let max_frame = TAP_FRAME.min(usize::from(mtu) + OVERHEAD);
                Ok(Plan { mtu, max_frame, rx_room: TAP_FRAME, pieces: Pieces::None })
            }
            Driver::AfPacket => plan_af_packet(spec, asked, mtu, queues),
            // Network cards count receive buffers in units of up to 1 KiB, rounded down, and want room for the FCS.
            Driver::Other => Ok(Plan {
                mtu,
                max_frame: usize::from(mtu) + ETHERNET,
                rx_room: (frame + FCS).next_multiple_of(RX_UNIT),
                // Other virtual devices say that memory was mapped, and do nothing: who reads it may be another process.
                pieces: if spec.pci().is_some() { Pieces::Mapped } else { Pieces::None },
            }),
        }
    }

    /// What a refusal to make the device means.
    pub(super) fn refusal(self, spec: &PortSpec, code: i32, said: Said) -> Error {
        let text = spec.to_string();
        // The code is mostly a bare -1, whatever the reason.
        let denied = said.mentions("Operation not permitted") || said.mentions("Permission denied");
        match self {
            Driver::Tap if denied => {
                Error::NoPermission { spec: text, needs: "CAP_NET_ADMIN, to make an interface", cap: "cap_net_admin" }
            }
            Driver::AfPacket | Driver::Pcap if denied => no_raw(text),
            _ => {
                let why = if code == -1 { String::new() } else { format!(" ({})", strerror(code)) };
                Error::BadDevice { spec: text, why, said }
            }
        }
    }
}

fn no_raw(spec: String) -> Error {
    Error::NoPermission { spec, needs: "CAP_NET_RAW, to read and write frames on an interface", cap: "cap_net_raw" }
}

fn check_pcap(spec: &PortSpec) -> Result<(), Error> {
    let fault = |path: &str, why: String| Error::File { spec: spec.to_string(), path: path.to_owned(), why };
    if let Some(path) = spec.argument("rx_pcap") {
        let file = std::fs::File::open(path).map_err(|e| fault(path, e.to_string()))?;
        if file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
            return Err(fault(path, "the file is empty, not a capture".into()));
        }
    }
    if let Some(path) = spec.argument("tx_pcap") {
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|e| fault(path, e.to_string()))?;
    }
    for key in ["iface", "rx_iface", "rx_iface_in", "tx_iface"] {
        if let Some(interface) = spec.argument(key) {
            interface_mtu(spec, interface)?;
            check_raw(spec)?;
        }
    }
    Ok(())
}

fn plan_af_packet(spec: &mut PortSpec, asked: Option<u16>, mtu: u16, queues: u16) -> Result<Plan, Error> {
    let Some(interface) = spec.argument("iface").map(str::to_owned) else {
        let why = "net_af_packet needs an interface, as in net_af_packet0,iface=eth0".into();
        return Err(Error::BadSpec { spec: spec.to_string(), why });
    };
    let carried = interface_mtu(spec, &interface)?;
    check_raw(spec)?;
    if let Some(asked) = asked.filter(|asked| usize::from(*asked) > carried) {
        let why = format!("{interface} has {carried}; `ip link set {interface} mtu {asked}` raises it");
        return Err(Error::Mtu { spec: spec.to_string(), asked, why });
    }
    let mtu = u16::try_from(carried).unwrap_or(u16::MAX).min(mtu);
    if spec.argument("framesz").is_none() {
        // The driver's default slot of 2,048 bytes takes larger frames in tx_burst, and drops them.
        let slot = (usize::from(mtu) + OVERHEAD + PACKET_RX_OFFSET).next_multiple_of(512).max(PACKET_SLOT);
        if spec.argument("blocksz").is_none() && spec.argument("framecnt").is_none() {
            spec.default_argument("framesz", slot);
            spec.default_argument("blocksz", slot * PACKET_SLOTS_A_BLOCK);
            spec.default_argument("framecnt", 512);
        }
    }
    spec.default_argument("qpairs", queues);
    let slot = spec.argument("framesz").and_then(|text| text.parse().ok()).unwrap_or(PACKET_SLOT);
    let fits = slot.saturating_sub(PACKET_RX_OFFSET);
    if let Some(asked) = asked.filter(|asked| usize::from(*asked) + ETHERNET > fits) {
        let why = format!("framesz={slot} carries frames of at most {fits} bytes");
        return Err(Error::Mtu { spec: spec.to_string(), asked, why });
    }
    let max_frame = fits.min(usize::from(mtu) + ETHERNET);
    let mtu = u16::try_from(max_frame.saturating_sub(ETHERNET)).unwrap_or(u16::MAX);
    Ok(Plan { mtu, max_frame, rx_room: slot, pieces: Pieces::None })
}

/// The interface's MTU. (sysfs would tell that of another network namespace.)
fn interface_mtu(spec: &PortSpec, interface: &str) -> Result<usize, Error> {
    let missing = || Error::NoInterface { spec: spec.to_string(), interface: interface.to_owned() };
    let name = CString::new(interface).map_err(|_| missing())?;
    if name.as_bytes().len() >= libc::IFNAMSIZ {
        return Err(missing());
    }
    // SAFETY: ifreq is plain data, the name fits with its zero byte, and the descriptor is closed again.
    unsafe {
        if libc::if_nametoindex(name.as_ptr()) == 0 {
            return Err(missing());
        }
        let mut request: libc::ifreq = core::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let code = if fd < 0 { -1 } else { libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request) };
        if fd >= 0 {
            libc::close(fd);
        }
        if code == 0 { Ok(usize::try_from(request.ifr_ifru.ifru_mtu).unwrap_or(0)) } else { Err(missing()) }
    }
}

/// Checks that this process may open packet sockets.
fn check_raw(spec: &PortSpec) -> Result<(), Error> {
    // SAFETY: plain calls; the descriptor is closed again.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd >= 0 {
            libc::close(fd);
            return Ok(());
        }
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Err(no_raw(spec.to_string())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_alone_want_memory_mapped() {
        for (spec, pieces) in [
            ("net_null0", Pieces::All),
            ("net_memif0,role=server", Pieces::All),
            ("0000:3b:00.0", Pieces::Mapped),
            ("net_virtio_user0,path=/dev/vhost-net", Pieces::None),
            ("net_vhost0,iface=x", Pieces::None),
        ] {
            let mut spec: PortSpec = spec.parse().unwrap();
            let plan = Driver::of(spec.device()).plan(&mut spec, None, 4_500, 1).unwrap();
            assert_eq!(plan.pieces, pieces, "{spec}");
        }
    }
}
