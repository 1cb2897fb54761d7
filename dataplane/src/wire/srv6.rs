//! SRv6 with compressed segments (uSIDs): the packet in an outer IPv6 header, whose destination is the path.
//!
//! IPv6 in IPv6 (RFC 8986 H.Encaps.Red), with a Segment Routing Header of one segment where the network wants one (RFC 8754). The
//! destination is a 32-bit locator block and up to six 16-bit uSIDs (RFC 9800, NEXT-CSID); each switch uses the first of them up.

use super::{DscpMap, Ip, Marks, Refusal, bytes};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// Next header: IPv6 in IPv6.
pub(super) const NEXT_IPV6: u8 = 41;
/// Next header: a routing header.
pub(super) const NEXT_ROUTING: u8 = 43;
/// Routing type of the SRH.
const ROUTING_TYPE_SRH: u8 = 4;
/// Most uSIDs that one destination address holds beside the locator.
pub const USIDS_MAX: usize = 6;
/// Bytes of an SRH with one segment.
pub(super) const SRH_LEN: usize = 24;
/// Longest SRH that is skipped: with it the header stack still fits [`HEAD_MAX`](super::HEAD_MAX).
pub(super) const SRH_READ_MAX: usize = 96;

/// Congestion experienced.
const CE: u8 = 3;
/// The ECN-capable codepoint that may carry a milder signal, so that it survives decapsulation.
const ECT1: u8 = 1;

/// A path: locator and uSIDs, first hop first. Its form is the outer destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsidPath(Ipv6Addr);

/// Why a path can't be written as one destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsidError {
    /// None, or more than [`USIDS_MAX`].
    #[error("{0} uSIDs given, and a path has 1 to {USIDS_MAX}")]
    Count(usize),
    /// A 0 tells where the uSIDs end.
    #[error("uSID 0 ends a path and can't be part of it")]
    Zero,
}

impl UsidPath {
    /// The path over `usids`, first hop first, in the locator block `locator` (bits 127:96 of the address).
    ///
    /// # Errors
    /// [`UsidError`].
    pub fn new(locator: u32, usids: &[u16]) -> Result<UsidPath, UsidError> {
        if usids.is_empty() || usids.len() > USIDS_MAX {
            return Err(UsidError::Count(usids.len()));
        }
        if usids.contains(&0) {
            return Err(UsidError::Zero);
        }
        let mut segments = [(locator >> 16) as u16, locator as u16, 0, 0, 0, 0, 0, 0];
        for (to, from) in segments[2..].iter_mut().zip(usids) {
            *to = *from;
        }
        Ok(UsidPath(Ipv6Addr::from(segments)))
    }

    /// The path that an outer destination address stands for.
    ///
    /// # Errors
    /// [`UsidError`]: the address has no uSID, or a gap between them.
    pub fn from_address(address: Ipv6Addr) -> Result<UsidPath, UsidError> {
        let segments = address.segments();
        let count = segments.iter().skip(2).rposition(|&usid| usid != 0).map_or(0, |last| last + 1);
        UsidPath::new((address.to_bits() >> 96) as u32, &segments[2..2 + count])
    }

    /// The outer destination address at the sender.
    #[inline]
    #[must_use]
    pub const fn destination(self) -> Ipv6Addr {
        self.0
    }

    /// The locator block.
    #[must_use]
    pub const fn locator(self) -> u32 {
        (self.0.to_bits() >> 96) as u32
    }

    /// The uSIDs, first hop first.
    pub fn usids(self) -> impl Iterator<Item = u16> {
        self.0.segments().into_iter().skip(2).take_while(|&usid| usid != 0)
    }
}

impl fmt::Display for UsidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The destination after its first uSID is used up: the others move up by 16 bits, and zeros follow (RFC 9800, NEXT-CSID).
#[inline]
#[must_use]
pub const fn next_usid(destination: Ipv6Addr) -> Ipv6Addr {
    let address = destination.to_bits();
    let usids = u128::MAX >> 32;
    Ipv6Addr::from_bits(address & !usids | address << 16 & usids)
}

/// What the switch with this locator block and uSID makes of a destination: the one it forwards on, or `None` when the packet is not
/// addressed to it. After the last uSID the locator is left with zeros.
#[inline]
#[must_use]
pub const fn at_switch(destination: Ipv6Addr, locator: u32, usid: u16) -> Option<Ipv6Addr> {
    let own = (locator as u64) << 16 | usid as u64;
    if usid == 0 || (destination.to_bits() >> 80) as u64 != own {
        return None;
    }
    Some(next_usid(destination))
}

