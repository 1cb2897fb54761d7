//! Two devices in one process, joined by rings, through the host API.

use control::controller::{
    CcAlgorithm, CcStep, EvEdits, EvEventMask, EvName, EvProfileStep, EvReplacement, FormatKind, FormatStep, Mode,
    ProfileSpec, Request,
};
use control::host::{
    AsyncEvent, CompletionQueue, ControlError, Device, DeviceSpec, HostError, LifeState, MemoryRegion, Question,
    QuestionError, QueuePair, ToInit, ToRtr, ToRts, WriteRequest,
};
use control::neighbour::{InterfaceAddress, NeighbourError};
use dataplane::congestion::profile::CcConfig;
use dataplane::dpdk::{Eal, EalOptions, Port, PortConfig};
use dataplane::memory::{Access, Buffer, Key};
use dataplane::nic::{
    Advertised, CompletionEntry, Endpoint, EndpointAsk, EvState, NicParams, Operation, PathSpec, PortId, Status,
};
use dataplane::path::profile::{Copies, ErrorKind, ProfileState};
use dataplane::time::MS;
use dataplane::transport::{Psn, TransportParams};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const SIZE: usize = 1 << 20;
const DEPTH: usize = 16;

/// One of the two NICs: its device, memory and QPs.
struct Side {
    device: Device,
    region: MemoryRegion,
    cq: CompletionQueue,
    qps: Vec<QueuePair>,
}

fn ip(n: usize) -> IpAddr {
    Ipv4Addr::new(10, 9, 0, n as u8 + 1).into()
}

fn spec(workers: usize) -> DeviceSpec {
    let transport = TransportParams {
        // Whatever else this machine does is no loss.
        initial_ack_timeout_ns: 20 * MS,
        linear_retry_count: 3,
        exponential_retry_count: 2,
        ..TransportParams::default()
    };
    let params = NicParams { transport, congestion: CcConfig::Fixed { bytes: 128 << 10 }, ..NicParams::default() };
    DeviceSpec { workers, params, ..DeviceSpec::default() }
}

fn side(eal: &Eal, port: Port, workers: usize, completions: usize) -> Side {
    let device = Device::over(eal, vec![port], spec(workers)).unwrap();
    let domain = device.domain();
    let region = domain.register(&Buffer::new(SIZE), Access { remote_write: true }, Some(0)).unwrap();
    let cq = device.completion_queue(completions).unwrap();
    let qps = (0..2).map(|_| domain.create_qp(&cq, &cq).unwrap()).collect();
    Side { device, region, cq, qps }
}

/// Two devices whose QPs are in RTS, with receives posted on the first of the second device.
fn pair(workers: usize, completions: usize) -> [Side; 2] {
    let config = PortConfig { queues: workers as u16, small: 4_095, large: 1_023, ..PortConfig::default() };
    let eal = Eal::init(&EalOptions::for_ports(2, &config)).unwrap();
    let (a, b) = Port::ring_pair(&eal, 4_096, &config).unwrap();
    let sides = [side(&eal, a, workers, completions), side(&eal, b, workers, completions)];
    for n in 0..2 {
        let end = |n: usize| Endpoint { mac: sides[n].device.ports()[0].mac, ip: ip(n) };
        for (k, qp) in sides[n].qps.iter().enumerate() {
            let write = request(&sides[0], &sides[1], 0, 0, 1);
            assert!(matches!(qp.post_write(&write), Err(HostError::NotReady { .. })));
            assert!(matches!(qp.post_recv(1), Err(HostError::NotReady { is: "RESET", .. })));
            qp.init(ToInit { port: PortId(0), send_depth: DEPTH, receive_depth: 4, write_imm_limit: 64 }).unwrap();
            if (n, k) == (1, 0) {
                (0..4).for_each(|wr_id| qp.post_recv(wr_id).unwrap());
                assert_eq!(qp.post_recv(4), Err(HostError::ReceiveQueueFull(4)));
            }
            let rtr = ToRtr {
                local: end(n),
                remote: end(1 - n),
                vlan: None,
                peer_qpn: sides[1 - n].qps[k].qpn().get(),
                receive_psn: Psn::new(100 * (1 - n) as u32 + k as u32),
                path: PathSpec::default(),
                congestion: None,
            };
            qp.rtr(&rtr).unwrap();
            assert!(matches!(qp.rtr(&rtr), Err(HostError::Life(_))));
            let peer = Advertised { window: 1024, immediates: 2 };
            qp.rts(ToRts { send_psn: Psn::new(100 * n as u32 + k as u32), peer }).unwrap();
            assert_eq!(qp.state(), LifeState::Rts);
        }
    }
    sides
}

