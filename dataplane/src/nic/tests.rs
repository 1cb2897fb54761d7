//! What cannot be seen from outside.

use super::*;
use crate::memory::{Access, Buffer, Domain, Keys};
use crate::transport::Advertised;
use crate::transport::Psn;
use crate::wire::{
    Addressing, Aeth, Bth, Ext, MacAddr, Marks, Meth, Opcode, Reth, Syndrome, Template, UDP_PORT, WriteHeaders,
};
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

/// The peer acknowledges everything up to a PSN, and messages up to a number.
pub(super) fn acknowledge(nic: &mut Nic, qpn: Qpn, now: u64, psn: u32, msn: u32) {
    let [local, remote] = ends();
    let addressing = Addressing {
        source_mac: remote.mac,
        destination_mac: local.mac,
        vlan: None,
        source: remote.ip,
        destination: local.ip,
        hop_limit: 64,
        udp_port: UDP_PORT,
    };
    let template = Template::new(&addressing).unwrap();
    let ext = Ext::Ack(Aeth { syndrome: Syndrome::Ack as u8, msn });
    let mut frame = vec![0; template.frame_len(ext.len(), 0)];
    let marks = Marks { ev: 300, dscp: nic.params().dscp.control, ecn: 0 };
    let at = template.write_headers(&mut frame, marks, &Bth::new(Opcode::Ack, qpn.get(), psn), &ext, 0).unwrap();
    assert!(template.seal(&mut frame, at, 0));
    nic.receive(Ns(now), PortId(0), &frame.as_slice()).unwrap();
}

/// A Write of no bytes.
pub(super) const fn empty_request(wr_id: u64) -> WriteRequest {
    WriteRequest {
        wr_id,
        local_key: Key(0),
        local_va: 0,
        remote_key: Key(0),
        remote_va: 0,
        len: 0,
        immediate: None,
        signaled: true,
    }
}

/// Sends an empty Write on a QP as its packet `psn`, and has it acknowledged.
pub(super) fn send_empty(nic: &mut Nic, now: Ns, qpn: Qpn, psn: u32) {
    nic.post_write(qpn, &empty_request(psn.into())).unwrap();
    let frames = nic.transmit(now, &mut Sink(Vec::new()));
    nic.sent(now, PortId(0), frames);
    acknowledge(nic, qpn, now.0, psn, psn);
    assert_eq!(nic.poll().map(|entry| entry.completion.status), Some(Status::Success));
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

#[test]
fn of_packets_in_a_row_those_that_the_port_took_have_timers_and_the_others_have_none() {
    let (mut nic, qpns) = nic(NicParams::default(), 1);
    assert_eq!(nic.post_writes(qpns[0], (0..5).map(empty_request)), (5, Ok(())));
    assert_eq!(nic.transmit(Ns(0), &mut Sink(Vec::new())), 5);
    let mut lost = |taken: usize, at: u64| {
        nic.sent(Ns(at), PortId(0), taken);
        nic.on_time(Ns(at + nic.params().transport.ack_timeout()));
        nic.stats().lost_by_timeout.get()
    };
    assert_eq!(lost(0, 1_000_000), 0);
    assert_eq!(lost(2, 2_000_000), 2);
    assert_eq!(lost(1, 3_000_000), 3);
    assert_eq!(lost(4, 4_000_000), 5, "there were two more");
}

/// A slow path that keeps what it is given, as long as there is room, and has this to send.
#[derive(Clone, Default)]
struct Aside(Arc<std::sync::Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    taken: Vec<SlowFrame>,
    to_send: VecDeque<SlowFrame>,
    room: usize,
}

impl SlowPath for Aside {
    fn take(&mut self, frame: SlowFrame) -> bool {
        let mut kept = self.0.lock().unwrap();
        let has_room = kept.taken.len() < kept.room;
        if has_room {
            kept.taken.push(frame);
        }
        has_room
    }

    fn next(&mut self) -> Option<SlowFrame> {
        self.0.lock().unwrap().to_send.pop_front()
    }
}

/// Who has 10.0.0.1, asks 10.0.0.2.
fn arp_request() -> Vec<u8> {
    let link = [[0xFF; 6], [2, 0, 0, 0, 0, 2]].concat();
    [&link[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]].concat()
}

#[test]
fn what_is_for_neighbours_goes_the_slow_path_and_is_a_drop_only_without_one_or_when_that_is_full() {
    let (mut nic, _) = nic(NicParams::default(), 1);
    let arp = arp_request();
    let receive = |nic: &mut Nic, frame: &[u8]| nic.receive(Ns(1), PortId(0), &frame);
    assert_eq!(receive(&mut nic, &arp), Err(DropReason::Wire(crate::wire::Refusal::NotIp)));
    let aside = Aside::default();
    aside.0.lock().unwrap().room = 3;
    nic.set_slow_path(Some(Box::new(aside.clone())));
    let mut ping =
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45][..], &[0; 19], &[8, 0, 0, 0, 0, 0, 0, 0]].concat();
    ping[23] = 1;
    let mut ping6 = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x60][..], &[0; 39], &[128; 8]].concat();
    ping6[20] = 58;
    for frame in [&arp, &ping, &ping6] {
        assert_eq!(receive(&mut nic, frame), Ok(()));
    }
    assert_eq!(receive(&mut nic, &arp), Err(DropReason::SlowPathFull));
    assert_eq!(receive(&mut nic, &[&arp[..], &[0; SLOW_FRAME_MAX]].concat()), Err(DropReason::SlowPathTooLong));
    ping[23] = 6;
    assert_eq!(receive(&mut nic, &ping), Err(DropReason::Wire(crate::wire::Refusal::NotUdp)), "TCP is nobody's");
    let kept = aside.0.lock().unwrap().taken.clone();
    assert_eq!((kept.len(), kept[0].bytes(), kept[0].port), (3, &arp[..], PortId(0)));
    assert_eq!((nic.stats().rx_slow.get(), nic.stats().drops_by(DropReason::SlowPathFull)), (3, 1));
}

