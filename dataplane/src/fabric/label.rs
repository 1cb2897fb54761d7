//! What switches read of a frame, and what they write into it.
//!
//! A frame is read once, when it enters the fabric, and again only after a bit of it was flipped. Switches look at the outermost IP header
//! alone; behind a locator block the inner destination is read too, for the hop after the last uSID.

use super::plan::{Addresses, Plan};
use super::{FabricDrop, Forwarding};
use crate::wire::{Bth, DscpMap};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88A8];
const VLAN_TAGS_MAX: usize = 2;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_TCP: u8 = 6;
const NEXT_IPV6: u8 = 41;
const NEXT_ROUTING: u8 = 43;
const UDP_LEN: usize = 8;
/// What stays of the extension headers of a trimmed packet: METH and RETH, and the TSETH where there is one.
const METH_RETH_LEN: usize = 4 + 16;
const TSETH_LEN: usize = crate::wire::TSETH_LEN as usize;
const NOBODY: u32 = u32::MAX;
/// Bytes of Ethernet before preamble and FCS to which a frame is padded on the wire (IEEE 802.3).
const SHORTEST: u32 = 60;

/// Traffic class of a frame, by its DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Data,
    Control,
}

/// What the outermost IP header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    V4,
    V6,
    /// IPv6 with a destination in the locator block.
    Path,
}

/// What the fabric knows of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// What the ways up are chosen by: a hash over what flows are told by, or the entropy value.
    pub(super) choice: u64,
    /// The NIC that it is for, or `NOBODY`.
    to: u32,
    /// Bytes without FCS.
    pub(super) len: u32,
    /// Where the frame ends when it is trimmed.
    cut: u16,
    /// First byte of the outermost IP header.
    ip_at: u8,
    pub(super) class: Class,
    /// ECN-capable, and not marked.
    pub(super) capable: bool,
    trimmable: bool,
    form: Form,
    /// Why the first switch will drop it.
    pub(super) refusal: Option<FabricDrop>,
}

impl Label {
    const fn new(len: u32) -> Label {
        Label {
            choice: 0,
            to: NOBODY,
            len,
            cut: 0,
            ip_at: 0,
            class: Class::Data,
            capable: false,
            trimmable: false,
            form: Form::V4,
            refusal: None,
        }
    }

    /// The NIC that it is for.
    #[inline]
    pub(super) fn to(&self) -> Option<u32> {
        (self.to != NOBODY).then_some(self.to)
    }

    /// Bytes that it takes in a queue.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.len.max(SHORTEST)
    }

    /// Marks congestion in the outermost header.
    pub(super) fn mark(&mut self, bytes: &mut [u8]) {
        self.capable = false;
        self.change_class(bytes, 0xFF, 3);
    }

    /// Makes it a trimmed packet of the control class, if it may be one: returns the length that is left.
    pub(super) fn trim(&mut self, bytes: &mut [u8], dscp: u8) -> Option<usize> {
        if !self.trimmable {
            return None;
        }
        self.change_class(bytes, 3, dscp << 2);
        (self.trimmable, self.capable, self.class) = (false, false, Class::Control);
        self.len = self.len.min(self.cut.into());
        Some(self.len as usize)
    }

    /// The outer destination, when it is a path.
    #[inline]
    pub(super) fn usids(&self, bytes: &[u8]) -> Option<Ipv6Addr> {
        let read = || array::<16>(bytes, usize::from(self.ip_at) + 24).ok().map(|&b| Ipv6Addr::from(b));
        (self.form == Form::Path).then(read).flatten()
    }

    /// Writes what is left of the uSIDs.
    pub(super) fn write_usids(&self, bytes: &mut [u8], usids: Ipv6Addr) {
        let at = usize::from(self.ip_at) + 24;
        if let Some(room) = bytes.get_mut(at..at + 16) {
            room.copy_from_slice(&usids.octets());
        }
    }

    /// Keeps these bits of the traffic class and sets others.
    fn change_class(&self, bytes: &mut [u8], keep: u8, set: u8) {
        let at = usize::from(self.ip_at);
        let Some(ip) = bytes.get_mut(at..at + 20) else { return };
        if self.form != Form::V4 {
            let class = (ip[0] << 4 | ip[1] >> 4) & keep | set;
            ip[0] = ip[0] & 0xF0 | class >> 4;
            ip[1] = ip[1] & 0x0F | class << 4;
            return;
        }
        let before = u16::from_be_bytes([ip[0], ip[1]]);
        ip[1] = ip[1] & keep | set;
        let after = u16::from_be_bytes([ip[0], ip[1]]);
        // RFC 1624, equation 3.
        let sum = u32::from(!u16::from_be_bytes([ip[10], ip[11]])) + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let sum = (sum & 0xFFFF) + (sum >> 16);
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// Reads frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    dscp: DscpMap,
    addresses: Addresses,
    nics: u32,
    /// Locator block of SRv6.
    locator: Option<u32>,
    /// Switches look for the entropy value.
    structured: bool,
    flow_label: bool,
}

