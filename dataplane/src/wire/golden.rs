//! The golden frames: an independent generator's, with the fields that each contains.

use super::*;
use core::net::IpAddr;
use serde_json::Value;

fn golden() -> Vec<Value> {
    let text = include_str!("../../../tests/vectors/frames.json");
    let frames: Vec<Value> = serde_json::from_str(text).expect("frames.json is JSON");
    assert_eq!(frames.len(), 72);
    frames
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn bytes_of(frame: &Value) -> Vec<u8> {
    unhex(frame["frame"].as_str().unwrap())
}

fn address(text: &Value) -> IpAddr {
    text.as_str().unwrap().parse().unwrap()
}

fn flag(value: &Value) -> bool {
    value.as_u64().unwrap() != 0
}

fn num<T: TryFrom<u64>>(value: &Value) -> T
where
    T::Error: core::fmt::Debug,
{
    T::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))).unwrap()
}

fn timestamp(ext: &Value) -> Timestamp {
    Timestamp { ticks: num(&ext["tx_timestamp"]), tsr: flag(&ext["tsr"]), ftype: num(&ext["ftype"]) }
}

fn endpoint_op(ext: &Value) -> EndpointOp {
    [EndpointOp::PortStatusUpdate, EndpointOp::EvProbe][num::<usize>(&ext["endpoint_op"])]
}

fn skip(ext: &Value) -> Skip {
    [Skip::None, Skip::Once, Skip::Always][num::<usize>(&ext["m"])]
}

/// The extension headers that the vector's fields describe.
fn ext_of(frame: &Value) -> Ext {
    let ext = &frame["ext"];
    match frame["op"].as_str().unwrap() {
        "ACK" => Ext::Ack(Aeth { syndrome: num(&ext["syndrome"]), msn: num(&ext["msn"]) }),
        "ENDPOINT_REQUEST" => Ext::EndpointRequest(EndpointRequest {
            op: endpoint_op(ext),
            vendor_info: num(&ext["vendor_info"]),
            port_status_mask: num(&ext["port_status_mask"]),
            timestamp: timestamp(ext),
        }),
        "ENDPOINT_RESPONSE" => {
            Ext::EndpointResponse(EndpointResponse { op: endpoint_op(ext), tx_timestamp: num(&ext["tx_timestamp"]) })
        }
        "SACK" => Ext::Sack(Sack {
            skip: skip(ext),
            answers: if flag(&ext["pr"]) {
                SackFor::Probe { id: num(&ext["probe_id"]) }
            } else {
                SackFor::Packet { offset: ext["ack_psn_offset"].as_i64().unwrap() as i16 }
            },
            entropy: num(&ext["entropy"]),
            spdcid: num(&ext["spdcid"]),
            dpdcid: num(&ext["dpdcid"]),
            cack_psn: num(&ext["cack_psn"]),
            cc_type: num(&ext["cc_type"]),
            cc_flags: num(&ext["cc_fl"]),
            mpr: num(&ext["mpr"]),
            sack_offset: ext["sack_offset"].as_i64().unwrap() as i16,
            sack_bitmap: num(&ext["sack_bitmap"]),
            cc: CcState {
                tx_timestamp: num(&ext["cc_tx_timestamp"]),
                ooo_count: num(&ext["ooo_count"]),
                restore_cwnd: flag(&ext["restore_cwnd"]),
                rcv_cwnd_pen: num(&ext["rcv_cwnd_pen"]),
                rcvd_bytes: num(&ext["rcvd_bytes"]),
            },
        }),
        "NACK" => Ext::Nack(Nack {
            reason: num(&ext["nack_reason"]),
            vendor_info: num(&ext["vendor_info"]),
            entropy: num(&ext["entropy"]),
            spdcid: num(&ext["spdcid"]),
            dpdcid: num(&ext["dpdcid"]),
            nack_psn: num(&ext["nack_psn"]),
            cc_type: num(&ext["cc_type"]),
            cc_flags: num(&ext["cc_fl"]),
            tx_timestamp: num(&ext["tx_timestamp"]),
        }),
        "PROBE" => Ext::Probe(Probe {
            vendor_info: num(&ext["vendor_info"]),
            id: num(&ext["probe_id"]),
            spdcid: num(&ext["spdcid"]),
            dpdcid: num(&ext["dpdcid"]),
            timestamp: timestamp(ext),
        }),
        _ => Ext::Write(WriteHeaders {
            meth: Meth { rqmsn: num(&ext["rqmsn"]), msn: num(&ext["msn"]) },
            timestamp: ext.get("tx_timestamp").map(|_| timestamp(ext)),
            reth: Reth { va: num(&ext["va"]), rkey: num(&ext["rkey"]), dmalen: num(&ext["dmalen"]) },
            immediate: ext.get("imm").map(num),
        }),
    }
}

fn bth_of(frame: &Value) -> Bth {
    let bth = &frame["bth"];
    assert_eq!(bth["tver"], 0);
    Bth {
        opcode: Opcode::from_u8(num(&bth["opcode"])).unwrap(),
        se: flag(&bth["se"]),
        m: flag(&bth["m"]),
        pad: num(&bth["pad"]),
        pkey: num(&bth["pkey"]),
        dqp: num(&bth["dqp"]),
        ack_request: flag(&bth["a"]),
        rtx: flag(&bth["rtx"]),
        tsh: flag(&bth["tsh"]),
        psn: num(&bth["psn"]),
    }
}