fn request(from: &Side, to: &Side, wr_id: u64, at: usize, len: usize) -> WriteRequest {
    let (local_va, remote_va) = (from.region.address() + at as u64, to.region.address() + at as u64);
    let (local_key, remote_key) = (from.region.key(), to.region.key());
    WriteRequest { wr_id, local_key, local_va, remote_key, remote_va, len: len as u32, immediate: None, signaled: true }
}

/// The next completions, so many, in ten seconds.
fn completions(cq: &CompletionQueue, count: usize) -> Vec<CompletionEntry> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut taken = Vec::new();
    while taken.len() < count && cq.wait(end.saturating_duration_since(Instant::now())) {
        taken.extend(cq.poll());
    }
    assert_eq!(taken.len(), count);
    taken
}

fn statuses(entries: &[CompletionEntry]) -> Vec<Status> {
    entries.iter().map(|entry| entry.completion.status).collect()
}

#[test]
fn writes_and_immediates_of_two_workers_each_arrive_and_complete_in_order() {
    let [a, b] = pair(2, 64);
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at ^ (at >> 8)) as u8).collect();
    a.region.buffer().write(0, &bytes).unwrap();
    let half = SIZE / 2;
    a.qps[0].post_write(&request(&a, &b, 7, 0, half)).unwrap();
    a.qps[1].post_write(&request(&a, &b, 8, half, half)).unwrap();
    let mut done = completions(&a.cq, 2);
    done.sort_by_key(|entry| entry.completion.wr_id);
    assert_eq!(done.iter().map(|entry| entry.completion.wr_id).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(statuses(&done), [Status::Success; 2]);
    let mut arrived = vec![0; SIZE];
    b.region.buffer().read(0, &mut arrived).unwrap();
    assert!(arrived == bytes);
    for immediate in [5, 6] {
        a.qps[0].post_write_imm(&request(&a, &b, 9, 0, 8), immediate).unwrap();
    }
    completions(&a.cq, 2);
    let received = completions(&b.cq, 2);
    let immediates: Vec<_> = received.iter().map(|e| (e.completion.wr_id, e.completion.operation)).collect();
    let expected = [(0, 5), (1, 6)].map(|(wr_id, immediate)| (wr_id, Operation::Receive { immediate }));
    assert_eq!(immediates, expected);
    assert_eq!((a.qps[0].pending(), b.qps[0].pending()), ((0, 0), (0, 2)));
    // Receives that are renewed outlast any number of immediates, taken late or not.
    b.qps[0].renew_receives(true);
    for immediate in 0..200 {
        while let Err(full) = a.qps[0].post_write_imm(&request(&a, &b, 9, 0, 8), immediate) {
            assert!(full.is_full(), "{full}");
            let _ = a.cq.poll();
        }
        if immediate % 40 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        while let Some(entry) = b.cq.poll() {
            assert!(matches!(entry.completion.operation, Operation::Receive { .. }), "{entry:?}");
            assert_eq!(entry.completion.status, Status::Success);
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    while a.qps[0].pending().0 > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    while let Some(entry) = a.cq.poll() {
        assert_eq!(entry.completion.status, Status::Success);
    }
    b.qps[0].renew_receives(false);
    while b.cq.poll().is_some() {}
    assert_eq!(b.qps[0].pending(), (0, 2));
    assert!(a.qps[0].stats().unwrap().is_some_and(|stats| stats.sent > 128));
    // The same device still answers when handles go in any order.
    let Side { device, region, cq, qps } = a;
    drop(device);
    drop((region, qps));
    assert!(cq.is_empty());
    let Side { device, mut qps, cq, .. } = b;
    qps.remove(0).close();
    assert_eq!(statuses(&completions(&cq, 2)), [Status::Flushed; 2], "the receives that were left");
    assert!(device.is_running());
}

#[test]
fn full_queues_refuse_and_lose_nothing_and_take_more_when_there_is_room() {
    let [a, b] = pair(1, 24);
    let write = |wr_id: u64, signaled| WriteRequest { signaled, ..request(&a, &b, wr_id, 0, 4096) };
    let (mut posted, mut ended, mut refused) = (0, Vec::new(), [0; 3]);
    let end = Instant::now() + Duration::from_secs(20);
    while ended.len() < 1_000 {
        assert!(Instant::now() < end, "{posted} posted, {} ended", ended.len());
        if posted < 2_000 {
            // Every second one completes in silence.
            match a.qps[posted % 2].post_write(&write(posted as u64, posted % 4 < 2)) {
                Ok(()) => posted += 1,
                Err(HostError::SendQueueFull(DEPTH)) => refused[0] += 1,
                Err(HostError::CompletionQueueFull(24)) => refused[1] += 1,
                Err(HostError::RingFull(_)) => refused[2] += 1,
                Err(other) => panic!("{other}"),
            }
        }
        // Taken late, so that both kinds of refusal come.
        if posted == 2_000 || a.cq.len() > 6 {
            ended.extend(a.cq.poll());
        }
    }
    assert!(refused[0] + refused[1] > 0, "{refused:?}");
    assert!(ended.iter().all(|entry| entry.completion.status == Status::Success));
    for (k, qp) in a.qps.iter().enumerate() {
        let of_qp = ended.iter().filter(|entry| entry.qpn == qp.qpn()).map(|entry| entry.completion.wr_id);
        let expected = (0..2_000).filter(|wr_id| wr_id % 4 < 2 && wr_id % 2 == k as u64);
        assert!(of_qp.eq(expected), "each once, in order");
    }
}

#[test]
fn a_write_to_a_key_that_is_gone_ends_the_qp_and_both_ends_hear_of_it() {
    let [a, b] = pair(1, 64);
    let Side { device: device_b, region, qps: qps_b, .. } = b;
    let dead = WriteRequest {
        remote_key: region.key(),
        remote_va: 0,
        ..WriteRequest {
            wr_id: 3,
            local_key: a.region.key(),
            local_va: 0,
            remote_key: Key(0),
            remote_va: 0,
            len: 10,
            immediate: None,
            signaled: false,
        }
    };
    a.qps[0].post_write(&WriteRequest { signaled: true, ..dead }).unwrap();
    assert_eq!(statuses(&completions(&a.cq, 1)), [Status::Success]);
    drop(region);
    a.qps[0].post_write(&dead).unwrap();
    assert_eq!(statuses(&completions(&a.cq, 1)), [Status::RemoteAccess], "unsignaled, and a failure all the same");
    assert_eq!(a.qps[0].state(), LifeState::Error);
    let cause = Some(Status::RemoteAccess);
    let end = Instant::now() + Duration::from_secs(5);
    let event = |device: &Device| loop {
        if let Some(event) = device.poll_event() {
            return event;
        }
        assert!(Instant::now() < end, "no event");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(event(&a.device), AsyncEvent::QpError { qpn: a.qps[0].qpn(), cause });
    assert_eq!(event(&device_b), AsyncEvent::QpError { qpn: qps_b[0].qpn(), cause: None });
    a.qps[0].post_write(&dead).unwrap();
    assert_eq!(statuses(&completions(&a.cq, 1)), [Status::Flushed]);
    assert_eq!(a.qps[1].state(), LifeState::Rts, "the other QP is well");
    // A new region has another key, and a device that is gone keeps nobody waiting.
    drop((device_b, qps_b));
    a.qps[1].post_write(&WriteRequest { signaled: true, ..dead }).unwrap();
    assert_eq!(statuses(&completions(&a.cq, 1)), [Status::RetryExceeded]);
}

#[test]
fn a_qp_that_is_bound_to_an_ev_profile_takes_its_values_and_keeps_it_online_until_it_is_closed() {
    let [a, b] = pair(1, 64);
    let operator = a.device.operator().unwrap();
    let spec = ProfileSpec::read(
        "id = 7\nmode = \"explicit\"\nformat.kind = \"udp\"\nports = [1]\nevs = [{ ev = 50000 }, { ev = 50001 }]",
    );
    let spec = spec.unwrap();
    operator.profiles("a", move |profiles| profiles.create(&spec)).unwrap().unwrap();
    let domain = a.device.domain();
    let region = domain.register(&Buffer::new(SIZE), Access::default(), Some(0)).unwrap();
    let qp = domain.create_qp(&a.cq, &a.cq).unwrap();
    let peer = b.device.domain().create_qp(&b.cq, &b.cq).unwrap();
    qp.init(ToInit { port: PortId(0), send_depth: DEPTH, receive_depth: 0, write_imm_limit: 1 }).unwrap();
    assert!(matches!(qp.bind_profile(7), Err(HostError::Profile(_))), "it is offline");
    operator.profiles("a", |profiles| profiles.online(7)).unwrap().unwrap();
    qp.bind_profile(7).unwrap();
    let end = |side: &Side, ip| Endpoint { mac: side.device.ports()[0].mac, ip };
    // An address of its own, so that the values are those of this QP alone.
    let here = IpAddr::from([10, 9, 1, 1]);
    let there = IpAddr::from([10, 9, 1, 2]);
    for (qp, peer, local, remote) in
        [(&qp, &peer, end(&a, here), end(&b, there)), (&peer, &qp, end(&b, there), end(&a, here))]
    {
        if qp.state() == LifeState::Reset {
            qp.init(ToInit { port: PortId(0), send_depth: 1, receive_depth: 0, write_imm_limit: 1 }).unwrap();
        }
        let (peer_qpn, receive_psn, path) = (peer.qpn().get(), Psn::new(0), PathSpec::default());
        qp.rtr(&ToRtr { local, remote, vlan: None, peer_qpn, receive_psn, path, congestion: None }).unwrap();
        qp.rts(ToRts { send_psn: Psn::new(0), peer: Advertised { window: 1024, immediates: 1 } }).unwrap();
    }
    assert!(matches!(qp.bind_profile(7), Err(HostError::NotReady { .. })), "it has its path");
    let write = WriteRequest { local_key: region.key(), local_va: 0, ..request(&a, &b, 1, 0, 64 << 10) };
    qp.post_write(&write).unwrap();
    // The peer's QP is of another domain than its region: that refuses it, and what was sent had the profile's values all the same.
    assert_eq!(statuses(&completions(&a.cq, 1)), [Status::RemoteAccess]);
    let list = operator.ask(Request::EvList { nic: String::new() });
    let destinations = list["destinations"].as_array().unwrap();
    let own = destinations.iter().find(|one| one["destination"] == there.to_string()).unwrap();
    let evs: Vec<u64> = own["evs"].as_array().unwrap().iter().map(|ev| ev["ev"].as_u64().unwrap()).collect();
    assert_eq!(evs, [50_000, 50_001]);
    assert!(operator.profiles("a", |profiles| profiles.offline(7)).unwrap().is_err(), "a QP uses it");
    qp.close();
    assert_eq!(operator.profiles("a", |profiles| profiles.offline(7)).unwrap(), Ok(()));
    assert!(operator.profiles("z", |_| ()).is_none(), "there is no such NIC");
}

#[test]
fn who_does_not_answer_on_an_ethernet_is_named_with_its_port_and_so_is_what_else_is_in_the_way() {
    let name = format!("mrct{}", std::process::id());
    let ports = vec![format!("net_tap0,iface={name}").parse().unwrap()];
    let own: InterfaceAddress = "10.9.0.1/24".parse().unwrap();
    let device = Device::open(DeviceSpec { ports, neighbours: Some(own.into()), ..spec(1) }).unwrap();
    assert!(device.has_neighbours());
    // At once after it came up, when its control thread has hardly begun.
    let error = device.reach(ip(1), &[]).unwrap_err();
    assert!(matches!(error, NeighbourError::NoAnswer { .. }), "{error}");
    let said = error.to_string();
    for part in ["10.9.0.2", &format!("port 1 (net_tap0,iface={name})"), "three times"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(matches!(device.reach([10, 9, 1, 1].into(), &[]), Err(NeighbourError::OffLink { .. })));
    assert_eq!(device.reach(own.ip, &[]).unwrap().macs(), [device.ports()[0].mac]);
    let survey = device.operator().unwrap().survey(None, false, false).unwrap();
    let counters = &survey.nics[0].neighbours.counters;
    assert_eq!((counters["asked"], counters["unanswered"]), (3, 1));
}

#[test]
fn a_device_that_is_joined_to_another_asks_for_nobody_and_says_so() {
    let [a, _b] = pair(1, 64);
    assert!(!a.device.has_neighbours());
    let error = a.device.reach(ip(1), &[]).unwrap_err().to_string();
    assert!(error.contains("10.9.0.2 is not asked for") && error.contains("no port on an Ethernet"), "{error}");
}

#[test]
fn a_controller_makes_profiles_hears_of_their_evs_and_asks_the_other_device_without_a_qp() {
    let [a, b] = pair(2, 64);
    let device = &a.device;
    let format = FormatStep {
        to: Some(ProfileState::Offline),
        kind: Some(FormatKind::Udp),
        widths: Some(vec![16]),
        ..FormatStep::default()
    };
    device.modify_ev_format(3, format).unwrap();
    device.modify_ev_format(3, FormatStep { to: Some(ProfileState::Online), ..FormatStep::default() }).unwrap();
    assert_eq!(device.ev_format(3).unwrap().state, ProfileState::Online);
    let name = |value: u8| EvName { bits: std::array::from_fn(|at| if at == 1 { value } else { 0 }), port: 1 };
    let evs = [4, 5].map(|value| EvReplacement {
        current: EvName::UNPOPULATED,
        new: name(value),
        state: EvState::Good,
        copies: Copies::One,
    });
    let profile = EvProfileStep {
        to: Some(ProfileState::Offline),
        mode: Some(Mode::Explicit),
        format: Some(3),
        count: Some(2),
        min_active: Some(1),
        event_mask: Some(EvEventMask { assumed_bad: true, good: true }),
        evs: Some(EvEdits::Replace(evs.to_vec())),
        ..EvProfileStep::default()
    };
    device.modify_ev_profile(9, profile).unwrap();
    let online = EvProfileStep { to: Some(ProfileState::Online), ..EvProfileStep::default() };
    device.modify_ev_profile(9, online.clone()).unwrap();
    let Err(ControlError::Step(again)) = device.modify_ev_profile(9, online) else { panic!("it is ONLINE") };
    assert_eq!(again.kind(), ErrorKind::InvalidState);
    let events = device.ev_events(8).unwrap();
    let bad = EvEdits::SetState(vec![(name(5), EvState::AssumedBad)]);
    device.modify_ev_profile(9, EvProfileStep { evs: Some(bad), ..EvProfileStep::default() }).unwrap();
    let event = events.poll().unwrap();
    assert_eq!((event.change.profile, event.change.ev, event.change.state), (9, name(5), EvState::AssumedBad));
    assert_eq!(device.evs_of(9).unwrap(), [Some((name(4), EvState::Good)), Some((name(5), EvState::AssumedBad))]);
    let cc = CcStep { to: Some(ProfileState::Offline), algorithm: Some(CcAlgorithm::None), ..CcStep::default() };
    device.modify_cc_profile(2, cc).unwrap();
    let qp = device.domain().create_qp(&a.cq, &a.cq).unwrap();
    assert_eq!(qp.bind_congestion(2), Err(HostError::Congestion { id: 2, state: ProfileState::Offline }));

    // Each end has its own workers: the answers come to that which asked.
    let question = |n: u32| Question {
        local: Endpoint { mac: device.ports()[0].mac, ip: ip(0) },
        remote: Endpoint { mac: b.device.ports()[0].mac, ip: ip(1) },
        vlan: None,
        port: PortId(0),
        ev: 300 + n,
        segment: None,
        dscp: 0,
        ask: EndpointAsk::EvProbe,
    };
    let questions: Vec<Question> = (0..40).map(question).collect();
    let answers = device.ask_endpoints(&questions, Duration::from_secs(10)).unwrap();
    let mut places: Vec<usize> = answers.iter().map(|(place, _)| *place).collect();
    places.sort_unstable();
    assert_eq!(places, (0..40).collect::<Vec<_>>());
    assert!(answers.iter().all(|(_, answer)| answer.port == PortId(0) && answer.rtt_ns > 0));
    let wrong = Question { port: PortId(1), ..question(0) };
    assert_eq!(device.ask_endpoints(&[wrong], Duration::ZERO), Err(QuestionError::NoSuchPort(2)));
    let nobody = Question { remote: Endpoint { ip: ip(7), ..question(0).remote }, ..question(0) };
    let silent = Question { ask: EndpointAsk::PortStatus { up: 1 }, ..nobody };
    assert_eq!(device.ask_endpoints(&[silent], Duration::from_millis(20)), Ok(Vec::new()));
}
