//! Writing frames.
//!
//! The addresses of a QP never change, so Ethernet, IP and UDP, and the headers of an SRv6 encapsulation, are written once into a
//! template (by etherparse, off the hot path) and copied for each frame; what differs from packet to packet is patched.

use super::{Bth, Encapsulation, ExtHeaders, ICRC_LEN, Icrc, MacAddr, OuterMarks, UsidPath, srv6};
use core::net::IpAddr;
use etherparse::{
    Ethernet2Header, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, SingleVlanHeader, UdpHeader, VlanId, VlanPcp,
};

/// Ethernet, IP and UDP without a tag or an encapsulation, and no more than the shortest frame of MRC.
const TEMPLATE_USUAL: usize = 64;

/// Ethernet, one VLAN tag, IPv6 with an SRH, IPv6 and UDP.
const TEMPLATE_MAX: usize = 14 + 4 + 40 + srv6::SRH_LEN + 40 + 8;

/// The addresses of frames in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Our Ethernet address.
    pub source_mac: MacAddr,
    /// The next hop's Ethernet address.
    pub destination_mac: MacAddr,
    /// Tag control information, for a tagged port.
    pub vlan: Option<u16>,
    /// Our IP address.
    pub source: IpAddr,
    /// The peer's IP address, of the same family.
    pub destination: IpAddr,
    /// TTL or hop limit, 1 to 255.
    pub hop_limit: u8,
    /// UDP destination port.
    pub udp_port: u16,
}

/// Why a template cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressingError {
    /// One address is IPv4, the other IPv6.
    #[error("{0} and {1} are not of one address family: give two IPv4 or two IPv6 addresses")]
    MixedFamilies(IpAddr, IpAddr),
    /// SRv6 encapsulates IPv6, as next header 41 says.
    #[error("SRv6 carries IPv6, and {0} is an IPv4 address: give the QP IPv6 addresses, or no SRv6 path")]
    EncapsulatedIpv4(IpAddr),
}

/// Destination and source Ethernet address, as a frame begins with them.
pub type LinkAddresses = [u8; 12];

/// The beginning of a frame from `source` to `destination`.
#[must_use]
pub fn link_addresses(source: MacAddr, destination: MacAddr) -> LinkAddresses {
    let mut link = [0; 12];
    link[..6].copy_from_slice(&destination.0);
    link[6..].copy_from_slice(&source.0);
    link
}

/// Writes the Ethernet addresses of another port than the template's into a frame. The iCRC does not cover them.
#[inline]
pub fn write_link(frame: &mut [u8], link: &LinkAddresses) {
    if let Some(addresses) = frame.first_chunk_mut() {
        *addresses = *link;
    }
}

/// What differs from packet to packet below the BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Entropy value. Over IPv4 only the low 16 bits travel.
    pub ev: u32,
    /// Differentiated services codepoint.
    pub dscp: u8,
    /// ECN field.
    pub ecn: u8,
}

/// Ready-made Ethernet, IP and UDP headers.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    bytes: [u8; TEMPLATE_MAX],
    /// The outer IPv6 header.
    outer: Option<OuterPlace>,
    /// The IP header that carries UDP.
    ip_at: u8,
    udp_at: u8,
    v6: bool,
    /// IPv4: sum of the header's 16-bit words with TOS, length and checksum as 0.
    ip_sum: u32,
}

/// Where an encapsulation's headers stand.
#[derive(Clone, Copy, Debug)]
struct OuterPlace {
    at: u8,
    srh: bool,
    path: UsidPath,
}

impl OuterPlace {
    /// Writes what differs from packet to packet.
    #[inline]
    fn write(self, below: &mut [u8], outer: &OuterMarks) {
        let at = usize::from(self.at);
        let destination = outer.destination.octets();
        below[at..at + 4].copy_from_slice(&outer.first_word());
        below[at + 24..at + 40].copy_from_slice(&destination);
        if self.srh {
            below[at + 48..at + 64].copy_from_slice(&destination);
        }
    }
}

/// Bytes of padding that round `payload` up to a multiple of 4.
#[inline]
#[must_use]
pub const fn padding(payload: usize) -> usize {
    payload.wrapping_neg() & 3
}

/// Length of a frame without FCS whose headers up to and including UDP take `below` bytes, and its extension headers `ext_len`.
#[inline]
#[must_use]
pub const fn frame_len(below: usize, ext_len: usize, payload: usize) -> usize {
    below + Bth::LEN + ext_len + payload + padding(payload) + ICRC_LEN
}

impl Template {
    /// Makes the headers for `addressing`.
    ///
    /// # Errors
    /// [`AddressingError::MixedFamilies`].
    pub fn new(addressing: &Addressing) -> Result<Template, AddressingError> {
        Template::build(addressing, None)
    }

