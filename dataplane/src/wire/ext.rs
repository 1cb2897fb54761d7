//! Extension headers, from the BTH's end to the payload.

mod put;

pub use put::ExtHeaders;

use super::{Bth, Opcode, Refusal, bytes};
use put::Cursor;

/// Message header, 4 bytes, in every data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meth {
    /// Number of the Write with Immediate that the packet belongs to; the first is 1. In a plain Write the last one given.
    pub rqmsn: u16,
    /// Number of the message, from 0.
    pub msn: u16,
}

/// Timestamp of TSETH, PETH and ERTH, 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamp {
    /// Low 16 bits of the sender's clock.
    pub ticks: u16,
    /// Resolution: false 128 ns, true 1.024 us.
    pub tsr: bool,
    /// Kind of timestamp; 1.
    pub ftype: u8,
}

impl Timestamp {
    /// A timestamp in units of 128 ns.
    #[must_use]
    pub const fn of(now: crate::Ns) -> Timestamp {
        Timestamp { ticks: (now.0 / crate::time::WIRE_TICK) as u16, tsr: false, ftype: 1 }
    }

    #[inline]
    fn read(b: [u8; 4]) -> Timestamp {
        Timestamp { ticks: u16::from_be_bytes([b[0], b[1]]), tsr: b[2] & 0x80 != 0, ftype: b[3] & 0x0F }
    }

    #[inline]
    fn to_bytes(self) -> [u8; 4] {
        let [t0, t1] = self.ticks.to_be_bytes();
        [t0, t1, u8::from(self.tsr) << 7, self.ftype & 0x0F]
    }
}

/// RDMA extended transport header, 16 bytes, in every data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reth {
    /// Remote address of this packet's payload; it advances by the MSS.
    pub va: u64,
    /// Key of the remote region.
    pub rkey: u32,
    /// Length of the whole message in bytes, the same in each packet.
    pub dmalen: u32,
}

/// What follows the BTH of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteHeaders {
    /// Message header.
    pub meth: Meth,
    /// The TSETH, where BTH `tsh` is set.
    pub timestamp: Option<Timestamp>,
    /// Where the payload goes.
    pub reth: Reth,
    /// Immediate data, with the two opcodes that carry it.
    pub immediate: Option<u32>,
}

/// Codes of [`Aeth::syndrome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Syndrome {
    /// Acknowledgement without credits.
    Ack = 0x1F,
    /// NAK: the request is malformed or not allowed in its place.
    InvalidRequest = 0x61,
    /// NAK: the key, the range or the access is wrong.
    RemoteAccess = 0x62,
    /// NAK: the responder could not carry the request out.
    RemoteOperation = 0x63,
    /// NAK: more Writes with Immediate in flight than the responder advertised.
    WriteImmLimit = 0x65,
}

impl Syndrome {
    /// The syndrome of a code, or `None` where MRC has none.
    #[must_use]
    pub const fn from_u8(code: u8) -> Option<Syndrome> {
        Some(match code {
            0x1F => Syndrome::Ack,
            0x61 => Syndrome::InvalidRequest,
            0x62 => Syndrome::RemoteAccess,
            0x63 => Syndrome::RemoteOperation,
            0x65 => Syndrome::WriteImmLimit,
            _ => return None,
        })
    }
}

/// ACK extended transport header, 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// ACK or the reason of a NAK; see [`Syndrome`].
    pub syndrome: u8,
    /// Number of the last completed message, 24 bits; 2^24 - 1 before any.
    pub msn: u32,
}

/// What a SACK tells of the path of the packet that drew it (SETH `m`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Skip {
    /// Nothing.
    #[default]
    None = 0,
    /// The packet was marked by ECN: pass its EV over once.
    Once = 1,
    /// Do not use the EV.
    Always = 2,
    /// Reserved.
    Reserved = 3,
}

impl Skip {
    #[inline]
    const fn from_bits(bits: u8) -> Skip {
        match bits & 3 {
            0 => Skip::None,
            1 => Skip::Once,
            2 => Skip::Always,
            _ => Skip::Reserved,
        }
    }
}