impl Reader {
    pub(super) fn new(plan: &Plan, nics: u32) -> Reader {
        let (locator, flow_label) = match &plan.forwarding {
            Forwarding::Ecmp(hash) => (None, hash.flow_label),
            Forwarding::StructuredEv { .. } => (None, false),
            Forwarding::Srv6 { locator, others } => (Some(*locator), others.flow_label),
        };
        let structured = matches!(plan.forwarding, Forwarding::StructuredEv { .. });
        Reader { dscp: plan.dscp, addresses: plan.addresses, nics, locator, structured, flow_label }
    }

    /// Reads a frame of `len` bytes that begins with `head`.
    pub(super) fn read(&self, head: &[u8], len: usize) -> Label {
        let mut label = Label::new(u32::try_from(len).unwrap_or(u32::MAX));
        label.refusal = self.fill(&mut label, head).err();
        label
    }

    fn fill(&self, label: &mut Label, head: &[u8]) -> Result<(), FabricDrop> {
        let (ethertype, at) = ethertype(head)?;
        label.ip_at = at as u8;
        match ethertype {
            ETHERTYPE_IPV4 => self.fill_ipv4(label, head, at),
            ETHERTYPE_IPV6 => self.fill_ipv6(label, head, at),
            _ => Err(FabricDrop::NotIp),
        }
    }

    fn fill_ipv4(&self, label: &mut Label, head: &[u8], at: usize) -> Result<(), FabricDrop> {
        let b: &[u8; 20] = array(head, at)?;
        let header = usize::from(b[0] & 0x0F) * 4;
        if b[0] >> 4 != 4 || header < 20 {
            return Err(FabricDrop::Malformed);
        }
        let addresses: &[u8; 8] = array(b, 12)?;
        label.to = self.nic(Ipv4Addr::new(b[16], b[17], b[18], b[19]).into());
        let key = mix(b[9].into(), u64::from_be_bytes(*addresses));
        // A fragment has no ports, or is told from its first by them.
        let whole = u16::from_be_bytes([b[6], b[7]]) & 0x3FFF == 0;
        let protocol = if whole { b[9] } else { 0 };
        self.fill_transport(label, head, at + header, protocol, key, 0);
        self.fill_class(label, b[1], protocol);
        Ok(())
    }

    fn fill_ipv6(&self, label: &mut Label, head: &[u8], at: usize) -> Result<(), FabricDrop> {
        let b = ipv6(head, at)?;
        label.form = Form::V6;
        let class = b[0] << 4 | b[1] >> 4;
        let destination = destination(b);
        if self.locator.is_some_and(|locator| (destination.to_bits() >> 96) as u32 == locator) {
            label.form = Form::Path;
            let inner_at = inner_at(head, at + 40, b[6])?;
            let inner = ipv6(head, inner_at)?;
            label.to = self.nic(self::destination(inner).into());
            label.cut = cut(head, inner_at + 40);
            self.fill_class(label, class, inner[6]);
            return Ok(());
        }
        label.to = self.nic(destination.into());
        let flow_label = u32::from_be_bytes([0, b[1] & 0x0F, b[2], b[3]]);
        let mut key = mix(b[6].into(), if self.flow_label { flow_label.into() } else { 0 });
        for word in b[8..].chunks_exact(8) {
            key = mix(key, u64::from_be_bytes(*array(word, 0)?));
        }
        self.fill_transport(label, head, at + 40, b[6], key, flow_label);
        self.fill_class(label, class, b[6]);
        Ok(())
    }

