//! One JSON object a packet. Names and forms of the fields are those of `tests/vectors/frames.json`; flags are 0 and 1.

use super::verdict::{Icrc, Verdict};
use crate::records::capture::CapturedPacket;
use dataplane::wire::{Bth, Ext, Nack, Outer, Packet, Probe, Sack, SackFor, Timestamp, Trim, WriteHeaders};
use serde::Serialize;
use std::io;
use std::net::IpAddr;

/// Writes the object, without a line end.
pub(super) fn write(out: &mut Vec<u8>, captured: &CapturedPacket<'_>, verdict: &Verdict) -> io::Result<()> {
    let facts = Facts { time_ns: captured.time_ns, len: captured.original_len, captured: captured.bytes.len() };
    match verdict {
        Verdict::Read { packet, icrc } => {
            let icrc_ok = match icrc {
                Icrc::Right => Some(true),
                Icrc::Wrong => Some(false),
                Icrc::None => None,
            };
            let (index, packet, lower) =
                (captured.index, PacketFields::of(packet), LowerFields::of(packet, captured.bytes));
            serde_json::to_writer(out, &Decoded { index, ok: true, packet, icrc_ok, lower, facts })
        }
        Verdict::Refused { reason, headers, .. } => {
            let packet = headers.as_ref().map(PacketFields::of);
            let lower = headers.as_ref().map(|headers| LowerFields::of(headers, captured.bytes));
            serde_json::to_writer(out, &Refused { index: captured.index, ok: false, reason, packet, lower, facts })
        }
    }
    .map_err(io::Error::from)
}

#[derive(Serialize)]
struct Decoded {
    index: u64,
    ok: bool,
    #[serde(flatten)]
    packet: PacketFields,
    /// `null` for a trimmed packet, which has none.
    icrc_ok: Option<bool>,
    #[serde(flatten)]
    lower: LowerFields,
    #[serde(flatten)]
    facts: Facts,
}

#[derive(Serialize)]
struct Refused<'a> {
    index: u64,
    ok: bool,
    reason: &'a str,
    /// Present where the capture holds all headers, but not the whole packet.
    #[serde(flatten)]
    packet: Option<PacketFields>,
    #[serde(flatten)]
    lower: Option<LowerFields>,
    #[serde(flatten)]
    facts: Facts,
}

/// What the capture says of the packet.
#[derive(Serialize)]
struct Facts {
    time_ns: Option<u64>,
    len: usize,
    captured: usize,
}

#[derive(Serialize)]
struct PacketFields {
    op: &'static str,
    ip: u8,
    dscp: u8,
    ecn: u8,
    udp_sport: u16,
    ev: u32,
    bth: BthFields,
    ext: ExtFields,
    payload_len: usize,
}

/// What is added to the fields of `frames.json`, and the layers below MRC.
#[derive(Serialize)]
struct LowerFields {
    /// For a trimmed packet, whose payload is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    trim: Option<&'static str>,
    smac: String,
    dmac: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<u16>,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    flow_label: u32,
    udp_dport: u16,
    /// Of an encapsulated packet; all other fields are the inner packet's.
    #[serde(skip_serializing_if = "Option::is_none")]
    srv6: Option<OuterFields>,
}

/// The outer IPv6 header, as it was captured.
#[derive(Serialize)]
struct OuterFields {
    outer_src: IpAddr,
    outer_dst: IpAddr,
    dscp: u8,
    ecn: u8,
    ttl: u8,
    flow_label: u32,
    srh: u8,
}

impl From<Outer> for OuterFields {
    fn from(outer: Outer) -> OuterFields {
        OuterFields {
            outer_src: outer.ip.source,
            outer_dst: outer.ip.destination,
            dscp: outer.ip.dscp,
            ecn: outer.ip.ecn,
            ttl: outer.ip.hop_limit,
            flow_label: outer.ip.flow_label,
            srh: outer.srh.into(),
        }
    }
}

impl PacketFields {
    fn of(packet: &Packet) -> PacketFields {
        PacketFields {
            op: packet.bth.opcode.name(),
            ip: if packet.ip.source.is_ipv6() { 6 } else { 4 },
            dscp: packet.ip.dscp,
            ecn: packet.ip.ecn,
            udp_sport: packet.udp_source,
            ev: packet.ev(),
            bth: BthFields::of(&packet.bth),
            ext: ExtFields::of(&packet.ext),
            payload_len: packet.payload_len,
        }
    }
}

impl LowerFields {
    fn of(packet: &Packet, frame: &[u8]) -> LowerFields {
        LowerFields {
            trim: match packet.trim {
                Trim::Whole => None,
                Trim::Trimmed => Some("trimmed"),
                Trim::LastHop => Some("trimmed_last_hop"),
            },
            smac: packet.link.source.to_string(),
            dmac: packet.link.destination.to_string(),
            vlan: packet.link.vlan.map(|tci| tci & 0x0FFF),
            src: packet.ip.source,
            dst: packet.ip.destination,
            ttl: packet.ip.hop_limit,
            flow_label: packet.ip.flow_label,
            udp_dport: packet.udp_destination,
            srv6: packet.outer(frame).map(OuterFields::from),
        }
    }
}

#[derive(Serialize)]
struct BthFields {
    opcode: u8,
    se: u8,
    m: u8,
    pad: u8,
    tver: u8,
    pkey: u16,
    dqp: u32,
    a: u8,
    rtx: u8,
    tsh: u8,
    psn: u32,
}