/// What drew a SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SackFor {
    /// A data packet: its PSN is `cack_psn` plus this.
    Packet {
        /// Distance from `cack_psn`, negative for a PSN below it.
        offset: i16,
    },
    /// A reliability probe.
    Probe {
        /// Its number.
        id: u16,
    },
}

/// Congestion state in a SACK, 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CcState {
    /// Reflected timestamp plus service time, or the service time alone, in ticks of 128 ns.
    pub tx_timestamp: u16,
    /// Packets held above `cack_psn`, 15 bits.
    pub ooo_count: u16,
    /// The window may return to what it was when the penalty ends.
    pub restore_cwnd: bool,
    /// Host back-pressure, 0 to 127.
    pub rcv_cwnd_pen: u8,
    /// Nominal bytes received, in units of 256 B rounded up, 24 bits, wrapping.
    pub rcvd_bytes: u32,
}

/// Selective acknowledgement: SETH and CC_STATE, 36 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack {
    /// Hint for the EV.
    pub skip: Skip,
    /// What drew it.
    pub answers: SackFor,
    /// EV of the packet that drew it; what that packet did not carry is 0.
    pub entropy: u32,
    /// Low 16 bits of the sender's QPN.
    pub spdcid: u16,
    /// Low 16 bits of the receiver's QPN.
    pub dpdcid: u16,
    /// The last PSN such that it and all before it arrived, 24 bits.
    pub cack_psn: u32,
    /// Congestion control type; 0 is NSCC.
    pub cc_type: u8,
    /// Congestion control flags.
    pub cc_flags: u8,
    /// Window in units of 128 PSNs; 0 unless Dynamic MPR is on.
    pub mpr: u8,
    /// Bit 0 of the bitmap stands for `cack_psn` plus this.
    pub sack_offset: i16,
    /// 1 for each PSN that arrived, least significant bit first.
    pub sack_bitmap: u64,
    /// Congestion state.
    pub cc: CcState,
}

/// Why a responder refuses a packet (NETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NackReason {
    /// Trimmed on the way.
    Trimmed = 0x01,
    /// Trimmed by the last switch.
    TrimmedLastHop = 0x02,
    /// No bitmap to spare.
    NoBitmap = 0x06,
    /// No packet buffer.
    NoPacketBuffer = 0x07,
    /// Another shortage.
    NoResource = 0x0A,
    /// Beyond the window.
    PsnOutOfWindow = 0x0B,
    /// The QP is in a state that cannot take the packet.
    UnexpectedEvent = 0x19,
}

impl NackReason {
    /// The reason of a code, or `None` where MRC has none.
    #[must_use]
    pub const fn from_u8(code: u8) -> Option<NackReason> {
        Some(match code {
            0x01 => NackReason::Trimmed,
            0x02 => NackReason::TrimmedLastHop,
            0x06 => NackReason::NoBitmap,
            0x07 => NackReason::NoPacketBuffer,
            0x0A => NackReason::NoResource,
            0x0B => NackReason::PsnOutOfWindow,
            0x19 => NackReason::UnexpectedEvent,
            _ => return None,
        })
    }
}

/// Negative acknowledgement (NETH), 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// Why; see [`NackReason`].
    pub reason: u8,
    /// Vendor's own.
    pub vendor_info: u8,
    /// EV of the packet that drew it.
    pub entropy: u32,
    /// Low 16 bits of the sender's QPN.
    pub spdcid: u16,
    /// Low 16 bits of the receiver's QPN.
    pub dpdcid: u16,
    /// PSN that is refused, 24 bits.
    pub nack_psn: u32,
    /// Congestion control type; 2 in a NACK.
    pub cc_type: u8,
    /// Congestion control flags.
    pub cc_flags: u8,
    /// Reflected timestamp plus service time, or the service time alone, in ticks of 128 ns.
    pub tx_timestamp: u16,
}

/// Reliability probe (PETH), 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Vendor's own.
    pub vendor_info: u8,
    /// Number of the probe.
    pub id: u16,
    /// Low 16 bits of the sender's QPN.
    pub spdcid: u16,
    /// Low 16 bits of the receiver's QPN.
    pub dpdcid: u16,
    /// When it was sent.
    pub timestamp: Timestamp,
}

