//! A frame, read in place.

use super::{
    Aeth, Bth, Ext, ICRC_LEN, Icrc, Ip, Link, Opcode, Outer, Refusal, Rules, Sack, WriteHeaders, bytes, net, srv6,
};
use core::num::NonZeroU8;

/// Whether a switch cut the packet down to its headers, by its DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// The packet is whole.
    Whole,
    /// Trimmed on the way.
    Trimmed,
    /// Trimmed by the last switch.
    LastHop,
}

/// An MRC packet that was read in place. Positions are bytes from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Ethernet header.
    pub link: Link,
    /// IP header. Under SRv6 the inner one, except that `dscp` is the outer one's where that tells of trimming, and `ecn` holds the
    /// outer one's congestion mark too (RFC 6040).
    pub ip: Ip,
    /// UDP source port: the low 16 bits of the EV.
    pub udp_source: u16,
    /// UDP destination port.
    pub udp_destination: u16,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: Ext,
    /// Trimmed or whole. Lengths, payload and iCRC of a trimmed packet mean nothing.
    pub trim: Trim,
    /// First byte of the payload.
    pub payload_at: usize,
    /// Bytes of payload, without pad.
    pub payload_len: usize,
    ip_at: usize,
    udp_at: usize,
    outer_at: Option<NonZeroU8>,
}

impl Packet {
    /// The entropy value that the packet carries: UDP source port, and over IPv6 the low 16 bits of the flow label
    /// above it.
    #[inline]
    #[must_use]
    pub const fn ev(&self) -> u32 {
        (self.ip.flow_label & 0xFFFF) << 16 | self.udp_source as u32
    }

    /// Where the outer IPv6 header of an encapsulated packet stands, for switches that write into it.
    #[inline]
    #[must_use]
    pub fn outer_at(&self) -> Option<usize> {
        self.outer_at.map(|at| usize::from(at.get()))
    }

    /// The outer header of an encapsulated packet, read once more from the frame's first bytes.
    #[must_use]
    pub fn outer(&self, head: &[u8]) -> Option<Outer> {
        let outer = net::Header::v6(head, self.outer_at()?).ok()?;
        Some(Outer { ip: outer.read(), srh: outer.next() == srv6::NEXT_ROUTING })
    }

    /// Where the iCRC stands.
    #[inline]
    #[must_use]
    pub const fn icrc_at(&self) -> usize {
        self.payload_at + self.payload_len + self.bth.pad as usize
    }

    /// The packet's size for windows and accounting: payload, 60 bytes and the TSETH (RoCEv2 frame without Ethernet).
    #[inline]
    #[must_use]
    pub const fn nominal_size(&self) -> u32 {
        self.payload_len as u32 + super::NOMINAL_OVERHEAD + if self.bth.tsh { super::TSETH_LEN } else { 0 }
    }

    /// The running iCRC over all headers; the caller goes on over payload and pad, from `payload_at` to `icrc_at()`.
    #[inline]
    #[must_use]
    pub fn icrc_over_headers(&self, head: &[u8]) -> Option<Icrc> {
        Icrc::over(head.get(..self.payload_at)?, self.ip_at, self.udp_at)
    }

    /// The iCRC, where `head` holds all that it covers.
    #[inline]
    #[must_use]
    pub fn icrc_at_once(&self, head: &[u8]) -> Option<Icrc> {
        Icrc::over(head.get(..self.icrc_at())?, self.ip_at, self.udp_at)
    }

    /// Checks the iCRC of a frame that lies in one piece.
    #[must_use]
    pub fn icrc_ok(&self, frame: &[u8]) -> bool {
        let check = || {
            let mut icrc = self.icrc_over_headers(frame)?;
            icrc.update(frame.get(self.payload_at..self.icrc_at())?);
            Some(icrc.finish() == *bytes::<ICRC_LEN>(frame, self.icrc_at())?)
        };
        check().unwrap_or(false)
    }
}

/// Reads a frame of `len` bytes whose first bytes are `head`: all of it, or at least
/// [`HEAD_MAX`](super::HEAD_MAX). The iCRC is not checked here.
///
/// A packet in an outer IPv6 header, with or without an SRH, is decapsulated: everything is the inner packet's, but for what switches
/// write (see [`Packet::ip`]). Bytes after the UDP datagram (Ethernet padding, a captured FCS) are ignored. Of a trimmed packet the BTH is needed and no more.
///
/// # Errors
/// The first thing that is wrong, from the outside in.
#[inline]
pub fn parse(head: &[u8], len: usize, rules: &Rules) -> Result<Packet, Refusal> {
    net::with_layers(head, rules, &Parser { head, len, rules })
}