impl BthFields {
    fn of(bth: &Bth) -> BthFields {
        BthFields {
            opcode: bth.opcode as u8,
            se: bth.se.into(),
            m: bth.m.into(),
            pad: bth.pad,
            // Another version is refused before it comes here.
            tver: 0,
            pkey: bth.pkey,
            dqp: bth.dqp,
            a: bth.ack_request.into(),
            rtx: bth.rtx.into(),
            tsh: bth.tsh.into(),
            psn: bth.psn,
        }
    }
}

#[derive(Serialize)]
struct TimestampFields {
    tx_timestamp: u16,
    tsr: u8,
    ftype: u8,
}

impl From<Timestamp> for TimestampFields {
    fn from(timestamp: Timestamp) -> TimestampFields {
        TimestampFields { tx_timestamp: timestamp.ticks, tsr: timestamp.tsr.into(), ftype: timestamp.ftype }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum ExtFields {
    Write {
        rqmsn: u16,
        msn: u16,
        #[serde(flatten)]
        timestamp: Option<TimestampFields>,
        va: u64,
        rkey: u32,
        dmalen: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        imm: Option<u32>,
    },
    Ack {
        syndrome: u8,
        msn: u32,
    },
    Sack(Box<SackFields>),
    Nack {
        nack_reason: u8,
        vendor_info: u8,
        entropy: u32,
        spdcid: u16,
        dpdcid: u16,
        nack_psn: u32,
        cc_type: u8,
        cc_fl: u8,
        tx_timestamp: u16,
    },
    Probe {
        vendor_info: u8,
        probe_id: u16,
        spdcid: u16,
        dpdcid: u16,
        #[serde(flatten)]
        timestamp: TimestampFields,
    },
    EndpointRequest {
        endpoint_op: u8,
        vendor_info: u8,
        port_status_mask: u32,
        #[serde(flatten)]
        timestamp: TimestampFields,
    },
    EndpointResponse {
        endpoint_op: u8,
        tx_timestamp: u16,
    },
    Cut {},
}

#[derive(Serialize)]
struct SackFields {
    m: u8,
    pr: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_id: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_psn_offset: Option<i16>,
    entropy: u32,
    spdcid: u16,
    dpdcid: u16,
    cack_psn: u32,
    cc_type: u8,
    cc_fl: u8,
    mpr: u8,
    sack_offset: i16,
    sack_bitmap: u64,
    cc_tx_timestamp: u16,
    ooo_count: u16,
    restore_cwnd: u8,
    rcv_cwnd_pen: u8,
    rcvd_bytes: u32,
}

impl SackFields {
    fn of(sack: &Sack) -> SackFields {
        let (probe_id, ack_psn_offset) = match sack.answers {
            SackFor::Probe { id } => (Some(id), None),
            SackFor::Packet { offset } => (None, Some(offset)),
        };
        SackFields {
            m: sack.skip as u8,
            pr: probe_id.is_some().into(),
            probe_id,
            ack_psn_offset,
            entropy: sack.entropy,
            spdcid: sack.spdcid,
            dpdcid: sack.dpdcid,
            cack_psn: sack.cack_psn,
            cc_type: sack.cc_type,
            cc_fl: sack.cc_flags,
            mpr: sack.mpr,
            sack_offset: sack.sack_offset,
            sack_bitmap: sack.sack_bitmap,
            cc_tx_timestamp: sack.cc.tx_timestamp,
            ooo_count: sack.cc.ooo_count,
            restore_cwnd: sack.cc.restore_cwnd.into(),
            rcv_cwnd_pen: sack.cc.rcv_cwnd_pen,
            rcvd_bytes: sack.cc.rcvd_bytes,
        }
    }
}

impl ExtFields {
    fn of(ext: &Ext) -> ExtFields {
        match *ext {
            Ext::Write(WriteHeaders { meth, timestamp, reth, immediate }) => ExtFields::Write {
                rqmsn: meth.rqmsn,
                msn: meth.msn,
                timestamp: timestamp.map(TimestampFields::from),
                va: reth.va,
                rkey: reth.rkey,
                dmalen: reth.dmalen,
                imm: immediate,
            },
            Ext::Ack(ack) => ExtFields::Ack { syndrome: ack.syndrome, msn: ack.msn },
            Ext::Sack(ref sack) => ExtFields::Sack(Box::new(SackFields::of(sack))),
            Ext::Nack(Nack {
                reason,
                vendor_info,
                entropy,
                spdcid,
                dpdcid,
                nack_psn,
                cc_type,
                cc_flags,
                tx_timestamp,
            }) => ExtFields::Nack {
                nack_reason: reason,
                vendor_info,
                entropy,
                spdcid,
                dpdcid,
                nack_psn,
                cc_type,
                cc_fl: cc_flags,
                tx_timestamp,
            },
            Ext::Probe(Probe { vendor_info, id, spdcid, dpdcid, timestamp }) => {
                ExtFields::Probe { vendor_info, probe_id: id, spdcid, dpdcid, timestamp: timestamp.into() }
            }
            Ext::EndpointRequest(request) => ExtFields::EndpointRequest {
                endpoint_op: request.op as u8,
                vendor_info: request.vendor_info,
                port_status_mask: request.port_status_mask,
                timestamp: request.timestamp.into(),
            },
            Ext::EndpointResponse(response) => {
                ExtFields::EndpointResponse { endpoint_op: response.op as u8, tx_timestamp: response.tx_timestamp }
            }
            Ext::Cut => ExtFields::Cut {},
        }
    }
}
