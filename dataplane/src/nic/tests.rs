//! What cannot be seen from outside.

use super::*;
use crate::memory::{Access, Buffer, Domain, Keys};
use crate::transport::Advertised;
use crate::transport::Psn;
use crate::wire::{Addressing, Bth, Ext, MacAddr, Marks, Meth, Opcode, Reth, Template, WriteHeaders};
use core::net::Ipv4Addr;

pub(super) fn ends() -> [Endpoint; 2] {
    [1, 2].map(|n| Endpoint { mac: MacAddr([2, 0, 0, 0, 0, n]), ip: Ipv4Addr::new(10, 0, 0, n).into() })
}

/// A NIC with `count` QPs.
pub(super) fn nic(params: NicParams, count: usize) -> (Nic, Vec<Qpn>) {
    let [local, remote] = ends();
    let mut nic = Nic::new(params, &[PortInfo { mac: local.mac, max_frame: 9_000 }]).unwrap();
    let mut numbers = QpNumbers::default();
    let qpns: Vec<Qpn> = (0..count).map(|_| numbers.allocate().unwrap()).collect();
    for &qpn in &qpns {
        let spec = QpSpec {
            qpn,
            state: QpState::Rts,
            port: PortId(0),
            local,
            remote,
            vlan: None,
            peer_qpn: 0x01_0000,
            send_psn: Psn::new(0),
            receive_psn: Psn::new(0),
            peer: Advertised { window: 1024, immediates: 64 },
            domain: Domain(1),
            send_depth: 8,
            receive_depth: 8,
            write_imm_limit: 64,
            placement: Placement::Keyed,
            path: PathSpec::default(),
            congestion: None,
        };
        nic.open(Ns::ZERO, spec).unwrap();
    }
    (nic, qpns)
}

/// An empty Write that asks for nothing, to one of the QPs.
fn empty_write(qpn: Qpn, psn: u32) -> Vec<u8> {
    let [local, remote] = ends();
    let addressing = Addressing {
        source_mac: remote.mac,
        destination_mac: local.mac,
        vlan: None,
        source: remote.ip,
        destination: local.ip,
        hop_limit: 64,
        udp_port: crate::wire::UDP_PORT,
    };
    let template = Template::new(&addressing).unwrap();
    let headers = WriteHeaders { meth: Meth::default(), timestamp: None, reth: Reth::default(), immediate: None };
    let ext = Ext::Write(headers);
    let mut frame = vec![0; template.frame_len(ext.len(), 0)];
    let bth = Bth::new(Opcode::WriteOnly, qpn.get(), psn);
    let at = template.write_headers(&mut frame, Marks { ev: 300, dscp: 4, ecn: 2 }, &bth, &ext, 0).unwrap();
    assert!(template.seal(&mut frame, at, 0));
    frame
}

struct Sink(Vec<u8>);

impl TxBurst for Sink {
    fn slot(&mut self, _: PortId, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        Some(&mut self.0)
    }

    fn commit(&mut self) {}
}

#[test]
fn a_worker_that_is_never_idle_keeps_no_list_of_sacks_long_paid() {
    let (mut nic, qpns) = nic(NicParams::default(), 8);
    let mut sink = Sink(Vec::new());
    for round in 0..100u32 {
        let now = Ns(u64::from(round) * 100 * crate::time::US);
        nic.on_time(now);
        let frames = nic.transmit(now, &mut sink);
        nic.sent(now, PortId(0), frames);
        // Every other round in the opposite order.
        for n in 0..qpns.len() {
            let qpn = qpns[if round % 2 == 0 { n } else { qpns.len() - 1 - n }];
            let frame = empty_write(qpn, round);
            nic.receive(now, PortId(0), &frame.as_slice()).unwrap();
        }
        assert!(nic.owing.len() <= qpns.len(), "{} entries for {} QPs", nic.owing.len(), qpns.len());
    }
    assert_eq!(nic.stats().tx_sacks.get(), 99 * 8, "each is paid after a quarter of InitialAckTimeout");
}

#[test]
fn a_full_egress_buffer_stops_the_fetch_and_drops_nothing_but_a_probe_that_finds_no_room() {
    let limits = SendLimits { egress_buffer: Some(256_000), ..SendLimits::default() };
    let (mut nic, qpns) = nic(NicParams { limits, ..NicParams::default() }, 1);
    let memory = Buffer::new(1 << 20);
    let key = Keys::default().allocate().unwrap();
    nic.register(key, Region { domain: Domain(1), access: Access::default(), iova: 0, memory });
    let request = WriteRequest {
        wr_id: 1,
        local_key: key,
        local_va: 0,
        remote_key: key,
        remote_va: 0,
        len: 1 << 20,
        immediate: None,
        signaled: true,
    };
    nic.post_write(qpns[0], &request).unwrap();
    let mut sink = Sink(Vec::new());
    let mut burst = |nic: &mut Nic, now: u64| {
        core::iter::from_fn(|| Some(nic.transmit(Ns(now), &mut sink)).filter(|&n| n > 0)).sum::<usize>()
    };
    assert_eq!(burst(&mut nic, 0), 55);
    assert_eq!(nic.egress_held(), 55 * 4_174);
    // 830 bytes are left: eleven probes of 74.
    for _ in 0..12 {
        nic.probe(Ns(1), qpns[0], 300).unwrap();
    }
    burst(&mut nic, 1);
    assert_eq!((nic.stats().probes_unsent.get(), nic.stats().tx_probes.get()), (1, 11));
    nic.sent(Ns(2), PortId(0), 10);
    assert_eq!(burst(&mut nic, 2), 10);
    assert_eq!(nic.stats().tx_data.get(), 65);
}