fn addressing_of(frame: &Value) -> Addressing {
    Addressing {
        source_mac: frame["smac"].as_str().unwrap().parse().unwrap(),
        destination_mac: frame["dmac"].as_str().unwrap().parse().unwrap(),
        vlan: None,
        source: address(&frame["src"]),
        destination: address(&frame["dst"]),
        hop_limit: num(&frame["ttl"]),
        udp_port: UDP_PORT,
    }
}

fn write(addressing: &Addressing, marks: Marks, bth: &Bth, ext: &Ext, payload: &[u8]) -> Vec<u8> {
    let template = Template::new(addressing).unwrap();
    let mut out = vec![0xA5; template.frame_len(ext.len(), payload.len())];
    let at = template.write_headers(&mut out, marks, bth, ext, payload.len()).unwrap();
    out[at..at + payload.len()].copy_from_slice(payload);
    assert!(template.seal(&mut out, at, payload.len()));
    out
}

#[test]
fn every_golden_frame_decodes_to_its_fields() {
    for frame in golden() {
        let name = &frame["name"];
        let bytes = bytes_of(&frame);
        let packet = parse(&bytes, bytes.len(), &Rules::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(packet.bth, bth_of(&frame), "{name}");
        assert_eq!(packet.ext, ext_of(&frame), "{name}");
        assert_eq!(packet.bth.opcode.name(), frame["op"], "{name}");
        assert_eq!(packet.ip.source, address(&frame["src"]), "{name}");
        assert_eq!(packet.ip.destination, address(&frame["dst"]), "{name}");
        assert_eq!(packet.ip.dscp, num::<u8>(&frame["dscp"]), "{name}");
        assert_eq!(packet.ip.ecn, num::<u8>(&frame["ecn"]), "{name}");
        assert_eq!(packet.ip.hop_limit, num::<u8>(&frame["ttl"]), "{name}");
        assert_eq!(packet.ip.flow_label, num::<u32>(&frame["flow_label"]), "{name}");
        assert_eq!(packet.udp_source, num::<u16>(&frame["udp_sport"]), "{name}");
        assert_eq!(packet.ev(), num::<u32>(&frame["ev"]), "{name}");
        assert_eq!(packet.link.source.to_string(), *frame["smac"].as_str().unwrap(), "{name}");
        assert_eq!(packet.link.destination.to_string(), *frame["dmac"].as_str().unwrap(), "{name}");
        let payload = unhex(frame["payload"].as_str().unwrap());
        assert_eq!(bytes[packet.payload_at..packet.payload_at + packet.payload_len], payload, "{name}");
        assert!(packet.icrc_ok(&bytes), "{name}: iCRC");
    }
}

#[test]
fn every_golden_frame_encodes_to_the_same_bytes() {
    for frame in golden() {
        let marks = Marks { ev: num(&frame["ev"]), dscp: num(&frame["dscp"]), ecn: num(&frame["ecn"]) };
        let payload = unhex(frame["payload"].as_str().unwrap());
        let bytes = write(&addressing_of(&frame), marks, &bth_of(&frame), &ext_of(&frame), &payload);
        assert_eq!(bytes, bytes_of(&frame), "{}", frame["name"]);
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_golden_frame_is_noticed_or_lies_in_a_field_that_the_network_may_change() {
    for frame in golden() {
        let bytes = bytes_of(&frame);
        let v6 = frame["ip"] == 6;
        let (ip, udp) = if v6 { (14, 54) } else { (14, 34) };
        let mutable = |at: usize, bit: usize| {
            at < ip
                || at == udp + 6
                || at == udp + 7
                || at == udp + 12
                || if v6 {
                    (at == ip && bit < 4) || (ip + 1..ip + 4).contains(&at) || at == ip + 7
                } else {
                    [1, 8, 10, 11].contains(&(at - ip))
                }
        };
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                match parse(&bad, bad.len(), &Rules::default()) {
                    Ok(packet) if packet.trim == Trim::Whole => {
                        let ok = packet.icrc_ok(&bad);
                        assert_eq!(ok, mutable(at, bit), "{} byte {at} bit {bit}", frame["name"]);
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_frame_cut_anywhere_is_refused_with_a_reason_and_never_panics() {
    for frame in golden() {
        let bytes = bytes_of(&frame);
        for len in 0..bytes.len() {
            let refusal = parse(&bytes[..len], len, &Rules::default()).expect_err("a cut frame is refused");
            assert!(!refusal.name().is_empty());
        }
    }
}

#[test]
fn sizes_on_the_wire_are_those_of_the_documentation() {
    let v4 = |ext: &Ext, payload| frame_len(14 + 20 + 8, ext.len(), payload);
    let mut data = WriteHeaders::default();
    assert_eq!(v4(&Ext::Write(data), 4096), 4174);
    data.timestamp = Some(Timestamp::default());
    assert_eq!(v4(&Ext::Write(data), 4096), 4178);
    let by_op = |op: &str| {
        let frame = golden().into_iter().find(|f| f["op"] == op && f["ip"] == 4).unwrap();
        bytes_of(&frame).len()
    };
    assert_eq!(by_op("SACK"), 94);
    assert_eq!(by_op("NACK"), 78);
    assert_eq!(by_op("PROBE"), 74);
    assert_eq!(by_op("ACK"), 62);
}
