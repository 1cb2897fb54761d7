//! Ethernet, VLAN, IP and UDP, as far as MRC needs them.

use super::{Refusal, Rules, bytes, srv6};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::NonZeroU8;
use core::str::FromStr;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88A8;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;
/// Most VLAN tags that are skipped.
const VLAN_TAGS_MAX: usize = 2;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = ();

    fn from_str(text: &str) -> Result<MacAddr, ()> {
        let mut out = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut out {
            let part = parts.next().filter(|p| p.len() == 2).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().is_none().then_some(MacAddr(out)).ok_or(())
    }
}

/// The Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// Tag control information (priority, DEI, VLAN id) of the outer tag.
    pub vlan: Option<u16>,
}

/// What MRC reads of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Differentiated services codepoint, 0 to 63.
    pub dscp: u8,
    /// ECN field: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits; 0 over IPv4.
    pub flow_label: u32,
}

/// Where the layers of a frame begin and end, in bytes from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    pub(super) link: Link,
    /// The header that MRC judges: under SRv6 the inner one, with what switches wrote into the outer.
    pub(super) ip: Ip,
    /// First byte of that header.
    pub(super) ip_at: usize,
    /// First byte of the outer IPv6 header.
    pub(super) outer_at: Option<NonZeroU8>,
    /// End of what the outer header says it carries; without one, `ip_end`.
    pub(super) outer_end: usize,
    /// First byte of the UDP header.
    pub(super) udp_at: usize,
    /// End of what IP says it carries; the frame may have trailing bytes.
    pub(super) ip_end: usize,
    pub(super) udp: Udp,
}

/// Reads Ethernet and VLAN tags: the link header, the EtherType and where its payload begins.
#[inline]
fn read_link(head: &[u8]) -> Result<(Link, u16, usize), Refusal> {
    let eth: &[u8; 14] = bytes(head, 0).ok_or(Refusal::TruncatedEthernet)?;
    let &[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = eth;
    let mut link =
        Link { destination: MacAddr([d0, d1, d2, d3, d4, d5]), source: MacAddr([s0, s1, s2, s3, s4, s5]), vlan: None };
    let mut ethertype = u16::from_be_bytes([t0, t1]);
    let mut at = 14;
    for _ in 0..VLAN_TAGS_MAX {
        if ethertype != ETHERTYPE_VLAN && ethertype != ETHERTYPE_QINQ {
            break;
        }
        let &[c0, c1, t0, t1] = bytes(head, at).ok_or(Refusal::TruncatedVlan)?;
        link.vlan = link.vlan.or(Some(u16::from_be_bytes([c0, c1])));
        ethertype = u16::from_be_bytes([t0, t1]);
        at += 4;
    }
    Ok((link, ethertype, at))
}

#[inline]
fn v4(b: &[u8; 20], at: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3]))
}

/// An IP header, the protocol that follows, and the lengths of the header and of the packet.
type IpHeader = (Ip, u8, usize, usize);

#[inline]
fn read_ipv4(head: &[u8], at: usize) -> Result<IpHeader, Refusal> {
    let b: &[u8; 20] = bytes(head, at).ok_or(Refusal::TruncatedIpv4)?;
    let header_len = usize::from(b[0] & 0x0F) * 4;
    if b[0] >> 4 != 4 || header_len < 20 {
        return Err(Refusal::BadIpHeader);
    }
    if head.len() < at + header_len {
        return Err(Refusal::TruncatedIpv4);
    }
    // More fragments, or a fragment offset.
    if u16::from_be_bytes([b[6], b[7]]) & 0x3FFF != 0 {
        return Err(Refusal::Fragment);
    }
    let ip = Ip {
        source: v4(b, 12),
        destination: v4(b, 16),
        dscp: b[1] >> 2,
        ecn: b[1] & 3,
        hop_limit: b[8],
        flow_label: 0,
    };
    Ok((ip, b[9], header_len, usize::from(u16::from_be_bytes([b[2], b[3]]))))
}