    /// Makes the headers for `addressing` inside an outer IPv6 header, and an SRH if that is wanted: 40 or 64 bytes more. Outer and inner
    /// hop limit are the same.
    ///
    /// # Errors
    /// [`AddressingError`].
    pub fn encapsulated(addressing: &Addressing, outer: &Encapsulation) -> Result<Template, AddressingError> {
        match addressing.source {
            IpAddr::V6(_) => Template::build(addressing, Some(outer)),
            IpAddr::V4(_) => Err(AddressingError::EncapsulatedIpv4(addressing.source)),
        }
    }

    fn build(addressing: &Addressing, encapsulation: Option<&Encapsulation>) -> Result<Template, AddressingError> {
        let mut bytes = [0; TEMPLATE_MAX];
        let mut at = 0;
        let mut put = |header: &[u8]| {
            bytes[at..at + header.len()].copy_from_slice(header);
            at += header.len();
            at
        };
        let v6 = addressing.source.is_ipv6();
        let ether_type = if v6 { etherparse::EtherType::IPV6 } else { etherparse::EtherType::IPV4 };
        let tagged = addressing.vlan.is_some();
        let mut ip_at = put(&Ethernet2Header {
            source: addressing.source_mac.0,
            destination: addressing.destination_mac.0,
            ether_type: if tagged { etherparse::EtherType::VLAN_TAGGED_FRAME } else { ether_type },
        }
        .to_bytes());
        if let Some(tci) = addressing.vlan {
            let tag = SingleVlanHeader {
                pcp: VlanPcp::try_new((tci >> 13) as u8).unwrap_or_default(),
                drop_eligible_indicator: tci & 0x1000 != 0,
                vlan_id: VlanId::try_new(tci & 0x0FFF).unwrap_or_default(),
                ether_type,
            };
            ip_at = put(&tag.to_bytes());
        }
        let mut outer = None;
        if let Some(encapsulation) = encapsulation {
            outer = Some(OuterPlace { at: ip_at as u8, srh: encapsulation.srh, path: encapsulation.path });
            let destination = encapsulation.path.destination();
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 0,
                next_header: if encapsulation.srh { IpNumber::IPV6_ROUTE_HEADER } else { IpNumber::IPV6 },
                hop_limit: addressing.hop_limit,
                source: encapsulation.source.octets(),
                destination: destination.octets(),
            };
            ip_at = put(&ip.to_bytes());
            if encapsulation.srh {
                ip_at = put(&srv6::srh(destination));
            }
        }
        let mut ip_sum = 0;
        let udp_at = match (addressing.source, addressing.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4Header {
                    time_to_live: addressing.hop_limit,
                    protocol: IpNumber::UDP,
                    dont_fragment: true,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Default::default()
                };
                let mut header = ip.to_bytes();
                header[2..4].fill(0);
                header[10..12].fill(0);
                ip_sum = header.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
                put(&header)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: 0,
                    next_header: IpNumber::UDP,
                    hop_limit: addressing.hop_limit,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                put(&ip.to_bytes())
            }
            (source, destination) => return Err(AddressingError::MixedFamilies(source, destination)),
        };
        put(&UdpHeader { source_port: 0, destination_port: addressing.udp_port, length: 0, checksum: 0 }.to_bytes());
        Ok(Template { bytes, outer, ip_at: ip_at as u8, udp_at: udp_at as u8, v6, ip_sum })
    }

    /// Gives all frames other Ethernet addresses: those of another port.
    pub const fn set_link(&mut self, link: LinkAddresses) {
        let (addresses, _) = self.bytes.split_at_mut(link.len());
        addresses.copy_from_slice(&link);
    }

    /// Gives all frames another next hop, and leaves the source as it is.
    pub fn set_destination(&mut self, mac: MacAddr) {
        self.bytes[..6].copy_from_slice(&mac.0);
    }

    /// Bytes of Ethernet, IP and UDP, and of the encapsulation.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.udp_at as usize + 8
    }

    /// Where IP and UDP begin, without an encapsulation.
    pub(super) const fn plain(&self) -> Option<(usize, usize)> {
        match self.outer {
            None => Some((self.ip_at as usize, self.udp_at as usize)),
            Some(_) => None,
        }
    }

    /// Never: a template has all three headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Length of the frame that carries `ext_len` bytes of extension headers and `payload` bytes, without FCS.
    #[inline]
    #[must_use]
    pub const fn frame_len(&self, ext_len: usize, payload: usize) -> usize {
        frame_len(self.len(), ext_len, payload)
    }

    /// Writes all headers of a frame into `frame`, which has the length that [`Template::frame_len`] gives, and returns
    /// where the payload goes; `None` when the headers do not fit. The pad count of `bth` follows from `payload`. An encapsulated frame
    /// takes the path of the template, with [`OuterMarks::of`]; [`Template::write_outer`] changes that.
    #[inline(always)]
    #[must_use]
    pub fn write_headers(
        &self,
        frame: &mut [u8],
        marks: Marks,
        bth: &Bth,
        ext: &impl ExtHeaders,
        payload: usize,
    ) -> Option<usize> {
        let len = frame.len();
        self.write_headers_of(frame, len, marks, bth, ext, payload)
    }

    /// As [`Template::write_headers`], into the first bytes of a frame of `len` bytes.
    // Always: what a packet's headers are made of need not be in memory for it.
    #[inline(always)]
    #[must_use]
    pub fn write_headers_of(
        &self,
        frame: &mut [u8],
        len: usize,
        marks: Marks,
        bth: &Bth,
        ext: &impl ExtHeaders,
        payload: usize,
    ) -> Option<usize> {
        let (ip_at, udp_at) = (usize::from(self.ip_at), usize::from(self.udp_at));
        // In one piece of constant length where that fits: what follows is written over it.
        match frame.first_chunk_mut::<TEMPLATE_USUAL>() {
            Some(first) if self.len() <= TEMPLATE_USUAL => first.copy_from_slice(&self.bytes[..TEMPLATE_USUAL]),
            _ => frame.get_mut(..self.len())?.copy_from_slice(&self.bytes[..self.len()]),
        }
        let below = frame.get_mut(..self.len())?;
        let ip_len = (len - ip_at) as u16;
        let udp_len = (len - udp_at) as u16;
        let traffic_class = marks.dscp << 2 | marks.ecn;
        if let Some(outer) = self.outer {
            let at = usize::from(outer.at);
            below[at..at + 4].copy_from_slice(&OuterMarks::of(outer.path, marks).first_word());
            below[at + 4..at + 6].copy_from_slice(&((len - at - 40) as u16).to_be_bytes());
        }
        let ip: &mut [u8; 20] = below.get_mut(ip_at..)?.first_chunk_mut()?;
        if self.v6 {
            let first = 6 << 28 | u32::from(traffic_class) << 20 | marks.ev >> 16;
            ip[..4].copy_from_slice(&first.to_be_bytes());
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
        } else {
            ip[1] = traffic_class;
            ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
            ip[10..12].copy_from_slice(&self.ipv4_checksum(traffic_class, ip_len).to_be_bytes());
        }
        let udp: &mut [u8; 8] = below.last_chunk_mut()?;
        udp[..2].copy_from_slice(&(marks.ev as u16).to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        let mut bth = *bth;
        bth.pad = padding(payload) as u8;
        let bth_at = self.len();
        frame.get_mut(bth_at..bth_at + Bth::LEN)?.copy_from_slice(&bth.to_bytes());
        let ext_at = bth_at + Bth::LEN;
        Some(ext_at + ext.put(frame.get_mut(ext_at..)?)?)
    }

    /// Gives a frame of this template another path and other marks outside, once [`Template::write_headers`] has written it, before or
    /// after [`Template::seal`]: the iCRC does not cover the outer header. `false`, and nothing is written, when the template is not one of
    /// [`Template::encapsulated`] or the frame is too short.
    #[inline]
    #[must_use]
    pub fn write_outer(&self, frame: &mut [u8], outer: &OuterMarks) -> bool {
        let (Some(place), Some(below)) = (self.outer, frame.get_mut(..self.len())) else { return false };
        place.write(below, outer);
        true
    }

    /// Header checksum from the prepared sum and the two words that differ (RFC 1071).
    #[inline]
    fn ipv4_checksum(&self, traffic_class: u8, ip_len: u16) -> u16 {
        let mut sum = self.ip_sum + u32::from(traffic_class) + u32::from(ip_len);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        !(sum as u16)
    }

    /// Writes pad and iCRC behind a payload of `payload` bytes at `payload_at`. `false` when the frame is too short.
    #[inline]
    #[must_use]
    pub fn seal(&self, frame: &mut [u8], payload_at: usize, payload: usize) -> bool {
        let Some((head, tail)) = frame.split_at_mut_checked(payload_at + payload) else { return false };
        let Some(icrc) = self.icrc_over(head) else { return false };
        Template::end(tail, icrc, padding(payload))
    }

    /// Begins the iCRC of a frame over its first bytes: all headers, and what follows them.
    #[inline]
    #[must_use]
    pub fn icrc_over(&self, head: &mut [u8]) -> Option<Icrc> {
        Icrc::over_mut(head, self.ip_at.into(), self.udp_at.into())
    }

    /// Writes what follows the payload, over which `icrc` went last: `pad` bytes (0 to 3) and the iCRC. `false` when `tail` is too short.
    #[inline]
    #[must_use]
    pub fn end(tail: &mut [u8], mut icrc: Icrc, pad: usize) -> bool {
        let Some((zeros, rest)) = tail.split_at_mut_checked(pad) else { return false };
        if pad > 0 {
            zeros.fill(0);
            icrc.update(zeros);
        }
        let Some(room) = rest.first_chunk_mut::<ICRC_LEN>() else { return false };
        *room = icrc.finish();
        true
    }
}