/// How frames are encapsulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Outer source address.
    pub source: Ipv6Addr,
    /// The path of frames that are given no other.
    pub path: UsidPath,
    /// Writes an SRH with the path as its one segment.
    pub srh: bool,
}

/// What differs from packet to packet in the outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterMarks {
    /// The path.
    pub destination: Ipv6Addr,
    /// Differentiated services codepoint, 0 to 63.
    pub dscp: u8,
    /// ECN field, 0 to 3.
    pub ecn: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl OuterMarks {
    /// The outer header of a packet with these marks. Switches look at the outer header alone, so it repeats DSCP and ECN (RFC 6040, normal
    /// mode), and its flow label folds the 32 bits of the EV into 20, for hops that still hash.
    #[inline]
    #[must_use]
    pub const fn of(path: UsidPath, marks: Marks) -> OuterMarks {
        OuterMarks::to(path.0, marks)
    }

    /// The same for a path in the form of its address.
    #[inline]
    #[must_use]
    pub const fn to(destination: Ipv6Addr, marks: Marks) -> OuterMarks {
        OuterMarks {
            destination,
            dscp: marks.dscp,
            ecn: marks.ecn,
            flow_label: (marks.ev ^ marks.ev >> 20) & 0x000F_FFFF,
        }
    }

    /// The first word of the header.
    #[inline]
    pub(super) const fn first_word(&self) -> [u8; 4] {
        let class = ((self.dscp & 0x3F) << 2 | (self.ecn & 3)) as u32;
        (6 << 28 | class << 20 | (self.flow_label & 0x000F_FFFF)).to_be_bytes()
    }
}

/// An outer header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The outer IPv6 header, as it arrived.
    pub ip: Ip,
    /// An SRH followed it.
    pub srh: bool,
}

/// The SRH with one segment, which is the destination: none is left after it.
pub(super) fn srh(segment: Ipv6Addr) -> [u8; SRH_LEN] {
    let mut header = [0; SRH_LEN];
    let (fixed, list) = header.split_at_mut(8);
    fixed.copy_from_slice(&[NEXT_IPV6, (SRH_LEN / 8 - 1) as u8, ROUTING_TYPE_SRH, 0, 0, 0, 0, 0]);
    list.copy_from_slice(&segment.octets());
    header
}

/// Where the inner IPv6 header begins, when `next` is the next header of an outer one that ends at `at`.
#[inline]
pub(super) fn inner_at(head: &[u8], at: usize, next: u8) -> Result<usize, Refusal> {
    match next {
        NEXT_IPV6 => Ok(at),
        NEXT_ROUTING => skip_srh(head, at),
        _ => Err(Refusal::NotUdp),
    }
}

fn skip_srh(head: &[u8], at: usize) -> Result<usize, Refusal> {
    let &[next, units, kind, left, last_entry, ..] = bytes::<8>(head, at).ok_or(Refusal::TruncatedSrh)?;
    if kind != ROUTING_TYPE_SRH {
        return Err(Refusal::OtherRoutingHeader);
    }
    if next != NEXT_IPV6 {
        return Err(Refusal::NoInnerIpv6);
    }
    let len = 8 + usize::from(units) * 8;
    let list = (usize::from(last_entry) + 1) * 16;
    if left > 1 || 8 + list > len {
        return Err(Refusal::BadSrh);
    }
    if len > SRH_READ_MAX {
        return Err(Refusal::LongSrh);
    }
    if head.len() < at + len {
        return Err(Refusal::TruncatedSrh);
    }
    Ok(at + len)
}

/// The IP header that the receiver judges: the inner one, with what switches wrote outside. Trimming shows in the outer DSCP, or in the
/// inner one where the encapsulation came later; congestion marks are merged as RFC 6040, section 4.2, says.
pub(super) fn decapsulated(outer: &Ip, inner: Ip, dscp: &DscpMap) -> Result<Ip, Refusal> {
    let is_trimmed = |codepoint| codepoint == dscp.trimmed || codepoint == dscp.trimmed_last_hop;
    if is_trimmed(outer.dscp) {
        return Ok(Ip { dscp: outer.dscp, ..inner });
    }
    let ecn = match (inner.ecn, outer.ecn) {
        // Of a trimmed packet nothing is believed but its BTH.
        (own, _) if is_trimmed(inner.dscp) => own,
        // The mark can't be passed on, so the packet is dropped: its sender reacts to a loss.
        (0, CE) => return Err(Refusal::MarkedNotEct),
        (0, _) => 0,
        (_, CE) => CE,
        (2, ECT1) => ECT1,
        (own, _) => own,
    };
    Ok(Ip { ecn, ..inner })
}