#[test]
fn frames_of_the_slow_path_go_out_first_and_one_whose_port_is_full_waits_ten_milliseconds() {
    struct Full;
    impl TxBurst for Full {
        fn slot(&mut self, _: PortId, _: usize) -> Option<&mut [u8]> {
            None
        }
        fn commit(&mut self) {}
    }
    let (mut nic, _) = nic(NicParams::default(), 1);
    let aside = Aside::default();
    nic.set_slow_path(Some(Box::new(aside.clone())));
    let frame = |port, byte| SlowFrame::new(PortId(port), &[byte; 60]).unwrap();
    let give = |frames: &[SlowFrame]| aside.0.lock().unwrap().to_send.extend(frames.iter().cloned());
    let mut sink = Sink(Vec::new());
    give(&[frame(0, 1), frame(7, 2), frame(0, 3)]);
    assert_eq!(nic.transmit(Ns(1), &mut sink), 2, "there is no port 7");
    nic.sent(Ns(1), PortId(0), 2);
    assert_eq!((&sink.0[..], nic.stats().tx_slow.get(), nic.stats().slow_unsent.get()), (&[3; 60][..], 2, 1));
    give(&[frame(0, 4), frame(0, 5)]);
    let ms = crate::time::MS;
    assert_eq!(nic.transmit(Ns(ms), &mut Full), 0);
    assert_eq!(nic.transmit(Ns(10 * ms), &mut sink), 2, "the one that waited, and the next");
    nic.sent(Ns(10 * ms), PortId(0), 2);
    give(&[frame(0, 6)]);
    assert_eq!(nic.transmit(Ns(20 * ms), &mut Full), 0);
    assert_eq!(nic.transmit(Ns(30 * ms), &mut Full), 0);
    assert_eq!((nic.transmit(Ns(31 * ms), &mut sink), nic.stats().slow_unsent.get()), (0, 2));
    assert!(SlowFrame::new(PortId(0), &[]).is_none() && SlowFrame::new(PortId(0), &[0; 2_049]).is_none());
}