/// Endpoint operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndpointOp {
    /// Which of the sender's ports are up.
    PortStatusUpdate = 0,
    /// Is this EV's path alive?
    EvProbe = 1,
    /// Reserved.
    Reserved2 = 2,
    /// Reserved.
    Reserved3 = 3,
}

impl EndpointOp {
    #[inline]
    const fn from_bits(bits: u8) -> EndpointOp {
        match bits & 3 {
            0 => EndpointOp::PortStatusUpdate,
            1 => EndpointOp::EvProbe,
            2 => EndpointOp::Reserved2,
            _ => EndpointOp::Reserved3,
        }
    }
}

/// Endpoint request (ERTH), 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointRequest {
    /// What is asked.
    pub op: EndpointOp,
    /// Vendor's own.
    pub vendor_info: u8,
    /// Bit i: the sender's port i is up.
    pub port_status_mask: u32,
    /// When it was sent.
    pub timestamp: Timestamp,
}

/// Endpoint response (EETH), 36 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    /// What was asked.
    pub op: EndpointOp,
    /// The request's timestamp plus the service time, in ticks of 128 ns.
    pub tx_timestamp: u16,
}

/// The extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ext {
    /// A Write of any form.
    Write(WriteHeaders),
    /// Transport ACK or NAK.
    Ack(Aeth),
    /// Selective acknowledgement.
    Sack(Sack),
    /// Negative acknowledgement.
    Nack(Nack),
    /// Reliability probe.
    Probe(Probe),
    /// Endpoint request.
    EndpointRequest(EndpointRequest),
    /// Endpoint response.
    EndpointResponse(EndpointResponse),
    /// A trimmed packet that ends before its headers do.
    Cut,
}

#[inline]
const fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[inline]
const fn be24(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, b[at], b[at + 1], b[at + 2]])
}

#[inline]
const fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[inline]
const fn be64(b: &[u8], at: usize) -> u64 {
    (be32(b, at) as u64) << 32 | be32(b, at + 4) as u64
}

impl WriteHeaders {
    /// Bytes of METH and RETH, which are always there.
    pub(super) const PLAIN: usize = 20;

    /// Bytes of the headers that are present.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        WriteHeaders::PLAIN
            + if self.timestamp.is_some() { 4 } else { 0 }
            + if self.immediate.is_some() { 4 } else { 0 }
    }

    /// Never: METH and RETH are always there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn read(from: &[u8], mut at: usize, bth: &Bth) -> Result<WriteHeaders, Refusal> {
        let m: &[u8; 4] = bytes(from, at).ok_or(Refusal::TruncatedMeth)?;
        at += 4;
        let mut timestamp = None;
        if bth.tsh {
            timestamp = Some(Timestamp::read(*bytes(from, at).ok_or(Refusal::TruncatedTseth)?));
            at += 4;
        }
        let r: &[u8; 16] = bytes(from, at).ok_or(Refusal::TruncatedReth)?;
        at += 16;
        let mut immediate = None;
        if bth.opcode.has_immediate() {
            immediate = Some(u32::from_be_bytes(*bytes(from, at).ok_or(Refusal::TruncatedImmDt)?));
        }
        Ok(WriteHeaders {
            meth: Meth { rqmsn: be16(m, 0), msn: be16(m, 2) },
            timestamp,
            reth: Reth { va: be64(r, 0), rkey: be32(r, 8), dmalen: be32(r, 12) },
            immediate,
        })
    }

    #[inline(always)]
    fn write(&self, out: &mut Cursor<'_>) {
        out.put32(u32::from(self.meth.rqmsn) << 16 | u32::from(self.meth.msn));
        if let Some(timestamp) = self.timestamp {
            out.put(&timestamp.to_bytes());
        }
        out.put(&self.reth.va.to_be_bytes());
        out.put(&(u64::from(self.reth.rkey) << 32 | u64::from(self.reth.dmalen)).to_be_bytes());
        if let Some(immediate) = self.immediate {
            out.put32(immediate);
        }
    }
}

