//! Two processes: one writes into the other's memory, and tells it so by an immediate.
//!
//! ```text
//! cargo run --example write -- --port net_memif0,role=server,socket=/tmp/m.sock --ip 10.0.0.1 --listen 127.0.0.1:7471
//! cargo run --example write -- --port net_memif0,role=client,socket=/tmp/m.sock --ip 10.0.0.2 --connect 127.0.0.1:7471
//! ```
//!
//! Who listens is written to, and who connects writes.

use clap::Parser;
use control::host::{
    CompletionQueue, Device, DeviceSpec, Exchange, ExchangeAddress, ExchangeListener, MemoryRegion, Offer, QpOffer,
    QueuePair, RegionOffer, ToInit, ToRts, WriteRequest,
};
use dataplane::dpdk::PortSpec;
use dataplane::memory::{Access, Buffer, Key};
use dataplane::nic::{CompletionEntry, Operation, PathSpec, PortId, Status};
use dataplane::transport::Psn;
use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// Writes on their way, and receives that wait.
const DEPTH: usize = 64;

#[derive(Parser)]
pub(crate) struct Args {
    /// A port that reaches the other process
    #[arg(long)]
    port: PortSpec,
    /// This end's address
    #[arg(long)]
    ip: IpAddr,
    /// Where to wait for the other process
    #[arg(long, required_unless_present = "connect")]
    listen: Option<ExchangeAddress>,
    /// Where the other process waits
    #[arg(long, conflicts_with = "listen")]
    connect: Option<ExchangeAddress>,
    /// Bytes to write; both ends have as much memory
    #[arg(long, default_value_t = 1 << 20)]
    size: u32,
}

/// What the bytes are to be.
fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8)) as u8).collect()
}

fn exchange(args: &Args) -> Result<Exchange, Box<dyn Error>> {
    let end = Instant::now() + PATIENCE;
    let listener = args.listen.as_ref().map(ExchangeListener::bind).transpose()?;
    loop {
        let met = match (&listener, &args.connect) {
            (Some(listener), _) => listener.accept()?,
            (None, Some(address)) => Exchange::connect(address).ok(),
            (None, None) => None,
        };
        if let Some(exchange) = met {
            return Ok(exchange);
        }
        if Instant::now() > end {
            return Err("the other process does not come".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The next completion, which is a success.
fn completion(cq: &CompletionQueue) -> Result<CompletionEntry, Box<dyn Error>> {
    let end = Instant::now() + PATIENCE;
    while cq.wait(end.saturating_duration_since(Instant::now())) {
        match cq.poll() {
            Some(entry) if entry.completion.status == Status::Success => return Ok(entry),
            Some(entry) => return Err(format!("it ended with {:?}", entry.completion.status).into()),
            None => {}
        }
    }
    Err("no completion came".into())
}

/// Tells the other end who this is, hears who that is, and brings the QP to RTS.
fn join(
    args: &Args,
    device: &Device,
    qp: &QueuePair,
    region: &MemoryRegion,
) -> Result<(Offer, Exchange), Box<dyn Error>> {
    let transport = device.params().transport;
    let own = Offer {
        ip: args.ip,
        macs: device.ports().iter().map(|port| port.mac).collect(),
        mss: transport.mss,
        window: transport.max_psn_range,
        immediates: DEPTH as u32,
        // A program that is started often takes another PSN each time.
        qps: vec![QpOffer { qpn: qp.qpn().get(), psn: 0 }],
        region: Some(RegionOffer { key: region.key().0, address: region.address(), size: region.len() as u64 }),
    };
    let mut exchange = exchange(args)?;
    let own_name = if args.listen.is_some() { "target" } else { "writer" };
    exchange.offer(own_name, &own)?;
    let (_, other) = exchange.take_offer()?;
    own.check(&other)?;
    let rtr = own.to_rtr(&other, 0, PathSpec::default(), None, None).ok_or("the other end offers no QP")?;
    qp.rtr(&rtr)?;
    qp.rts(ToRts { send_psn: Psn::new(own.qps[0].psn), peer: other.advertised() })?;
    exchange.ready()?;
    Ok((other, exchange))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Args::parse())
}

/// Does what `main` does.
pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceSpec { ports: vec![args.port.clone()], ..DeviceSpec::default() })?;
    let domain = device.domain();
    let region = domain.register(&Buffer::new(args.size as usize), Access { remote_write: true }, None)?;
    let cq = device.completion_queue(2 * DEPTH)?;
    let qp = domain.create_qp(&cq, &cq)?;
    qp.init(ToInit { port: PortId(0), send_depth: DEPTH, receive_depth: DEPTH, write_imm_limit: DEPTH as u32 })?;
    qp.post_recv(0)?;
    let (other, mut exchange) = join(&args, &device, &qp, &region)?;
    if args.listen.is_some() {
        let entry = completion(&cq)?;
        let Operation::Receive { immediate } = entry.completion.operation else { return Err("no receive".into()) };
        let mut bytes = vec![0; args.size as usize];
        region.buffer().read(0, &mut bytes)?;
        if bytes != pattern(args.size) {
            return Err("the bytes are not those that were written".into());
        }
        println!("{} bytes arrived, and the immediate {immediate}", bytes.len());
        // The last acknowledgement is on its way: the writer goes once it has it.
        let end = Instant::now() + PATIENCE;
        while exchange.is_open(Duration::from_millis(100)) && Instant::now() < end {}
        return Ok(());
    }
    let remote = other.region.ok_or("the other end offers no region")?;
    region.buffer().write(0, &pattern(args.size))?;
    let write = WriteRequest {
        wr_id: 1,
        local_key: region.key(),
        local_va: region.address(),
        remote_key: Key(remote.key),
        remote_va: remote.address,
        len: args.size,
        immediate: None,
        signaled: true,
    };
    qp.post_write(&write)?;
    qp.post_write_imm(&WriteRequest { wr_id: 2, len: 0, ..write }, 42)?;
    for _ in 0..2 {
        let entry = completion(&cq)?;
        println!("request {} completed", entry.completion.wr_id);
    }
    Ok(())
}