#[test]
fn qps_that_follow_send_to_the_new_next_hop_and_others_stay_with_theirs() {
    let [local, remote] = ends();
    let mac = |n| MacAddr([2, 0, 0, 0, 1, n]);
    let ports = [local.mac, mac(1)].map(|mac| PortInfo { mac, max_frame: 9_000 });
    for count in 1..=2 {
        let mut nic = Nic::new(NicParams::default(), &ports[..count]).unwrap();
        let mut numbers = QpNumbers::default();
        let mut open = |nic: &mut Nic, follows, ip| {
            let qpn = numbers.allocate().unwrap();
            let spec = QpSpec {
                qpn,
                state: QpState::Rts,
                port: PortId(0),
                local,
                remote: Endpoint { ip, ..remote },
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
                path: PathSpec { paths: Paths::Own { udp_port: 50_000 }, follows, ..PathSpec::default() },
                congestion: None,
            };
            nic.open(Ns::ZERO, spec).unwrap();
            qpn
        };
        let other = Ipv4Addr::new(10, 0, 0, 3).into();
        let [moves, stays, elsewhere] =
            [(true, remote.ip), (false, remote.ip), (true, other)].map(|(follows, ip)| open(&mut nic, follows, ip));
        let to = |nic: &mut Nic, qpn: Qpn| {
            nic.post_write(qpn, &empty_request(1)).unwrap();
            let mut sink = Sink(Vec::new());
            assert_eq!(nic.transmit(Ns(1), &mut sink), 1);
            nic.sent(Ns(1), PortId(0), 1);
            <[u8; 12]>::try_from(&sink.0[..12]).unwrap()
        };
        let link = |destination| crate::wire::link_addresses(local.mac, destination);
        // So many that headers are written from an image.
        for _ in 0..3 {
            assert_eq!(to(&mut nic, moves), link(remote.mac));
        }
        assert_eq!(nic.set_next_hop(remote.ip, PortId(0), mac(9)), 1);
        assert_eq!((to(&mut nic, moves), to(&mut nic, stays)), (link(mac(9)), link(remote.mac)));
        assert_eq!(to(&mut nic, elsewhere), link(remote.mac));
        assert_eq!(nic.set_next_hop(remote.ip, PortId(count as u8), mac(8)), 0, "there is no such port");
        assert_eq!(nic.set_next_hop(Ipv4Addr::LOCALHOST.into(), PortId(0), mac(8)), 0);
        assert_eq!(nic.set_next_hop(remote.ip, PortId(count as u8 - 1), mac(7)), 1);
        assert_eq!(to(&mut nic, moves), link(if count == 1 { mac(7) } else { mac(9) }), "each port has its own");
    }
}

#[test]
fn of_a_list_of_requests_those_are_posted_that_the_send_queue_holds_and_on_a_qp_that_ended_all_are_flushed() {
    let (mut nic, qpns) = nic(NicParams::default(), 1);
    assert_eq!(nic.post_writes(qpns[0], (0..10).map(empty_request)), (8, Err(PostError::QueueFull(8))));
    assert_eq!(nic.post_writes(qpns[0], []), (0, Ok(())));
    assert_eq!(nic.transmit(Ns(1), &mut Sink(Vec::new())), 8);
    nic.sent(Ns(1), PortId(0), 8);
    acknowledge(&mut nic, qpns[0], 2, 7, 7);
    let mut done = core::iter::from_fn(|| nic.poll().map(|entry| (entry.completion.wr_id, entry.completion.status)));
    assert!(done.by_ref().eq((0..8).map(|wr_id| (wr_id, Status::Success))));
    assert!(nic.end(Ns(3), qpns[0]));
    assert_eq!(nic.post_writes(qpns[0], (8..11).map(empty_request)), (3, Ok(())));
    let done = core::iter::from_fn(|| nic.poll().map(|entry| (entry.completion.wr_id, entry.completion.status)));
    assert!(done.eq((8..11).map(|wr_id| (wr_id, Status::Flushed))));
    assert!(nic.close(Ns(4), qpns[0]));
    assert_eq!(nic.post_writes(qpns[0], [empty_request(11)]), (0, Err(PostError::UnknownQp)));
}