impl Sack {
    /// Bytes on the wire, CC_STATE included.
    pub const LEN: usize = 36;
    const SETH_LEN: usize = 28;

    #[inline(always)]
    pub(super) fn read(from: &[u8], at: usize) -> Result<Sack, Refusal> {
        let b: &[u8; Sack::SETH_LEN] = bytes(from, at).ok_or(Refusal::TruncatedSeth)?;
        let c: &[u8; 8] = bytes(from, at + Sack::SETH_LEN).ok_or(Refusal::TruncatedCcState)?;
        let drew = be16(b, 2);
        Ok(Sack {
            skip: Skip::from_bits(b[1] >> 5),
            answers: if b[1] & 2 != 0 { SackFor::Probe { id: drew } } else { SackFor::Packet { offset: drew as i16 } },
            entropy: be32(b, 4),
            spdcid: be16(b, 8),
            dpdcid: be16(b, 10),
            cack_psn: be24(b, 13),
            cc_type: b[16] >> 4,
            cc_flags: b[16] & 0x0F,
            mpr: b[17],
            sack_offset: be16(b, 18) as i16,
            sack_bitmap: be64(b, 20),
            cc: CcState {
                tx_timestamp: be16(c, 0),
                ooo_count: be16(c, 2) & 0x7FFF,
                restore_cwnd: c[4] & 0x80 != 0,
                rcv_cwnd_pen: c[4] & 0x7F,
                rcvd_bytes: be24(c, 5),
            },
        })
    }

    #[inline(always)]
    fn write(&self, out: &mut Cursor<'_>) {
        let (pr, drew) = match self.answers {
            SackFor::Packet { offset } => (0, offset as u16),
            SackFor::Probe { id } => (2, id),
        };
        out.put(&[0, (self.skip as u8) << 5 | pr]);
        out.put16(drew);
        out.put32(self.entropy);
        out.put16(self.spdcid);
        out.put16(self.dpdcid);
        out.put32(self.cack_psn & 0x00FF_FFFF);
        out.put(&[self.cc_type << 4 | (self.cc_flags & 0x0F), self.mpr]);
        out.put16(self.sack_offset as u16);
        out.put(&self.sack_bitmap.to_be_bytes());
        out.put16(self.cc.tx_timestamp);
        out.put16(self.cc.ooo_count & 0x7FFF);
        let penalty = u32::from(self.cc.restore_cwnd) << 31 | u32::from(self.cc.rcv_cwnd_pen & 0x7F) << 24;
        out.put32(penalty | (self.cc.rcvd_bytes & 0x00FF_FFFF));
    }
}

impl Nack {
    /// Bytes on the wire.
    pub const LEN: usize = 20;

    #[inline]
    fn read(from: &[u8], at: usize) -> Result<Nack, Refusal> {
        let b: &[u8; Nack::LEN] = bytes(from, at).ok_or(Refusal::TruncatedNeth)?;
        Ok(Nack {
            reason: b[2],
            vendor_info: b[3],
            entropy: be32(b, 4),
            spdcid: be16(b, 8),
            dpdcid: be16(b, 10),
            nack_psn: be24(b, 13),
            cc_type: b[16] >> 4,
            cc_flags: b[16] & 0x0F,
            tx_timestamp: be16(b, 18),
        })
    }

    #[inline(always)]
    fn write(&self, out: &mut Cursor<'_>) {
        out.put(&[0, 0, self.reason, self.vendor_info]);
        out.put32(self.entropy);
        out.put16(self.spdcid);
        out.put16(self.dpdcid);
        out.put32(self.nack_psn & 0x00FF_FFFF);
        out.put(&[self.cc_type << 4 | (self.cc_flags & 0x0F), 0]);
        out.put16(self.tx_timestamp);
    }
}

