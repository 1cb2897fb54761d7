//! A process that survives, and peers of it that are killed in the middle of a transfer.

use control::host::{
    AsyncEvent, CompletionQueue, Device, DeviceSpec, Exchange, ExchangeAddress, ExchangeListener, LifeState,
    MemoryRegion, Offer, ProtectionDomain, QpOffer, QueuePair, RegionOffer, ToInit, ToRts, WriteRequest, any_seed,
};
use dataplane::memory::{Access, Buffer, Key};
use dataplane::nic::{CompletionEntry, NicParams, Operation, PathSpec, PortId, Status};
use dataplane::time::MS;
use dataplane::transport::{Psn, TransportParams};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// With it in the environment this program is a peer: its part, and its port.
const ROLE: &str = "MRCNIC_TEST_KILLED";
const DEPTH: usize = 16;
const RECEIVES: u32 = 4;
const PIECE: u32 = 65_536;
const SIZE: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A NIC with its memory.
struct Side {
    device: Device,
    domain: ProtectionDomain,
    region: MemoryRegion,
    n: u8,
}

/// A QP with the other process.
struct Bond {
    qp: QueuePair,
    cq: CompletionQueue,
    exchange: Exchange,
    remote: RegionOffer,
}

impl Side {
    fn new(n: u8, port: &str) -> Side {
        // Whatever else this machine does is no loss; a peer that is gone is given up after two seconds.
        let transport = TransportParams {
            initial_ack_timeout_ns: 100 * MS,
            linear_retry_count: 3,
            exponential_retry_count: 2,
            ..TransportParams::default()
        };
        let params = NicParams { transport, seed: any_seed(), ..NicParams::default() };
        let ports = vec![port.parse().unwrap()];
        let device = Device::open(DeviceSpec { ports, params, ..DeviceSpec::default() }).unwrap();
        let domain = device.domain();
        let region = domain.register(&Buffer::new(SIZE), Access { remote_write: true }, None).unwrap();
        Side { device, domain, region, n }
    }

    fn join(&self, mut exchange: Exchange) -> Bond {
        let cq = self.device.completion_queue(64).unwrap();
        let qp = self.domain.create_qp(&cq, &cq).unwrap();
        let receive_depth = RECEIVES as usize;
        qp.init(ToInit { port: PortId(0), send_depth: DEPTH, receive_depth, write_imm_limit: RECEIVES }).unwrap();
        qp.renew_receives(true);
        (0..RECEIVES).for_each(|wr_id| qp.post_recv(wr_id.into()).unwrap());
        let transport = self.device.params().transport;
        let own = Offer {
            ip: [10, 0, 0, self.n].into(),
            macs: self.device.ports().iter().map(|port| port.mac).collect(),
            mss: transport.mss,
            window: transport.max_psn_range,
            immediates: RECEIVES,
            qps: vec![QpOffer { qpn: qp.qpn().get(), psn: any_seed() as u32 & 0xFF_FFFF }],
            region: Some(RegionOffer { key: self.region.key().0, address: self.region.address(), size: SIZE as u64 }),
        };
        exchange.offer("a process", &own).unwrap();
        let (_, other) = exchange.take_offer().unwrap();
        qp.rtr(&own.to_rtr(&other, 0, PathSpec::default(), None, None).unwrap()).unwrap();
        qp.rts(ToRts { send_psn: Psn::new(own.qps[0].psn), peer: other.advertised() }).unwrap();
        exchange.ready().unwrap();
        Bond { qp, cq, exchange, remote: other.region.unwrap() }
    }

    fn write(&self, bond: &Bond, wr_id: u64, len: u32, immediate: Option<u32>) {
        let request = WriteRequest {
            wr_id,
            local_key: self.region.key(),
            local_va: self.region.address(),
            remote_key: Key(bond.remote.key),
            remote_va: bond.remote.address,
            len,
            immediate: None,
            signaled: true,
        };
        match immediate {
            Some(immediate) => bond.qp.post_write_imm(&request, immediate).unwrap(),
            None => bond.qp.post_write(&request).unwrap(),
        }
    }

    /// The QP has failed with this completion: all that was posted has ended, and the application hears of it.
    fn ended(&self, bond: &Bond, first: CompletionEntry, rest: usize) {
        assert_eq!(first.completion.status, Status::RetryExceeded);
        for wr_id in 1..=rest as u64 {
            let flushed = next(&bond.cq).completion;
            assert_eq!((flushed.status, flushed.wr_id), (Status::Flushed, first.completion.wr_id + wr_id));
        }
        for _ in 0..RECEIVES {
            let flushed = next(&bond.cq).completion;
            assert_eq!(flushed.status, Status::Flushed);
            assert!(matches!(flushed.operation, Operation::Receive { .. }));
        }
        assert_eq!((bond.qp.pending(), bond.cq.len()), ((0, 0), 0));
        assert_eq!(bond.qp.state(), LifeState::Error);
        let event = AsyncEvent::QpError { qpn: bond.qp.qpn(), cause: Some(Status::RetryExceeded) };
        let end = Instant::now() + PATIENCE;
        let told = loop {
            match self.device.poll_event() {
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                told => break told,
            }
        };
        assert_eq!(told, Some(event));
    }
}

