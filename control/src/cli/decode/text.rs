//! One readable line a packet, in the manner of tcpdump.

use super::verdict::{Icrc, Verdict};
use crate::records::capture::CapturedPacket;
use dataplane::wire::{
    Aeth, EndpointOp, Ext, Nack, NackReason, Packet, Sack, SackFor, Skip, Syndrome, Timestamp, Trim, WriteHeaders,
};
use std::fmt::{self, Display};
use std::io::{self, Write};

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Writes lines whose columns stay aligned.
#[derive(Default)]
pub(super) struct Text {
    /// Time of the first packet that has one.
    start_ns: Option<u64>,
    /// Width of the widest pair of addresses so far.
    addresses: usize,
}

impl Text {
    /// Writes the line, without its end.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        captured: &CapturedPacket<'_>,
        verdict: &Verdict,
    ) -> io::Result<()> {
        write!(out, "{:>6} {:>14} ", captured.index, self.time(captured))?;
        match verdict {
            Verdict::Read { packet, icrc } => {
                self.packet(out, packet, captured.bytes)?;
                let icrc = match icrc {
                    Icrc::Right => "icrc ok",
                    Icrc::Wrong => "icrc WRONG",
                    Icrc::None if packet.trim == Trim::LastHop => "trimmed by the last hop",
                    Icrc::None => "trimmed",
                };
                write!(out, ", {icrc}")
            }
            Verdict::Refused { reason, headers, .. } => {
                if let Some(packet) = headers {
                    self.packet(out, packet, captured.bytes)?;
                    out.extend_from_slice(b", ");
                }
                write!(out, "[{reason}]")
            }
        }
    }

    /// Seconds since the first packet.
    fn time(&mut self, captured: &CapturedPacket<'_>) -> String {
        let Some(now) = captured.time_ns else { return "-".to_owned() };
        let since = i128::from(now) - i128::from(*self.start_ns.get_or_insert(now));
        let sign = if since < 0 { "-" } else { "" };
        let since = since.abs();
        format!("{sign}{}.{:09}", since / SECOND, since % SECOND)
    }

    fn packet(&mut self, out: &mut Vec<u8>, packet: &Packet, frame: &[u8]) -> io::Result<()> {
        let addresses = format!("{} > {}", packet.ip.source, packet.ip.destination);
        self.addresses = self.addresses.max(addresses.len());
        let (width, bth) = (self.addresses, &packet.bth);
        write!(out, "{addresses:<width$}  {:<17} ev 0x{:08x} ", bth.opcode.name(), packet.ev())?;
        write!(out, "qp {:<8} psn {:<8} ", bth.dqp, bth.psn)?;
        for (set, name) in [(bth.ack_request, "a "), (bth.rtx, "rtx "), (bth.se, "se ")] {
            if set {
                out.extend_from_slice(name.as_bytes());
            }
        }
        write!(out, "{}, ", Fields(&packet.ext))?;
        if let Some(tci) = packet.link.vlan {
            write!(out, "vlan {}, ", tci & 0x0FFF)?;
        }
        if let Some(outer) = packet.outer(frame) {
            let srh = if outer.srh { " srh" } else { "" };
            write!(out, "srv6 {} > {}{srh}, ", outer.ip.source, outer.ip.destination)?;
        }
        write!(out, "dscp {} {}, len {}", packet.ip.dscp, ecn(packet.ip.ecn), packet.payload_len)
    }
}

const fn ecn(bits: u8) -> &'static str {
    match bits {
        0 => "not-ect",
        1 => "ect1",
        2 => "ect0",
        _ => "CE",
    }
}

/// The extension headers' fields that matter to a reader.
struct Fields<'a>(&'a Ext);

impl Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ext::Write(headers) => write_fields(f, headers),
            Ext::Ack(ack) => ack_fields(f, ack),
            Ext::Sack(sack) => sack_fields(f, sack),
            Ext::Nack(nack) => nack_fields(f, nack),
            Ext::Probe(probe) => write!(f, "probe {} {}", probe.id, At(probe.timestamp)),
            Ext::EndpointRequest(request) => match request.op {
                EndpointOp::PortStatusUpdate => {
                    write!(f, "ports up 0x{:x} {}", request.port_status_mask, At(request.timestamp))
                }
                op => write!(f, "{} {}", endpoint_op(op), At(request.timestamp)),
            },
            Ext::EndpointResponse(response) => write!(f, "{} ts {}", endpoint_op(response.op), response.tx_timestamp),
            Ext::Cut => f.write_str("headers cut"),
        }
    }
}