struct Parser<'a> {
    head: &'a [u8],
    len: usize,
    rules: &'a Rules,
}

impl net::Above for Parser<'_> {
    type Read = Packet;

    #[inline(always)]
    fn read(&self, layers: &net::Layers<'_>) -> Result<Packet, Refusal> {
        parse_above(self.head, self.len, self.rules, layers)
    }
}

/// Reads what the layers below carry.
#[inline(always)]
fn parse_above(head: &[u8], len: usize, rules: &Rules, layers: &net::Layers<'_>) -> Result<Packet, Refusal> {
    let trim = match layers.dscp {
        dscp if dscp == rules.dscp.trimmed => Trim::Trimmed,
        dscp if dscp == rules.dscp.trimmed_last_hop => Trim::LastHop,
        _ => Trim::Whole,
    };
    let bth_at = layers.udp_at + 8;
    if trim != Trim::Whole {
        return parse_trimmed(head, *layers, trim, bth_at);
    }
    if layers.ip_end > len || layers.ip_end < bth_at {
        return Err(Refusal::BadIpLength);
    }
    if layers.outer_end != layers.ip_end {
        return Err(Refusal::BadOuterLength);
    }
    let end = layers.udp_at + layers.udp_len();
    if end != layers.ip_end {
        return Err(Refusal::BadUdpLength);
    }
    let within = head.get(..end.min(head.len())).unwrap_or(head);
    let bth = Bth::read(within, bth_at)?;
    let ext_at = bth_at + Bth::LEN;
    // What is read of data goes into its place at once, and does not meet what is read of others before.
    if bth.opcode.is_data() {
        let headers = WriteHeaders::read(within, ext_at, &bth)?;
        let payload_at = ext_at + headers.len();
        let (body, payload_len) = body_lens(end, payload_at, &bth)?;
        if !body.is_multiple_of(4) {
            return Err(Refusal::BadPad);
        }
        return Ok(packet(layers, bth, Ext::Write(headers), trim, payload_at, payload_len));
    }
    let above = Bodiless { layers, bth, trim, ext_at, end };
    match bth.opcode {
        Opcode::Sack => above.with(Ext::Sack(Sack::read(within, ext_at)?)),
        Opcode::Ack => above.with(Ext::Ack(Aeth::read(within, ext_at)?)),
        _ => above.with(Ext::read(within, ext_at, &bth)?),
    }
}

/// Bytes between headers and iCRC of a packet that ends at `end`, with pad and without.
#[inline(always)]
fn body_lens(end: usize, payload_at: usize, bth: &Bth) -> Result<(usize, usize), Refusal> {
    let body = end.checked_sub(payload_at + ICRC_LEN).ok_or(Refusal::TruncatedIcrc)?;
    let payload_len = body.checked_sub(usize::from(bth.pad)).ok_or(Refusal::BadPad)?;
    Ok((body, payload_len))
}

/// A packet without payload, but for its extension headers.
struct Bodiless<'a> {
    layers: &'a net::Layers<'a>,
    bth: Bth,
    trim: Trim,
    ext_at: usize,
    end: usize,
}

impl Bodiless<'_> {
    #[inline(always)]
    fn with(self, ext: Ext) -> Result<Packet, Refusal> {
        let payload_at = self.ext_at + ext.len();
        let (body, payload_len) = body_lens(self.end, payload_at, &self.bth)?;
        if body != 0 {
            return Err(Refusal::UnexpectedPayload);
        }
        Ok(packet(self.layers, self.bth, ext, self.trim, payload_at, payload_len))
    }
}

/// A trimmed packet: lengths may or may not have been rewritten, and the cut may fall anywhere after the BTH.
#[cold]
fn parse_trimmed(head: &[u8], layers: net::Layers<'_>, trim: Trim, bth_at: usize) -> Result<Packet, Refusal> {
    let bth = Bth::read(head, bth_at)?;
    let ext = Ext::read(head, bth_at + Bth::LEN, &bth).unwrap_or(Ext::Cut);
    Ok(packet(&layers, bth, ext, trim, bth_at + Bth::LEN + ext.len(), 0))
}

#[inline(always)]
fn packet(layers: &net::Layers<'_>, bth: Bth, ext: Ext, trim: Trim, payload_at: usize, payload_len: usize) -> Packet {
    Packet {
        link: layers.link(),
        ip: layers.ip(),
        udp_source: layers.udp_source(),
        udp_destination: layers.udp_destination(),
        bth,
        ext,
        trim,
        payload_at,
        payload_len,
        ip_at: layers.ip_at,
        udp_at: layers.udp_at,
        outer_at: layers.outer_at,
    }
}