fn next(cq: &CompletionQueue) -> CompletionEntry {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(cq.wait(end.saturating_duration_since(Instant::now())), "nothing completes");
        if let Some(entry) = cq.poll() {
            return entry;
        }
    }
}

fn success(cq: &CompletionQueue) -> CompletionEntry {
    let entry = next(cq);
    assert_eq!(entry.completion.status, Status::Success);
    entry
}

/// What a peer does.
fn peer(part: &str, port: &str, meet: &ExchangeAddress) {
    let side = Side::new(2, port);
    let mut bond = side.join(Exchange::connect(meet).unwrap());
    match part {
        "taken" => while bond.exchange.is_open(Duration::from_millis(100)) {},
        "writes" => {
            for wr_id in 0.. {
                side.write(&bond, wr_id, PIECE, Some(wr_id as u32));
                success(&bond.cq);
            }
        }
        _ => {
            let received = success(&bond.cq).completion;
            assert_eq!(received.operation, Operation::Receive { immediate: 42 });
            let mut bytes = vec![0; SIZE];
            side.region.buffer().read(0, &mut bytes).unwrap();
            assert_eq!(bytes, pattern());
            while bond.exchange.is_open(Duration::from_millis(100)) {}
        }
    }
}

fn survive(side: &Side, listener: &ExchangeListener, start: impl Fn(&str) -> Child) {
    let meet = || {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "nobody comes");
            match listener.accept().unwrap() {
                Some(exchange) => return side.join(exchange),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    let kill = |mut victim: Child| {
        victim.kill().unwrap();
        victim.wait().unwrap();
    };
    // A responder.
    let mut victim = Some(start("taken"));
    let bond = meet();
    let (mut posted, mut done) = (0, 0);
    let first = loop {
        while posted - done < DEPTH as u64 {
            side.write(&bond, posted, PIECE, None);
            posted += 1;
        }
        let entry = next(&bond.cq);
        if entry.completion.status != Status::Success {
            break entry;
        }
        done += 1;
        if done == 100 {
            victim.take().into_iter().for_each(kill);
        }
    };
    assert!(done >= 100 && first.completion.wr_id == done, "{done} were written");
    side.ended(&bond, first, DEPTH - 1);
    drop(bond);
    // A requester: whose receives wait never learns of it from them, so it asks.
    let victim = start("writes");
    let bond = meet();
    for _ in 0..100 {
        success(&bond.cq);
    }
    kill(victim);
    while bond.cq.wait(Duration::from_millis(500)) {
        success(&bond.cq);
    }
    (0..3).for_each(|wr_id| side.write(&bond, wr_id, 0, None));
    let first = next(&bond.cq);
    assert_eq!(first.completion.wr_id, 0);
    side.ended(&bond, first, 2);
    drop(bond);
    // One that lives.
    let mut peer = start("lives");
    let bond = meet();
    side.region.buffer().write(0, &pattern()).unwrap();
    side.write(&bond, 1, SIZE as u32, Some(42));
    assert_eq!(success(&bond.cq).completion.wr_id, 1);
    drop(bond);
    assert!(peer.wait().unwrap().success());
}

/// A process that has the port in the role `own` outlives its peers.
fn outlived(test: &str, own: &str, other: &str) {
    let exchange = |dir: &Path| -> ExchangeAddress { dir.join("exchange").to_str().unwrap().parse().unwrap() };
    if let Ok(role) = std::env::var(ROLE) {
        let [part, port, dir]: [&str; 3] = role.split(' ').collect::<Vec<_>>().try_into().unwrap();
        return peer(part, port, &exchange(Path::new(dir)));
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let port = |role: &str| format!("net_memif0,role={role},socket={at}/m");
    let listener = ExchangeListener::bind(&exchange(dir.path())).unwrap();
    let side = Side::new(1, &port(own));
    survive(&side, &listener, |part| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(ROLE, format!("{part} {} {at}", port(other)))
            .spawn()
            .unwrap()
    });
}

fn pattern() -> Vec<u8> {
    (0..1 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect()
}

#[test]
fn a_process_with_the_server_of_a_memif_outlives_peers_that_are_killed() {
    outlived(
        "processes::killed::a_process_with_the_server_of_a_memif_outlives_peers_that_are_killed",
        "server",
        "client",
    );
}

#[test]
fn a_process_with_the_client_of_a_memif_outlives_peers_that_are_killed() {
    outlived(
        "processes::killed::a_process_with_the_client_of_a_memif_outlives_peers_that_are_killed",
        "client",
        "server",
    );
}
