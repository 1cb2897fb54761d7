//! The fabric in virtual time.

mod faults;
mod links;
mod queues;
mod ways;
mod whole;

use super::*;
use crate::wire::{
    Addressing, Bth, DscpMap, Encapsulation, Ext, Marks, Meth, Opcode, OuterMarks, Reth, Template, Timestamp, UDP_PORT,
    UsidPath, WriteHeaders,
};

/// A data packet to be written.
#[derive(Clone, Copy, Debug)]
struct Data {
    from: u32,
    to: u32,
    v6: bool,
    vlan: bool,
    timestamp: bool,
    ev: u32,
    dscp: u8,
    ecn: u8,
    payload: usize,
    path: Option<UsidPath>,
    srh: bool,
}

/// A trimmable packet of 100 bytes from NIC 0 to NIC 1 over IPv4.
const DATA: Data = Data {
    from: 0,
    to: 1,
    v6: false,
    vlan: false,
    timestamp: false,
    ev: 300,
    dscp: 4,
    ecn: 2,
    payload: 22,
    path: None,
    srh: false,
};

impl Data {
    /// With a payload that makes the frame `len` bytes long.
    fn of_len(self, len: usize) -> Data {
        let empty = Data { payload: 0, ..self }.frame().len();
        Data { payload: len - empty, ..self }
    }

    fn frame(self) -> Vec<u8> {
        let addresses = Addresses::default();
        let address = |nic: u32| match self.v6 {
            true => addresses.v6(NicId(nic)).into(),
            false => addresses.v4(NicId(nic)).into(),
        };
        let addressing = Addressing {
            source_mac: mac(NicId(self.from), 0),
            destination_mac: mac(NicId(self.to), 0),
            vlan: self.vlan.then_some(7),
            source: address(self.from),
            destination: address(self.to),
            hop_limit: 64,
            udp_port: UDP_PORT,
        };
        let source = addresses.v6(NicId(self.from));
        let template = match self.path {
            Some(path) => Template::encapsulated(&addressing, &Encapsulation { source, path, srh: self.srh }).unwrap(),
            None => Template::new(&addressing).unwrap(),
        };
        let timestamp = self.timestamp.then_some(Timestamp { ticks: 1, tsr: false, ftype: 1 });
        let reth = Reth { va: 0x1000, rkey: 0x100, dmalen: self.payload as u32 };
        let ext = Ext::Write(WriteHeaders { meth: Meth::default(), timestamp, reth, immediate: None });
        let mut bth = Bth::new(Opcode::WriteOnly, 0x01_0000, 7);
        bth.tsh = self.timestamp;
        let mut frame = vec![0; template.frame_len(ext.len(), self.payload)];
        let marks = Marks { ev: self.ev, dscp: self.dscp, ecn: self.ecn };
        let at = template.write_headers(&mut frame, marks, &bth, &ext, self.payload).unwrap();
        if let Some(path) = self.path {
            assert!(template.write_outer(&mut frame, &OuterMarks::of(path, marks)));
        }
        assert!(template.seal(&mut frame, at, self.payload));
        frame
    }
}

/// Two NICs and this many paths, with 100 Gbps and 1 us a link, and no marks.
fn two(paths: u32) -> Plan {
    let mut plan = Plan::new(Topology::Paths { nics: 2, paths });
    let link = LinkParams { rate: 100_000_000_000, delay_ns: 1_000, ..LinkParams::default() };
    (plan.host, plan.fabric) = (link, link);
    plan.queue.ecn = None;
    plan.nic_queue = 16 << 20;
    plan
}

fn build(plan: &Plan) -> Fabric<Vec<u8>> {
    Fabric::new(plan, 1).unwrap()
}

fn nic(nic: u32) -> Node {
    Node::Nic(NicId(nic), 0)
}

fn switch(tier: u8, index: u32) -> Node {
    Node::Switch(SwitchId { plane: 0, tier, index })
}

fn send(fabric: &mut Fabric<Vec<u8>>, at: u64, data: Data) {
    assert!(fabric.inject(Ns(at), NicId(data.from), 0, data.frame()));
}

/// Lets everything happen that will, and returns what came, with `inside` and the counters checked.
fn drain(fabric: &mut Fabric<Vec<u8>>) -> Vec<Delivery<Vec<u8>>> {
    while let Some(next) = fabric.next_wake() {
        fabric.on_time(next);
    }
    let totals = *fabric.totals();
    assert_eq!(totals.injected, totals.delivered + totals.dropped.total());
    std::iter::from_fn(|| fabric.poll()).collect()
}

fn dropped(fabric: &Fabric<Vec<u8>>) -> Vec<(FabricDrop, u64)> {
    let drops = fabric.totals().dropped;
    FabricDrop::ALL.iter().map(|&reason| (reason, drops.of(reason))).filter(|(_, count)| *count > 0).collect()
}

/// Whether the checksum of the IPv4 header at 14 is right.
fn checksum_ok(frame: &[u8]) -> bool {
    let words = frame[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    (sum & 0xFFFF) + (sum >> 16) == 0xFFFF
}
