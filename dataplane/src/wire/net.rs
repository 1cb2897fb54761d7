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

/// The layers of a frame: where they stand, and where they begin and end, in bytes from its first.
// Read field by field only where a field is used: what is kept until then takes room and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers<'h> {
    ethernet: Ethernet<'h>,
    header: Header<'h>,
    /// Codepoint and ECN field as MRC judges them: under SRv6 the inner header's, with what switches wrote into the outer.
    pub(super) dscp: u8,
    ecn: u8,
    /// First byte of the IP header that MRC judges: under SRv6 the inner one.
    pub(super) ip_at: usize,
    /// First byte of the outer IPv6 header.
    pub(super) outer_at: Option<NonZeroU8>,
    /// End of what the outer header says it carries; without one, `ip_end`.
    pub(super) outer_end: usize,
    /// First byte of the UDP header.
    pub(super) udp_at: usize,
    /// End of what IP says it carries; the frame may have trailing bytes.
    pub(super) ip_end: usize,
    udp: &'h [u8; 8],
}

impl Layers<'_> {
    #[inline(always)]
    pub(super) fn link(&self) -> Link {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *self.ethernet.header;
        let (destination, source) = (MacAddr([d0, d1, d2, d3, d4, d5]), MacAddr([s0, s1, s2, s3, s4, s5]));
        Link { destination, source, vlan: self.ethernet.vlan }
    }

    #[inline(always)]
    pub(super) fn ip(&self) -> Ip {
        Ip { dscp: self.dscp, ecn: self.ecn, ..self.header.read() }
    }

    #[inline(always)]
    pub(super) fn udp_source(&self) -> u16 {
        u16::from_be_bytes([self.udp[0], self.udp[1]])
    }

    #[inline(always)]
    pub(super) fn udp_destination(&self) -> u16 {
        u16::from_be_bytes([self.udp[2], self.udp[3]])
    }

    /// What UDP says for the length of its header and what follows.
    #[inline(always)]
    pub(super) fn udp_len(&self) -> usize {
        u16::from_be_bytes([self.udp[4], self.udp[5]]).into()
    }
}

/// Ethernet and its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ethernet<'h> {
    header: &'h [u8; 14],
    /// The outer tag.
    vlan: Option<u16>,
    /// What follows.
    ethertype: u16,
    /// Where that begins.
    end: usize,
}

#[inline(always)]
fn read_ethernet(head: &[u8]) -> Result<Ethernet<'_>, Refusal> {
    let header: &[u8; 14] = bytes(head, 0).ok_or(Refusal::TruncatedEthernet)?;
    let mut ethertype = u16::from_be_bytes([header[12], header[13]]);
    let (mut vlan, mut at) = (None, 14);
    for _ in 0..VLAN_TAGS_MAX {
        if ethertype != ETHERTYPE_VLAN && ethertype != ETHERTYPE_QINQ {
            break;
        }
        let &[c0, c1, t0, t1] = bytes(head, at).ok_or(Refusal::TruncatedVlan)?;
        vlan = vlan.or(Some(u16::from_be_bytes([c0, c1])));
        ethertype = u16::from_be_bytes([t0, t1]);
        at += 4;
    }
    Ok(Ethernet { header, vlan, ethertype, end: at })
}

/// An IP header whose version, and over IPv4 length and fragment, are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header<'h> {
    V4(&'h [u8; 20]),
    V6(&'h [u8; 40]),
}

impl<'h> Header<'h> {
    #[inline(always)]
    fn v4(head: &'h [u8], at: usize) -> Result<Header<'h>, Refusal> {
        let b: &[u8; 20] = bytes(head, at).ok_or(Refusal::TruncatedIpv4)?;
        let header = Header::V4(b);
        if b[0] >> 4 != 4 || header.len() < 20 {
            return Err(Refusal::BadIpHeader);
        }
        if head.len() < at + header.len() {
            return Err(Refusal::TruncatedIpv4);
        }
        // More fragments, or a fragment offset.
        if u16::from_be_bytes([b[6], b[7]]) & 0x3FFF != 0 {
            return Err(Refusal::Fragment);
        }
        Ok(header)
    }

    #[inline(always)]
    pub(super) fn v6(head: &'h [u8], at: usize) -> Result<Header<'h>, Refusal> {
        let b: &[u8; 40] = bytes(head, at).ok_or(Refusal::TruncatedIpv6)?;
        if b[0] >> 4 != 6 { Err(Refusal::BadIpHeader) } else { Ok(Header::V6(b)) }
    }

    /// Its length, and that of its options.
    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Header::V4(b) => usize::from(b[0] & 0x0F) * 4,
            Header::V6(_) => 40,
        }
    }

    /// The length of the packet, this header included.
    #[inline(always)]
    fn packet_len(&self) -> usize {
        match self {
            Header::V4(b) => u16::from_be_bytes([b[2], b[3]]).into(),
            Header::V6(b) => 40 + usize::from(u16::from_be_bytes([b[4], b[5]])),
        }
    }

    /// What follows it.
    #[inline(always)]
    pub(super) fn next(&self) -> u8 {
        match self {
            Header::V4(b) => b[9],
            Header::V6(b) => b[6],
        }
    }

    /// Codepoint and ECN field.
    #[inline(always)]
    fn marks(&self) -> (u8, u8) {
        let class = match self {
            Header::V4(b) => b[1],
            Header::V6(b) => b[0] << 4 | b[1] >> 4,
        };
        (class >> 2, class & 3)
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Ip {
        let (dscp, ecn) = self.marks();
        match self {
            Header::V4(b) => {
                let address = |at: usize| IpAddr::V4(Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3]));
                Ip { source: address(12), destination: address(16), dscp, ecn, hop_limit: b[8], flow_label: 0 }
            }
            Header::V6(b) => {
                let address = |at: usize| {
                    let octets: [u8; 16] = *bytes(&b[..], at).unwrap_or(&[0; 16]);
                    IpAddr::V6(Ipv6Addr::from(octets))
                };
                let flow_label = u32::from_be_bytes([0, b[1] & 0x0F, b[2], b[3]]);
                Ip { source: address(8), destination: address(24), dscp, ecn, hop_limit: b[7], flow_label }
            }
        }
    }
}