const fn endpoint_op(op: EndpointOp) -> &'static str {
    match op {
        EndpointOp::PortStatusUpdate => "port status",
        EndpointOp::EvProbe => "ev probe",
        EndpointOp::Reserved2 => "op 2",
        EndpointOp::Reserved3 => "op 3",
    }
}

/// A timestamp in its own units.
struct At(Timestamp);

impl Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ts {}{}", self.0.ticks, if self.0.tsr { " x1.024us" } else { "" })
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, headers: &WriteHeaders) -> fmt::Result {
    let WriteHeaders { meth, timestamp, reth, immediate } = headers;
    write!(f, "msn {} va 0x{:x} rkey 0x{:x} of {}", meth.msn, reth.va, reth.rkey, reth.dmalen)?;
    if let Some(immediate) = immediate {
        write!(f, " imm 0x{immediate:x} rqmsn {}", meth.rqmsn)?;
    }
    timestamp.map_or(Ok(()), |timestamp| write!(f, " {}", At(timestamp)))
}

fn ack_fields(f: &mut fmt::Formatter<'_>, ack: &Aeth) -> fmt::Result {
    match Syndrome::from_u8(ack.syndrome) {
        Some(Syndrome::Ack) => f.write_str("ack")?,
        Some(Syndrome::InvalidRequest) => f.write_str("NAK invalid request")?,
        Some(Syndrome::RemoteAccess) => f.write_str("NAK remote access error")?,
        Some(Syndrome::RemoteOperation) => f.write_str("NAK remote operational error")?,
        Some(Syndrome::WriteImmLimit) => f.write_str("NAK too many writes with immediate")?,
        None => write!(f, "syndrome 0x{:02x}", ack.syndrome)?,
    }
    write!(f, " msn {}", ack.msn)
}

fn sack_fields(f: &mut fmt::Formatter<'_>, sack: &Sack) -> fmt::Result {
    write!(f, "cack {} ", sack.cack_psn)?;
    match sack.answers {
        SackFor::Probe { id } => write!(f, "probe {id}")?,
        SackFor::Packet { offset } => write!(f, "for {offset:+}")?,
    }
    write!(f, " bitmap {:+} 0x{:016x}", sack.sack_offset, sack.sack_bitmap)?;
    match sack.skip {
        Skip::None => {}
        Skip::Once => f.write_str(" skip-once")?,
        Skip::Always => f.write_str(" always-skip")?,
        Skip::Reserved => f.write_str(" m 3")?,
    }
    write!(f, " of ev 0x{:08x} ts {} ooo {} ", sack.entropy, sack.cc.tx_timestamp, sack.cc.ooo_count)?;
    write!(f, "rcvd {}x256 pen {}", sack.cc.rcvd_bytes, sack.cc.rcv_cwnd_pen)?;
    if sack.cc.restore_cwnd { f.write_str(" restore") } else { Ok(()) }
}

fn nack_fields(f: &mut fmt::Formatter<'_>, nack: &Nack) -> fmt::Result {
    let reason = match NackReason::from_u8(nack.reason) {
        Some(NackReason::Trimmed) => "TRIMMED",
        Some(NackReason::TrimmedLastHop) => "TRIMMED_LASTHOP",
        Some(NackReason::NoBitmap) => "NO_BITMAP",
        Some(NackReason::NoPacketBuffer) => "NO_PKT_BUFFER",
        Some(NackReason::NoResource) => "NO_RESOURCE",
        Some(NackReason::PsnOutOfWindow) => "PSN_OOR_WINDOW",
        Some(NackReason::UnexpectedEvent) => "UNEXP_EVENT",
        None => "",
    };
    if reason.is_empty() {
        write!(f, "reason 0x{:02x}", nack.reason)?
    } else {
        f.write_str(reason)?
    }
    write!(f, " psn {} of ev 0x{:08x} ts {}", nack.nack_psn, nack.entropy, nack.tx_timestamp)
}
