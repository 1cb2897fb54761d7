//! What the tests of several ports share: a log of every frame with the port that it left by.

use dataplane::Ns;
use dataplane::nic::NicParams;
use dataplane::path::SprayingParams;
use dataplane::wire::Packet;
use mrcnic_tests::{Pair, QpPair};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What left: when, by which NIC and port, and what it was.
pub(crate) type Log = Rc<RefCell<Vec<(Ns, usize, u8, Packet)>>>;

/// Writes down every frame, and lets it go where `carries` says so.
pub(crate) fn watch(pair: &mut Pair, mut carries: impl FnMut(Ns, usize, u8, &Packet) -> bool + 'static) -> Log {
    let log = Log::default();
    let writer = log.clone();
    pair.port_filter = Some(Box::new(move |now, from, port, packet| {
        writer.borrow_mut().push((now, from, port.0, *packet));
        carries(now, from, port.0, packet)
    }));
    log
}

pub(crate) fn probed() -> NicParams {
    let spraying = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
    NicParams { spraying, ..NicParams::default() }
}

pub(crate) fn data(log: &Log) -> Vec<(u8, Packet)> {
    let data = |&(_, from, port, packet): &(Ns, usize, u8, Packet)| {
        (from == 0 && packet.bth.opcode.is_data()).then_some((port, packet))
    };
    log.borrow().iter().filter_map(data).collect()
}

pub(crate) fn counts<T: Ord>(of: impl IntoIterator<Item = T>) -> BTreeMap<T, u32> {
    let mut counts = BTreeMap::new();
    for item in of {
        *counts.entry(item).or_default() += 1;
    }
    counts
}

pub(crate) fn write(pair: &mut Pair, qp: &QpPair, len: usize) {
    pair.fill(3);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, len)).unwrap();
}

pub(crate) fn assert_written(pair: &Pair, len: usize) {
    assert_eq!(pair.completions[0].len(), 1);
    assert!(pair.bytes(1, 0, len) == pair.bytes(0, 0, len), "all bytes arrived");
}