/// What reads on above the layers.
pub(super) trait Above {
    type Read;

    // A trait, since a closure is not compiled into where it is called more than once.
    fn read(&self, layers: &Layers<'_>) -> Result<Self::Read, Refusal>;
}

/// Reads the layers below MRC of a frame whose first bytes are `head`, and goes on with them in `above`. The lengths are told, not judged: a
/// trimming switch may have left them as they were.
///
/// It is compiled once for each way that layers can look: where the ways met, all that was read would go through memory.
#[inline(always)]
pub(super) fn with_layers<A: Above>(head: &[u8], rules: &Rules, above: &A) -> Result<A::Read, Refusal> {
    let ethernet = read_ethernet(head)?;
    let header = match ethernet.ethertype {
        ETHERTYPE_IPV4 => Header::v4(head, ethernet.end)?,
        ETHERTYPE_IPV6 => Header::v6(head, ethernet.end)?,
        _ => return Err(Refusal::NotIp),
    };
    let below = Below { ethernet, header };
    match header {
        Header::V4(_) if header.next() == PROTOCOL_UDP => above.read(&below.plain(head, rules)?),
        Header::V4(_) => Err(Refusal::NotUdp),
        Header::V6(_) if header.next() == PROTOCOL_UDP => above.read(&below.plain(head, rules)?),
        Header::V6(_) => above.read(&below.encapsulated(head, rules)?),
    }
}

/// Ethernet and the first IP header.
struct Below<'h> {
    ethernet: Ethernet<'h>,
    header: Header<'h>,
}

impl<'h> Below<'h> {
    /// The layers of a frame whose one IP header UDP follows.
    #[inline(always)]
    fn plain(&self, head: &'h [u8], rules: &Rules) -> Result<Layers<'h>, Refusal> {
        let &Below { ethernet, header } = self;
        let at = ethernet.end;
        let (udp_at, ip_end) = (at + header.len(), at + header.packet_len());
        let udp = read_udp(head, udp_at, rules)?;
        let (dscp, ecn) = header.marks();
        Ok(Layers { ethernet, header, dscp, ecn, ip_at: at, outer_at: None, outer_end: ip_end, udp_at, ip_end, udp })
    }

    /// The layers of an encapsulated packet, whose outer header this is.
    #[inline(never)]
    fn encapsulated(&self, head: &'h [u8], rules: &Rules) -> Result<Layers<'h>, Refusal> {
        let &Below { ethernet, header: outer } = self;
        let at = ethernet.end;
        let ip_at = srv6::inner_at(head, at + outer.len(), outer.next())?;
        let header = Header::v6(head, ip_at)?;
        match header.next() {
            PROTOCOL_UDP => {}
            srv6::NEXT_IPV6 | srv6::NEXT_ROUTING => return Err(Refusal::NestedEncapsulation),
            _ => return Err(Refusal::NotUdp),
        }
        let udp_at = ip_at + header.len();
        let udp = read_udp(head, udp_at, rules)?;
        let Ip { dscp, ecn, .. } = srv6::decapsulated(&outer.read(), header.read(), &rules.dscp)?;
        Ok(Layers {
            ethernet,
            header,
            dscp,
            ecn,
            ip_at,
            outer_at: NonZeroU8::new(at as u8),
            outer_end: at + outer.packet_len(),
            udp_at,
            ip_end: ip_at + header.packet_len(),
            udp,
        })
    }
}

/// A UDP header, if it is to a port of MRC.
#[inline(always)]
fn read_udp<'h>(head: &'h [u8], at: usize, rules: &Rules) -> Result<&'h [u8; 8], Refusal> {
    let udp: &[u8; 8] = bytes(head, at).ok_or(Refusal::TruncatedUdp)?;
    let destination = u16::from_be_bytes([udp[2], udp[3]]);
    if destination == 0 || !rules.udp_ports.contains(&destination) {
        return Err(Refusal::OtherUdpPort);
    }
    Ok(udp)
}

/// The source address of an IP frame, under SRv6 the inner one, for steering it to the worker that owns it; `None` when there is none
/// to read.
#[inline]
#[must_use]
pub fn source_address(head: &[u8]) -> Option<IpAddr> {
    let Ethernet { ethertype, end: at, .. } = read_ethernet(head).ok()?;
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
    let Ok(Ethernet { ethertype, end: at, .. }) = read_ethernet(head) else { return false };
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
