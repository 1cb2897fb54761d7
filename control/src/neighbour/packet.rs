//! ARP (RFC 826), neighbour discovery (RFC 4861) and echo (RFC 792, RFC 4443): bytes to what they say, and back.
//!
//! etherparse reads and writes the layers and their checksums; what the RFCs demand beyond lengths is checked here.

use super::refused::Refused;
use dataplane::wire::MacAddr;
use etherparse::icmpv6::{NdpOptionSlice, NdpOptionsIterator, NeighborAdvertisementHeader};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, Icmpv4Type, Icmpv6Type, LinkExtSlice, LinkSlice,
    NetSlice, PacketBuilder, PacketBuilderStep, SingleVlanHeader, SlicedPacket, TransportSlice, VlanHeader, VlanId,
    VlanPcp,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Neighbour discovery does not pass routers.
const DISCOVERY_HOP_LIMIT: u8 = 255;
/// Hop limit of an answer to a ping.
const ECHO_HOP_LIMIT: u8 = 64;
const BROADCAST: MacAddr = MacAddr([0xFF; 6]);
/// All nodes of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// An option of neighbour discovery with an Ethernet address: type, length in units of 8 bytes, address.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;
/// Bytes of ICMPv6 before what neighbour discovery says, and of its target.
const TARGET_LEN: usize = 16;

/// A frame of the slow path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heard<'a> {
    pub(super) source: MacAddr,
    pub(super) destination: MacAddr,
    /// Tag control information.
    pub(super) vlan: Option<u16>,
    pub(super) what: What<'a>,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    Arp { request: bool, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr) },
    Ping(Ping<'a>),
    Solicitation { source: Ipv6Addr, destination: Ipv6Addr, target: Ipv6Addr, mac: Option<MacAddr> },
    Advertisement { target: Ipv6Addr, solicited: bool, overrides: bool, mac: Option<MacAddr> },
}

/// An echo request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ping<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    id: u16,
    seq: u16,
    data: &'a [u8],
}

/// An address of more than one, or of none.
pub(super) const fn is_group(mac: MacAddr) -> bool {
    mac.0[0] & 1 == 1 || matches!(mac.0, [0, 0, 0, 0, 0, 0])
}

/// The multicast address that is asked for `ip` (RFC 4291, 2.7.1).
pub(super) const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = ip.segments();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | high & 0xFF, low)
}

/// The Ethernet address of an IPv6 multicast address (RFC 2464, 7).
pub(super) const fn multicast_mac(ip: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = ip.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Reads a frame.
pub(super) fn read(bytes: &[u8]) -> Result<Heard<'_>, Refused> {
    let packet = SlicedPacket::from_ethernet(bytes).map_err(|_| Refused::Malformed)?;
    let Some(LinkSlice::Ethernet2(link)) = &packet.link else { return Err(Refused::Malformed) };
    let vlan = match packet.link_exts.as_slice() {
        [] => None,
        [LinkExtSlice::Vlan(tag)] => {
            let (pcp, vid) = (u16::from(tag.priority_code_point().value()), tag.vlan_identifier().value());
            Some(pcp << 13 | u16::from(tag.drop_eligible_indicator()) << 12 | vid)
        }
        _ => return Err(Refused::OtherVlan),
    };
    let what = match (&packet.net, &packet.transport) {
        (Some(NetSlice::Arp(arp)), _) => {
            let arp = arp.to_packet().try_eth_ipv4().map_err(|_| Refused::ArpKind)?;
            let request = match arp.operation {
                ArpOperation::REQUEST => true,
                ArpOperation::REPLY => false,
                _ => return Err(Refused::ArpKind),
            };
            What::Arp {
                request,
                sender: (MacAddr(arp.sender_mac), arp.sender_ipv4.into()),
                target: (MacAddr(arp.target_mac), arp.target_ipv4.into()),
            }
        }
        (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Icmpv4(icmp))) => {
            let header = ip.header().to_header();
            let whole = etherparse::checksum::Sum16BitWords::new().add_slice(icmp.slice()).ones_complement();
            if header.calc_header_checksum() != header.header_checksum || whole != 0 {
                return Err(Refused::Checksum);
            }
            let Icmpv4Type::EchoRequest(echo) = icmp.icmp_type() else { return Err(Refused::OtherIcmp) };
            let (source, destination) = (header.source.into(), header.destination.into());
            What::Ping(Ping { source, destination, id: echo.id, seq: echo.seq, data: icmp.payload() })
        }
        (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) => {
            let header = ip.header().to_header();
            if !icmp.is_checksum_valid(header.source, header.destination) {
                return Err(Refused::Checksum);
            }
            let ends = (header.source.into(), header.destination.into());
            match icmp.icmp_type() {
                Icmpv6Type::EchoRequest(echo) => {
                    let (source, destination) = (ends.0, ends.1);
                    let (source, destination) = (IpAddr::V6(source), IpAddr::V6(destination));
                    What::Ping(Ping { source, destination, id: echo.id, seq: echo.seq, data: icmp.payload() })
                }
                // A code that is not 0 makes etherparse call them unknown.
                Icmpv6Type::NeighborSolicitation => discovery(ends, header.hop_limit, icmp.payload(), None)?,
                Icmpv6Type::NeighborAdvertisement(flags) => {
                    discovery(ends, header.hop_limit, icmp.payload(), Some(flags))?
                }
                _ => return Err(Refused::OtherIcmp),
            }
        }
        _ => return Err(Refused::Malformed),
    };
    Ok(Heard { source: MacAddr(link.source()), destination: MacAddr(link.destination()), vlan, what })
}