/// The inner source address of an encapsulated packet, or that of the one header there is.
#[inline]
pub(super) fn innermost_source(head: &[u8], ip_at: usize) -> Option<IpAddr> {
    let &[next] = bytes::<1>(head, ip_at + 6)?;
    let at = match next {
        NEXT_IPV6 | NEXT_ROUTING => inner_at(head, ip_at + 40, next).ok()?,
        _ => ip_at,
    };
    bytes::<16>(head, at + 8).map(|&b| IpAddr::V6(Ipv6Addr::from(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_is_its_locator_and_its_usids() {
        let path = UsidPath::new(0xFCBB_BB00, &[1, 2, 0xFFFF]).unwrap();
        assert_eq!(path.destination(), address("fcbb:bb00:1:2:ffff::"));
        assert_eq!(path.to_string(), "fcbb:bb00:1:2:ffff::");
        assert_eq!(path.locator(), 0xFCBB_BB00);
        assert_eq!(path.usids().collect::<Vec<_>>(), [1, 2, 0xFFFF]);
        assert_eq!(UsidPath::new(1, &[1, 2, 3, 4, 5, 6]).unwrap().destination(), address("0:1:1:2:3:4:5:6"));
        assert_eq!(UsidPath::new(1, &[]), Err(UsidError::Count(0)));
        assert_eq!(UsidPath::new(1, &[7; 7]), Err(UsidError::Count(7)));
        assert_eq!(UsidPath::new(1, &[7, 0, 7]), Err(UsidError::Zero));
        assert_eq!(UsidPath::from_address(path.destination()), Ok(path));
        assert_eq!(UsidPath::from_address(address("fcbb:bb00::")), Err(UsidError::Count(0)));
        assert_eq!(UsidPath::from_address(address("fcbb:bb00:1:0:2::")), Err(UsidError::Zero));
    }

    #[test]
    fn each_switch_uses_up_its_usid_and_no_other() {
        let locator = 0xFCBB_BB00;
        let mut at = address("fcbb:bb00:1:2:3:4:5:6");
        assert_eq!(at_switch(at, locator, 2), None);
        assert_eq!(at_switch(at, locator + 1, 1), None);
        for (usid, next) in [
            (1, "fcbb:bb00:2:3:4:5:6:0"),
            (2, "fcbb:bb00:3:4:5:6::"),
            (3, "fcbb:bb00:4:5:6::"),
            (4, "fcbb:bb00:5:6::"),
            (5, "fcbb:bb00:6::"),
            (6, "fcbb:bb00::"),
        ] {
            at = at_switch(at, locator, usid).unwrap();
            assert_eq!(at, address(next));
        }
        assert_eq!(at_switch(at, locator, 0), None);
        assert_eq!(next_usid(at), at);
    }

    /// RFC 6040, figure 4: rows by the inner field, columns by the outer, in the order Not-ECT, ECT(0), ECT(1), CE.
    #[test]
    fn congestion_marks_merge_as_rfc_6040_has_it() {
        let columns = [0, 2, 1, 3];
        let rows = [
            (0, [Some(0), Some(0), Some(0), None]),
            (2, [Some(2), Some(2), Some(1), Some(3)]),
            (1, [Some(1), Some(1), Some(1), Some(3)]),
            (3, [Some(3); 4]),
        ];
        let ip = |dscp, ecn| {
            let (source, destination) = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
            Ip { source, destination, dscp, ecn, hop_limit: 1, flow_label: 0 }
        };
        for (inner, row) in rows {
            for (outer, expected) in columns.into_iter().zip(row) {
                let merged = decapsulated(&ip(0, outer), ip(4, inner), &DscpMap::default());
                assert_eq!(merged, expected.map(|ecn| ip(4, ecn)).ok_or(Refusal::MarkedNotEct));
                // Nothing can make a trimmed packet worse.
                assert!(decapsulated(&ip(12, outer), ip(4, inner), &DscpMap::default()).is_ok_and(|ip| ip.dscp == 12));
                assert!(decapsulated(&ip(0, outer), ip(16, inner), &DscpMap::default()).is_ok_and(|ip| ip.dscp == 16));
            }
        }
    }
}