    /// Ports, and where to cut.
    fn fill_transport(&self, label: &mut Label, head: &[u8], at: usize, protocol: u8, key: u64, flow_label: u32) {
        let has_ports = protocol == PROTOCOL_UDP || protocol == PROTOCOL_TCP;
        let ports = array::<4>(head, at).copied().ok().filter(|_| has_ports).unwrap_or_default();
        label.cut = cut(head, at);
        label.choice = if self.structured {
            (flow_label << 16 | u32::from(u16::from_be_bytes([ports[0], ports[1]]))).into()
        } else {
            mix(key, u32::from_be_bytes(ports).into())
        };
    }

    fn fill_class(&self, label: &mut Label, class: u8, protocol: u8) {
        let DscpMap { trimmable, trimmable_retx, trimmed, trimmed_last_hop, control, .. } = self.dscp;
        let (dscp, ecn) = (class >> 2, class & 3);
        if [control, trimmed, trimmed_last_hop].contains(&dscp) {
            label.class = Class::Control;
        }
        label.trimmable = protocol == PROTOCOL_UDP && (dscp == trimmable || dscp == trimmable_retx);
        label.capable = ecn == 1 || ecn == 2;
    }

    fn nic(&self, address: IpAddr) -> u32 {
        self.addresses.nic(address).map(|nic| nic.0).filter(|&nic| nic < self.nics).unwrap_or(NOBODY)
    }
}

/// Spreads what is hashed: every input bit reaches the upper output bits of the next round.
#[inline]
fn mix(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    product ^ product >> 32
}

fn array<const N: usize>(from: &[u8], at: usize) -> Result<&[u8; N], FabricDrop> {
    from.get(at..).and_then(<[u8]>::first_chunk).ok_or(FabricDrop::Malformed)
}

/// EtherType behind VLAN tags, and where its payload begins.
fn ethertype(head: &[u8]) -> Result<(u16, usize), FabricDrop> {
    let mut at = 12;
    loop {
        let ethertype = u16::from_be_bytes(*array(head, at)?);
        at += 2;
        if !ETHERTYPES_VLAN.contains(&ethertype) || at > 12 + 4 * VLAN_TAGS_MAX {
            return Ok((ethertype, at));
        }
        at += 2;
    }
}

fn ipv6(head: &[u8], at: usize) -> Result<&[u8; 40], FabricDrop> {
    array(head, at).and_then(|b: &[u8; 40]| if b[0] >> 4 == 6 { Ok(b) } else { Err(FabricDrop::Malformed) })
}

fn destination(header: &[u8; 40]) -> Ipv6Addr {
    Ipv6Addr::from(array::<16>(header, 24).copied().unwrap_or_default())
}

/// Where the inner header begins, when an outer one that ends at `at` announces `next`.
fn inner_at(head: &[u8], at: usize, next: u8) -> Result<usize, FabricDrop> {
    match next {
        NEXT_IPV6 => Ok(at),
        NEXT_ROUTING => match array(head, at)? {
            &[NEXT_IPV6, units] => Ok(at + 8 + usize::from(units) * 8),
            _ => Err(FabricDrop::Malformed),
        },
        _ => Err(FabricDrop::Malformed),
    }
}

/// Where a packet with this UDP header is cut: behind the RETH. Like a switch that knows the offset alone, it does not ask for the opcode.
fn cut(head: &[u8], udp_at: usize) -> u16 {
    let bth_at = udp_at + UDP_LEN;
    let tsh = Bth::read(head, bth_at).is_ok_and(|bth| bth.tsh);
    (bth_at + Bth::LEN + METH_RETH_LEN + if tsh { TSETH_LEN } else { 0 }) as u16
}