/// Reads a solicitation, or an advertisement where there are flags, with the checks of RFC 4861, 7.1.1 and 7.1.2.
fn discovery<'a>(
    (source, destination): (Ipv6Addr, Ipv6Addr),
    hop_limit: u8,
    payload: &[u8],
    advertisement: Option<NeighborAdvertisementHeader>,
) -> Result<What<'a>, Refused> {
    if hop_limit != DISCOVERY_HOP_LIMIT {
        return Err(Refused::HopLimit);
    }
    let (target, options) = payload.split_first_chunk::<TARGET_LEN>().ok_or(Refused::Malformed)?;
    let target = Ipv6Addr::from(*target);
    let wanted = if advertisement.is_some() { TARGET_ADDRESS } else { SOURCE_ADDRESS };
    let mac = link_address(options, wanted)?;
    if target.is_multicast() || target.is_unspecified() || source.is_multicast() {
        return Err(Refused::BadAddress);
    }
    match advertisement {
        Some(NeighborAdvertisementHeader { solicited, r#override: overrides, .. }) => {
            if solicited && destination.is_multicast() {
                return Err(Refused::DiscoveryForm);
            }
            Ok(What::Advertisement { target, solicited, overrides, mac })
        }
        None => {
            // Whoever looks whether an address is free has none itself.
            let looks = source.is_unspecified();
            if looks && (mac.is_some() || destination != solicited_node(target)) {
                return Err(Refused::DiscoveryForm);
            }
            Ok(What::Solicitation { source, destination, target, mac })
        }
    }
}

/// The Ethernet address that the first option of this type tells. All options have to be whole.
fn link_address(options: &[u8], wanted: u8) -> Result<Option<MacAddr>, Refused> {
    let mut found = None;
    for option in NdpOptionsIterator::from_slice(options) {
        let told = match option.map_err(|_| Refused::DiscoveryOption)? {
            NdpOptionSlice::SourceLinkLayerAddress(option) if wanted == SOURCE_ADDRESS => option.link_layer_address(),
            NdpOptionSlice::TargetLinkLayerAddress(option) if wanted == TARGET_ADDRESS => option.link_layer_address(),
            _ => continue,
        };
        let mac = told.try_into().map_err(|_| Refused::DiscoveryOption)?;
        found = found.or(Some(MacAddr(mac)));
    }
    Ok(found)
}

/// What all frames of a port have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) mac: MacAddr,
    /// Tag control information.
    pub(super) vlan: Option<u16>,
}

impl Origin {
    fn tag(self, tci: u16, ether_type: EtherType) -> SingleVlanHeader {
        SingleVlanHeader {
            pcp: VlanPcp::try_new((tci >> 13) as u8).unwrap_or_default(),
            drop_eligible_indicator: tci & 0x1000 != 0,
            vlan_id: VlanId::try_new(tci & 0x0FFF).unwrap_or_default(),
            ether_type,
        }
    }

    fn arp(self, to: MacAddr, packet: ArpEthIpv4Packet) -> Vec<u8> {
        let link = PacketBuilder::ethernet2(self.mac.0, to.0);
        match self.vlan {
            None => written(|out| link.arp(packet.into()).write(out)),
            Some(tci) => written(|out| {
                link.vlan(VlanHeader::Single(self.tag(tci, EtherType::ARP))).arp(packet.into()).write(out)
            }),
        }
    }

    fn v4(self, to: MacAddr, ip: (Ipv4Addr, Ipv4Addr), icmp: Icmpv4Type, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (ip.0.octets(), ip.1.octets());
        let link = PacketBuilder::ethernet2(self.mac.0, to.0);
        written(|out| match self.vlan {
            None => link.ipv4(source, destination, ECHO_HOP_LIMIT).icmpv4(icmp).write(out, payload),
            Some(tci) => link
                .vlan(VlanHeader::Single(self.tag(tci, EtherType::IPV4)))
                .ipv4(source, destination, ECHO_HOP_LIMIT)
                .icmpv4(icmp)
                .write(out, payload),
        })
    }