impl Probe {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    #[inline]
    fn read(from: &[u8], at: usize) -> Result<Probe, Refusal> {
        let b: &[u8; Probe::LEN] = bytes(from, at).ok_or(Refusal::TruncatedPeth)?;
        Ok(Probe {
            vendor_info: b[3],
            id: be16(b, 4),
            spdcid: be16(b, 8),
            dpdcid: be16(b, 10),
            timestamp: Timestamp::read([b[12], b[13], b[14], b[15]]),
        })
    }

    #[inline(always)]
    fn write(&self, out: &mut Cursor<'_>) {
        out.put(&[0, 0, 0, self.vendor_info]);
        out.put16(self.id);
        out.put16(0);
        out.put16(self.spdcid);
        out.put16(self.dpdcid);
        out.put(&self.timestamp.to_bytes());
    }
}

impl EndpointRequest {
    const LEN: usize = 16;

    fn read(from: &[u8], at: usize) -> Result<EndpointRequest, Refusal> {
        let b: &[u8; EndpointRequest::LEN] = bytes(from, at).ok_or(Refusal::TruncatedErth)?;
        Ok(EndpointRequest {
            op: EndpointOp::from_bits(b[1]),
            vendor_info: b[3],
            port_status_mask: be32(b, 4),
            timestamp: Timestamp::read([b[12], b[13], b[14], b[15]]),
        })
    }

    fn write(&self, out: &mut Cursor<'_>) {
        out.put(&[0, self.op as u8, 0, self.vendor_info]);
        out.put32(self.port_status_mask);
        out.put32(0);
        out.put(&self.timestamp.to_bytes());
    }
}

impl EndpointResponse {
    const LEN: usize = 36;

    fn read(from: &[u8], at: usize) -> Result<EndpointResponse, Refusal> {
        let b: &[u8; EndpointResponse::LEN] = bytes(from, at).ok_or(Refusal::TruncatedEeth)?;
        Ok(EndpointResponse { op: EndpointOp::from_bits(b[1] >> 2), tx_timestamp: be16(b, 28) })
    }

    fn write(&self, out: &mut Cursor<'_>) {
        out.put(&[0, (self.op as u8) << 2, 0, 0]);
        out.put(&[0; 24]);
        out.put16(self.tx_timestamp);
        out.put(&[0; 6]);
    }
}

impl Aeth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    #[inline(always)]
    pub(super) fn read(from: &[u8], at: usize) -> Result<Aeth, Refusal> {
        let b: &[u8; Aeth::LEN] = bytes(from, at).ok_or(Refusal::TruncatedAeth)?;
        Ok(Aeth { syndrome: b[0], msn: be24(b, 1) })
    }

    #[inline(always)]
    fn write(&self, out: &mut Cursor<'_>) {
        out.put32(u32::from(self.syndrome) << 24 | (self.msn & 0x00FF_FFFF));
    }
}

impl Ext {
    /// Bytes on the wire.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Ext::Write(headers) => headers.len(),
            Ext::Ack(_) => Aeth::LEN,
            Ext::Sack(_) => Sack::LEN,
            Ext::Nack(_) => Nack::LEN,
            Ext::Probe(_) => Probe::LEN,
            Ext::EndpointRequest(_) => EndpointRequest::LEN,
            Ext::EndpointResponse(_) => EndpointResponse::LEN,
            Ext::Cut => 0,
        }
    }

    /// True for [`Ext::Cut`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self, Ext::Cut)
    }

    /// Reads the headers that `bth` announces, at `at`.
    #[inline(always)]
    pub(super) fn read(from: &[u8], at: usize, bth: &Bth) -> Result<Ext, Refusal> {
        Ok(match bth.opcode {
            Opcode::Ack => Ext::Ack(Aeth::read(from, at)?),
            Opcode::Sack => Ext::Sack(Sack::read(from, at)?),
            Opcode::Nack => Ext::Nack(Nack::read(from, at)?),
            Opcode::Probe => Ext::Probe(Probe::read(from, at)?),
            Opcode::EndpointRequest => Ext::EndpointRequest(EndpointRequest::read(from, at)?),
            Opcode::EndpointResponse => Ext::EndpointResponse(EndpointResponse::read(from, at)?),
            _ => Ext::Write(WriteHeaders::read(from, at, bth)?),
        })
    }
}
