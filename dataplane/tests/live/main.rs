//! Live ports. DPDK starts once a process, so each test runs in a process of its own: cargo-nextest does so anyway, and
//! under a plain `cargo test` each starts this program again for itself alone ([`alone`]).
//!
//! A test that needs a privilege which it lacks says so and passes.
#![allow(clippy::expect_used, reason = "tests")]

mod dma;
mod fabric;
mod faults;
mod ring;
mod software;
mod workers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::dpdk::{Batch, Eal, EalOptions, Memory, Port, PortConfig, Queue};
use dataplane::memory::{Access, Buffer, Domain, Extent, Key, Keys, Loans, Region, Table};
use dataplane::nic::RxFrame;

/// Runs `test` in a process where nothing else runs. `name` is the test's full name.
fn alone(name: &str, test: impl FnOnce()) {
    const MARK: &str = "MRCNIC_TEST_ALONE";
    if std::env::var_os(MARK).is_some_and(|mark| mark == name) {
        return test();
    }
    let program = std::env::current_exe().expect("a running program has a name");
    let status = Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARK, name)
        .status()
        .expect("a test starts itself");
    assert!(status.success(), "{name}: {status}");
}

/// Wraps a test's body in [`alone`].
macro_rules! live {
    ($(fn $name:ident() $body:block)+) => { $(
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            let path = path.split_once("::").map_or(path, |(_, path)| path);
            crate::alone(path, || $body);
        }
    )+ };
}
pub(crate) use live;

fn eal() -> Eal {
    Eal::init(&EalOptions { memory: Memory::NoHuge { mib: 256 }, ..EalOptions::default() }).expect("DPDK starts")
}

/// A configuration that suits a test: small pools.
fn small() -> PortConfig {
    PortConfig { small: 1_023, large: 511, rx_desc: 256, rx: Some(1_023), ..PortConfig::default() }
}

fn open(eal: &Eal, spec: &str, config: &PortConfig) -> Port {
    Port::open(eal, &spec.parse().expect(spec), config).expect(spec)
}

/// A file of this process's own.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// A frame that says which it is, for `len` of 14 or more bytes.
fn pattern(number: u8, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7).wrapping_add(number)).collect();
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// Puts a frame in the queue's burst, without a flush.
fn put(queue: &mut Queue, frame: &[u8]) -> bool {
    match queue.tx.slot(frame.len()) {
        Some(slot) => slot.copy_from_slice(frame),
        None => return false,
    }
    queue.tx.commit();
    true
}

/// Memory from which pieces are lent, and what became of the loans.
struct Lender {
    table: Table,
    loans: Loans,
    key: Key,
    memory: Arc<Buffer>,
}

impl Lender {
    fn new(bytes: &[u8]) -> Lender {
        let (key, memory) = (Keys::default().allocate().expect("the first key"), Buffer::new(bytes.len()));
        memory.write(0, bytes).expect("as many bytes");
        let mut table = Table::default();
        let access = Access::default();
        table.insert(key, Region { domain: Domain(0), access, iova: 0, memory: Arc::clone(&memory) });
        Lender { table, loans: Loans::new(), key, memory }
    }

    /// Puts a frame of three parts in the queue's burst, of which the second is lent.
    fn put(&mut self, queue: &mut Queue, head: &[u8], len: usize, tail: &[u8]) -> bool {
        let range = self.table.local(Domain(0), self.key, 0, len).expect("within the region");
        let id = self.loans.take(self.key, &self.memory).expect("a loan");
        let piece = self.loans.lend(id, &range).expect("a piece");
        self.loans.abandon(id);
        let Some((before, behind)) = queue.tx.slot_around(head.len(), piece, tail.len()) else { return false };
        before.copy_from_slice(head);
        behind.copy_from_slice(tail);
        queue.tx.commit();
        true
    }

    fn is_out(&mut self) -> bool {
        self.loans.uses(self.key)
    }
}

/// All bytes of a received frame, by way of its body.
fn bytes<F: RxFrame>(frame: &F) -> Vec<u8> {
    let mut all = Vec::new();
    frame.body(0, frame.len(), |extent: Extent<'_>| all.extend_from_slice(&copy(extent)));
    all
}

#[allow(unsafe_code)]
fn copy(extent: Extent<'_>) -> Vec<u8> {
    // SAFETY: nobody writes to a received frame in these tests.
    unsafe { std::slice::from_raw_parts(extent.as_ptr(), extent.len()) }.to_vec()
}

/// Receives until `wanted` frames came that `keep` wants, or ten seconds passed.
fn receive(queue: &mut Queue, wanted: usize, keep: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while got.len() < wanted && Instant::now() < end {
        let batch: &mut Batch = queue.rx.burst();
        for i in 0..batch.len() {
            let frame = batch.frame(i).expect("a frame received");
            assert_eq!(frame.head(), &bytes(&frame)[..frame.head().len()]);
            got.push(bytes(&frame));
        }
        got.retain(|frame| keep(frame));
        std::thread::sleep(Duration::from_micros(50));
    }
    got
}

/// Flushes until nothing waits, or ten seconds passed; how many the port took.
fn drain(queue: &mut Queue) -> usize {
    let end = Instant::now() + Duration::from_secs(10);
    let mut sent = 0;
    while queue.tx.waiting() > 0 && Instant::now() < end {
        sent += queue.tx.flush();
        std::thread::sleep(Duration::from_micros(50));
    }
    sent
}

fn is_pattern(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x88, 0xb5])
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let caps = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim().to_owned();
    // CAP_NET_ADMIN is bit 12, CAP_NET_RAW 13, CAP_SYS_ADMIN 21.
    let wanted = (1 << 12) | (1 << 13) | (1 << 21);
    u64::from_str_radix(&caps, 16).unwrap_or(0) & wanted == wanted
}