    fn v6(self, to: MacAddr, ip: (Ipv6Addr, Ipv6Addr), hops: u8, icmp: Icmpv6Type, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (ip.0.octets(), ip.1.octets());
        let link: PacketBuilderStep<Ethernet2Header> = PacketBuilder::ethernet2(self.mac.0, to.0);
        written(|out| match self.vlan {
            None => link.ipv6(source, destination, hops).icmpv6(icmp).write(out, payload),
            Some(tci) => link
                .vlan(VlanHeader::Single(self.tag(tci, EtherType::IPV6)))
                .ipv6(source, destination, hops)
                .icmpv6(icmp)
                .write(out, payload),
        })
    }

    /// What neighbour discovery says of `target`, with this port's address in an option.
    fn discovery(
        self,
        to: MacAddr,
        ip: (Ipv6Addr, Ipv6Addr),
        icmp: Icmpv6Type,
        target: Ipv6Addr,
        option: u8,
    ) -> Vec<u8> {
        let mut payload = target.octets().to_vec();
        payload.extend([option, 1]);
        payload.extend(self.mac.0);
        self.v6(to, ip, DISCOVERY_HOP_LIMIT, icmp, &payload)
    }

    /// Asks for `target`: everybody, or the one who had this address last.
    pub(super) fn ask(self, own: IpAddr, target: IpAddr, of: Option<MacAddr>) -> Option<Vec<u8>> {
        match (own, target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let packet = ArpEthIpv4Packet {
                    operation: ArpOperation::REQUEST,
                    sender_mac: self.mac.0,
                    sender_ipv4: own.octets(),
                    target_mac: [0; 6],
                    target_ipv4: target.octets(),
                };
                Some(self.arp(of.unwrap_or(BROADCAST), packet))
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                let group = solicited_node(target);
                let (to, ip) = of.map_or((multicast_mac(group), group), |mac| (mac, target));
                Some(self.discovery(to, (own, ip), Icmpv6Type::NeighborSolicitation, target, SOURCE_ADDRESS))
            }
            _ => None,
        }
    }

    /// Answers an ARP request.
    pub(super) fn arp_reply(self, own: Ipv4Addr, to: (MacAddr, Ipv4Addr)) -> Vec<u8> {
        let packet = ArpEthIpv4Packet {
            operation: ArpOperation::REPLY,
            sender_mac: self.mac.0,
            sender_ipv4: own.octets(),
            target_mac: to.0.0,
            target_ipv4: to.1.octets(),
        };
        self.arp(to.0, packet)
    }

    /// Answers a solicitation; without somebody to answer to (the source is looking for a free address) everybody hears it.
    pub(super) fn advertise(self, own: Ipv6Addr, to: Option<(MacAddr, Ipv6Addr)>) -> Vec<u8> {
        let flags = NeighborAdvertisementHeader { router: false, solicited: to.is_some(), r#override: true };
        let (mac, ip) = to.unwrap_or((multicast_mac(ALL_NODES), ALL_NODES));
        self.discovery(mac, (own, ip), Icmpv6Type::NeighborAdvertisement(flags), own, TARGET_ADDRESS)
    }

    /// Tells everybody the own address: a gratuitous ARP request (RFC 5227, 3), or an unsolicited advertisement.
    pub(super) fn announce(self, own: IpAddr) -> Vec<u8> {
        match own {
            IpAddr::V4(own) => {
                let ip = own.octets();
                let packet = ArpEthIpv4Packet {
                    operation: ArpOperation::REQUEST,
                    sender_mac: self.mac.0,
                    sender_ipv4: ip,
                    target_mac: [0; 6],
                    target_ipv4: ip,
                };
                self.arp(BROADCAST, packet)
            }
            IpAddr::V6(own) => self.advertise(own, None),
        }
    }

    /// Answers a ping, back to where it came from.
    pub(super) fn pong(self, to: MacAddr, ping: &Ping<'_>) -> Vec<u8> {
        let echo = etherparse::IcmpEchoHeader { id: ping.id, seq: ping.seq };
        match (ping.destination, ping.source) {
            (IpAddr::V4(own), IpAddr::V4(other)) => self.v4(to, (own, other), Icmpv4Type::EchoReply(echo), ping.data),
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                self.v6(to, (own, other), ECHO_HOP_LIMIT, Icmpv6Type::EchoReply(echo), ping.data)
            }
            // A packet has addresses of one family.
            _ => Vec::new(),
        }
    }
}

/// What a builder writes; nothing where it refuses, as for a payload that is too long.
fn written<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    match write(&mut out) {
        Ok(()) => out,
        Err(_) => Vec::new(),
    }
}
