//! Frames for the unit tests of this room.

use dataplane::wire::{
    Addressing, Bth, Ext, MacAddr, Marks, Opcode, Packet, Probe, Rules, Sack, SackFor, Skip, Template, Timestamp,
    WriteHeaders, parse,
};
use std::net::{IpAddr, Ipv4Addr};

pub(super) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const C: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));

fn frame(source: IpAddr, destination: IpAddr, bth: &Bth, ext: &Ext) -> Vec<u8> {
    let template = Template::new(&Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source,
        destination,
        hop_limit: 64,
        udp_port: 4791,
    })
    .unwrap();
    let mut frame = vec![0; template.frame_len(ext.len(), 0)];
    let at = template.write_headers(&mut frame, Marks { ev: 300, dscp: 0, ecn: 0 }, bth, ext, 0).unwrap();
    assert!(template.seal(&mut frame, at, 0));
    frame
}

/// An empty Write.
pub(super) fn write(source: IpAddr, destination: IpAddr, dqp: u32, psn: u32) -> Vec<u8> {
    let ext = Ext::Write(WriteHeaders::default());
    frame(source, destination, &Bth::new(Opcode::WriteOnly, dqp, psn), &ext)
}

/// A SACK whose sender's number ends in `spdcid`.
pub(super) fn sack(source: IpAddr, destination: IpAddr, dqp: u32, spdcid: u16, cack_psn: u32) -> Vec<u8> {
    let sack = Sack {
        skip: Skip::None,
        answers: SackFor::Packet { offset: 0 },
        entropy: 0,
        spdcid,
        dpdcid: dqp as u16,
        cack_psn,
        cc_type: 0,
        cc_flags: 0,
        mpr: 0,
        sack_offset: 1,
        sack_bitmap: 0,
        cc: Default::default(),
    };
    frame(source, destination, &Bth::new(Opcode::Sack, dqp, cack_psn), &Ext::Sack(sack))
}

/// A probe whose sender's number ends in `spdcid`.
pub(super) fn probe(source: IpAddr, destination: IpAddr, dqp: u32, spdcid: u16) -> Vec<u8> {
    let probe = Probe { vendor_info: 0, id: 1, spdcid, dpdcid: dqp as u16, timestamp: Timestamp::default() };
    frame(source, destination, &Bth::new(Opcode::Probe, dqp, 0), &Ext::Probe(probe))
}

/// The frame with its iCRC made wrong.
pub(super) fn corrupt(mut frame: Vec<u8>) -> Vec<u8> {
    if let Some(last) = frame.last_mut() {
        *last ^= 1;
    }
    frame
}

/// The frame as a switch leaves it that trims it.
pub(super) fn trimmed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[15] = 12 << 2;
    frame.truncate(frame.len() - 4);
    frame
}

pub(super) fn packet(frame: &[u8]) -> Packet {
    parse(frame, frame.len(), &Rules::default()).unwrap()
}