#[inline]
pub(super) fn read_ipv6(head: &[u8], at: usize) -> Result<IpHeader, Refusal> {
    let b: &[u8; 40] = bytes(head, at).ok_or(Refusal::TruncatedIpv6)?;
    let first = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    if first >> 28 != 6 {
        return Err(Refusal::BadIpHeader);
    }
    let address = |from: usize| {
        let octets: [u8; 16] = *bytes(b, from).unwrap_or(&[0; 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let ip = Ip {
        source: address(8),
        destination: address(24),
        dscp: ((first >> 22) & 0x3F) as u8,
        ecn: ((first >> 20) & 3) as u8,
        hop_limit: b[7],
        flow_label: first & 0x000F_FFFF,
    };
    Ok((ip, b[6], 40, 40 + usize::from(u16::from_be_bytes([b[4], b[5]]))))
}

/// What reads on above the layers.
pub(super) trait Above {
    type Read;

    // A trait, since a closure is not compiled into where it is called more than once.
    fn read(&self, layers: &Layers) -> Result<Self::Read, Refusal>;
}

/// Reads the layers below MRC of a frame whose first bytes are `head`, and goes on with them in `above`. The lengths are told, not judged: a
/// trimming switch may have left them as they were.
///
/// It is compiled once for each way that layers can look: where the ways met, all that was read would go through memory.
#[inline(always)]
pub(super) fn with_layers<A: Above>(head: &[u8], rules: &Rules, above: &A) -> Result<A::Read, Refusal> {
    let (link, ethertype, at) = read_link(head)?;
    match ethertype {
        ETHERTYPE_IPV4 => match read_ipv4(head, at)? {
            header @ (_, PROTOCOL_UDP, ..) => above.read(&plain(head, rules, link, at, header)?),
            _ => Err(Refusal::NotUdp),
        },
        ETHERTYPE_IPV6 => match read_ipv6(head, at)? {
            header @ (_, PROTOCOL_UDP, ..) => above.read(&plain(head, rules, link, at, header)?),
            (ip, next, header_len, ip_len) => {
                let outer = OuterHeader { ip, at, end: at + ip_len, behind: at + header_len, next };
                above.read(&read_encapsulated(head, rules, link, outer)?)
            }
        },
        _ => Err(Refusal::NotIp),
    }
}

/// The layers of a frame whose one IP header, at `at`, UDP follows.
#[inline(always)]
fn plain(head: &[u8], rules: &Rules, link: Link, at: usize, header: IpHeader) -> Result<Layers, Refusal> {
    let (ip, _, header_len, ip_len) = header;
    let (udp_at, ip_end) = (at + header_len, at + ip_len);
    let udp = read_udp(head, udp_at, rules)?;
    Ok(Layers { link, ip, ip_at: at, outer_at: None, outer_end: ip_end, udp_at, ip_end, udp })
}

/// The outer IPv6 header of an encapsulated packet.
struct OuterHeader {
    ip: Ip,
    at: usize,
    /// End of what it says it carries.
    end: usize,
    /// First byte behind it.
    behind: usize,
    /// What it announces there.
    next: u8,
}

/// Goes on with an encapsulated packet.
#[inline(never)]
fn read_encapsulated(head: &[u8], rules: &Rules, link: Link, outer: OuterHeader) -> Result<Layers, Refusal> {
    let (ip, ip_at, udp_at, ip_end) = read_inner(head, outer.behind, outer.next)?;
    let udp = read_udp(head, udp_at, rules)?;
    let ip = srv6::decapsulated(&outer.ip, ip, &rules.dscp)?;
    Ok(Layers { link, ip, ip_at, outer_at: NonZeroU8::new(outer.at as u8), outer_end: outer.end, udp_at, ip_end, udp })
}

/// What MRC reads of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Udp {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) len: usize,
}

#[inline]
fn read_udp(head: &[u8], at: usize, rules: &Rules) -> Result<Udp, Refusal> {
    let &[s0, s1, d0, d1, l0, l1, _, _] = bytes(head, at).ok_or(Refusal::TruncatedUdp)?;
    let destination = u16::from_be_bytes([d0, d1]);
    if destination == 0 || !rules.udp_ports.contains(&destination) {
        return Err(Refusal::OtherUdpPort);
    }
    Ok(Udp { source: u16::from_be_bytes([s0, s1]), destination, len: usize::from(u16::from_be_bytes([l0, l1])) })
}

/// Reads the IPv6 header inside an outer one that ends at `at` and announces `next`: the header, where it and UDP begin, and where its
/// packet ends.
fn read_inner(head: &[u8], at: usize, next: u8) -> Result<(Ip, usize, usize, usize), Refusal> {
    let ip_at = srv6::inner_at(head, at, next)?;
    let (ip, protocol, header_len, ip_len) = read_ipv6(head, ip_at)?;
    match protocol {
        PROTOCOL_UDP => Ok((ip, ip_at, ip_at + header_len, ip_at + ip_len)),
        srv6::NEXT_IPV6 | srv6::NEXT_ROUTING => Err(Refusal::NestedEncapsulation),
        _ => Err(Refusal::NotUdp),
    }
}

/// The source address of an IP frame, under SRv6 the inner one, for steering it to the worker that owns it; `None` when there is none
/// to read.
#[inline]
#[must_use]
pub fn source_address(head: &[u8]) -> Option<IpAddr> {
    let (_, ethertype, at) = read_link(head).ok()?;
    match ethertype {
        ETHERTYPE_IPV4 => bytes::<4>(head, at + 12).map(|&b| IpAddr::V4(Ipv4Addr::from(b))),
        ETHERTYPE_IPV6 => srv6::innermost_source(head, at),
        _ => None,
    }
}

/// The QP number where the BTH of a frame without tags, options and encapsulation has it, whatever the frame is.
#[inline]
#[must_use]
pub fn probable_qp(head: &[u8]) -> Option<u32> {
    let bth_at = match bytes::<4>(head, 12)? {
        [0x08, 0x00, 0x45, _] => 14 + 20 + 8,
        [0x86, 0xDD, ..] => 14 + 40 + 8,
        _ => return None,
    };
    bytes::<4>(head, bth_at + 4).map(|&b| u32::from_be_bytes(b) & 0x00FF_FFFF)
}

/// Whether a frame that is not MRC may be ARP, neighbour discovery or ping: ARP, ICMP, or ICMPv6 right behind the IPv6 header. Nothing else of
/// it is checked.
#[must_use]
pub fn is_for_neighbours(head: &[u8]) -> bool {
    let Ok((_, ethertype, at)) = read_link(head) else { return false };
    let byte = |offset: usize| head.get(at + offset).copied();
    match ethertype {
        ETHERTYPE_ARP => true,
        ETHERTYPE_IPV4 => byte(9) == Some(PROTOCOL_ICMP),
        ETHERTYPE_IPV6 => byte(6) == Some(PROTOCOL_ICMPV6),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_read_and_print_alike() {
        let mac: MacAddr = "02:00:00:41:1e:7e".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:00:41:1e:7e");
        for wrong in ["", "02:00:00:41:1e", "02:00:00:41:1e:7e:00", "2:0:0:41:1e:7e", "02:00:00:41:1e:zz"] {
            assert!(wrong.parse::<MacAddr>().is_err(), "{wrong}");
        }
    }
}
