//! What an observer of an engine sees.

use dataplane::Ns;
use dataplane::nic::{
    Again, Direction, DropReason, EvState, FrameBytes, Happening, LifeEvent, NicParams, Operation, PacketKind, QpState,
    Seen, Status, Tap,
};
use dataplane::time::{MS, US};
use dataplane::transport::{Fault, TransportParams};
use dataplane::wire::{Rules, Trim, parse};
use mrcnic_tests::{Channel, Fate, Pair, marked, trimmed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A packet and its bytes.
type Packet = (Seen, Vec<u8>);

/// Keeps all that it sees, with the bytes of each packet.
#[derive(Clone, Default)]
struct Watcher {
    packets: Arc<Mutex<Vec<Packet>>>,
    events: Arc<Mutex<Vec<LifeEvent>>>,
}

impl Tap for Watcher {
    fn packet(&mut self, seen: &Seen, frame: &dyn FrameBytes) {
        let mut bytes = vec![0; 9000];
        let len = frame.copy_to(&mut bytes);
        bytes.truncate(len);
        self.packets.lock().unwrap().push((*seen, bytes));
    }

    fn event(&mut self, event: &LifeEvent) {
        self.events.lock().unwrap().push(*event);
    }
}

impl Watcher {
    fn seen(&self) -> Vec<Seen> {
        self.packets.lock().unwrap().iter().map(|(seen, _)| *seen).collect()
    }

    fn happenings(&self) -> Vec<Happening> {
        self.events.lock().unwrap().iter().map(|event| event.what).collect()
    }
}

fn watched(params: NicParams, channel: Channel) -> (Pair, [Watcher; 2]) {
    let mut pair = Pair::new(params, 2 << 20, channel, 1);
    let watchers = [Watcher::default(), Watcher::default()];
    for (nic, watcher) in pair.nics.iter_mut().zip(&watchers) {
        nic.set_tap(Some(Box::new(watcher.clone())));
    }
    (pair, watchers)
}

#[test]
fn a_message_of_1_mib_is_seen_as_256_packets_over_72_values_of_which_40_take_4_and_32_take_3() {
    let (mut pair, [sender, receiver]) = watched(NicParams::default(), Channel::default());
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 1 << 20)).unwrap();
    pair.run_for(10 * MS);
    let sent: Vec<Seen> = sender.seen().into_iter().filter(|seen| seen.direction == Direction::Tx).collect();
    assert_eq!(sent.len(), 256);
    let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
    for seen in &sent {
        assert_eq!((seen.kind, seen.frame_len, seen.payload), (Some(PacketKind::Write), 4174, 4096));
        assert_eq!((seen.ev_state, seen.verdict, seen.ecn), (Some(EvState::Good), Ok(()), 2));
        *uses.entry(seen.ev).or_default() += 1;
    }
    let used = |times: usize| uses.values().filter(|&&count| count == times).count();
    assert_eq!((uses.len(), used(4), used(3)), (72, 40, 32));
    let received: Vec<Seen> = receiver.seen().into_iter().filter(|seen| seen.direction == Direction::Rx).collect();
    let psns = |seen: &[Seen]| seen.iter().map(|seen| (seen.psn, seen.ev)).collect::<Vec<_>>();
    assert_eq!(psns(&received), psns(&sent));
    // Each SACK carries back the value of the packet that drew it.
    let is_sack = |seen: &&Seen| seen.kind == Some(PacketKind::Sack);
    let sacks: Vec<u32> = receiver.seen().iter().filter(is_sack).map(|seen| seen.ev).collect();
    assert_eq!(sacks, sent.iter().map(|seen| seen.ev).collect::<Vec<_>>());
}

#[test]
fn the_bytes_that_are_seen_are_those_on_the_wire_and_say_what_is_told_of_them() {
    let channel = Channel { loss: 0.05, mark: 0.1, trim: 0.05, ..Channel::default() };
    let (mut pair, watchers) = watched(NicParams::default(), channel);
    let qp = pair.connect(7);
    for id in 0..4 {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 200_000)).unwrap();
    }
    pair.run_for(100 * MS);
    assert_eq!(pair.completions[0].len(), 4);
    let mut looked = 0;
    for watcher in &watchers {
        for (seen, bytes) in watcher.packets.lock().unwrap().iter() {
            assert_eq!(bytes.len(), seen.frame_len as usize);
            let packet = parse(bytes, bytes.len(), &Rules::default()).unwrap();
            assert_eq!((packet.bth.psn, packet.ev(), packet.trim), (seen.psn, seen.ev, seen.trim));
            assert_eq!((packet.payload_len as u32, packet.ip.ecn), (seen.payload, seen.ecn));
            assert!(seen.trim != Trim::Whole || packet.icrc_ok(bytes), "it is sealed when it is shown");
            assert!(!(packet.bth.rtx && packet.bth.opcode.is_data() && seen.direction == Direction::Tx));
            looked += 1;
        }
        let stats = &pair.nics[usize::from(std::ptr::eq(watcher, &watchers[1]))].stats();
        let (rx, tx): (Vec<Seen>, Vec<Seen>) =
            watcher.seen().into_iter().partition(|seen| seen.direction == Direction::Rx);
        assert_eq!((rx.len() as u64, tx.len() as u64), (stats.rx_frames.get(), stats.tx_frames.get()));
    }
    assert!(looked > 500);
}

#[test]
fn what_is_sent_again_is_seen_with_its_cause_and_each_cause_has_a_counter() {
    let params = NicParams {
        transport: TransportParams { sack_loss_min_retx_pkts: 72, ..TransportParams::default() },
        ..NicParams::default()
    };
    let (mut pair, [sender, _]) = watched(params, Channel::default());
    let mut first = std::collections::BTreeSet::new();
    // PSN 20 is lost: the first SACK says so. PSN 30 is trimmed: a NACK. The last one is lost: a timeout.
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        let fresh = from == 0 && packet.bth.opcode.is_data() && first.insert(packet.bth.psn);
        match packet.bth.psn {
            20 | 99 if fresh => Fate::Drop,
            30 if fresh => Fate::Replace(trimmed(frame, 12)),
            _ => Fate::Pass,
        }
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 100 * 4096)).unwrap();
    pair.run_for(10 * MS);
    assert_eq!(pair.completions[0].len(), 1);
    let again: Vec<(u32, Again)> = sender
        .seen()
        .iter()
        .filter_map(|seen| if let Direction::Rtx(cause) = seen.direction { Some((seen.psn, cause)) } else { None })
        .collect();
    assert_eq!(again, [(20, Again::Gap), (30, Again::Refused), (99, Again::Timeout)]);
    let stats = pair.nics[0].stats();
    let causes = [&stats.resent_by_gap, &stats.resent_by_timeout, &stats.resent_by_nack].map(|count| count.get());
    assert_eq!((causes, stats.retransmits.get()), ([1, 1, 1], 3));
    assert_eq!(sender.happenings().iter().filter(|what| matches!(what, Happening::TimedOut { .. })).count(), 1);
}

#[test]
fn a_received_frame_is_seen_with_its_verdict_and_one_that_is_no_packet_too() {
    let (mut pair, [_, receiver]) = watched(NicParams::default(), Channel::default());
    let qp = pair.connect(0);
    pair.filter = Some(Box::new(|_, from, _, frame| if from == 0 { Fate::Replace(marked(frame)) } else { Fate::Pass }));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
    pair.inject(1, vec![0xFF; 60]);
    pair.run_for(MS);
    let received: Vec<Seen> = receiver.seen().into_iter().filter(|seen| seen.direction == Direction::Rx).collect();
    let refused = received.iter().find(|seen| seen.verdict.is_err()).unwrap();
    assert_eq!((refused.kind, refused.qp, refused.frame_len), (None, None, 60));
    assert!(matches!(refused.verdict, Err(DropReason::Wire(_))));
    let data = received.iter().find(|seen| seen.kind == Some(PacketKind::Write)).unwrap();
    assert_eq!((data.verdict, data.ecn, data.payload), (Ok(()), 3, 64));
    let ends = data.qp.unwrap();
    assert_eq!((ends.local, ends.remote), (pair.address(1), pair.address(0)));
    assert_eq!((ends.qpn, ends.peer_qpn), (qp.qpn[1].get(), qp.qpn[0].get()));
}

#[test]
fn the_lives_of_queue_pairs_and_requests_are_told_in_order_and_in_time() {
    let params = NicParams {
        transport: TransportParams { exponential_retry_count: 0, ..TransportParams::default() },
        ..NicParams::default()
    };
    let (mut pair, [sender, receiver]) = watched(params, Channel::default());
    let qp = pair.connect(0);
    pair.run_until(Ns(5 * US));
    pair.nics[0].tell_time(Ns(5 * US));
    let mut request = pair.write(9, 0, 0, 4096);
    request.immediate = Some(3);
    pair.nics[1].post_receive(qp.qpn[1], 8).unwrap();
    pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    pair.run_for(MS);
    // From now on nothing arrives: the retry budget is spent.
    pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(10, 0, 0, 64)).unwrap();
    pair.run_for(5 * MS);
    let now = pair.now;
    pair.nics[0].close(now, qp.qpn[0]);
    let happened: Vec<Happening> =
        sender.happenings().into_iter().filter(|what| !matches!(what, Happening::TimedOut { .. })).collect();
    let completed = |wr_id, operation, status, len| {
        Happening::Completed(dataplane::nic::Completion { wr_id, operation, status, len })
    };
    assert_eq!(
        happened,
        [
            Happening::Opened,
            Happening::Posted { wr_id: 9, operation: Operation::WriteImm, len: 4096 },
            completed(9, Operation::WriteImm, Status::Success, 4096),
            Happening::Posted { wr_id: 10, operation: Operation::Write, len: 64 },
            completed(10, Operation::Write, Status::RetryExceeded, 64),
            Happening::Failed(Some(Fault::RetryExceeded)),
            Happening::Closed,
        ]
    );
    assert_eq!(sender.happenings().iter().filter(|what| matches!(what, Happening::TimedOut { .. })).count(), 7);
    let of_receiver = receiver.happenings();
    assert_eq!(
        of_receiver,
        [
            Happening::Opened,
            Happening::Posted { wr_id: 8, operation: Operation::Receive { immediate: 0 }, len: 0 },
            completed(8, Operation::Receive { immediate: 3 }, Status::Success, 4096),
        ]
    );
    let times: Vec<u64> = sender.events.lock().unwrap().iter().map(|event| event.at.0).collect();
    assert_eq!((times[0], times[1]), (0, 5 * US));
    assert!(times.is_sorted());
    assert_eq!(pair.nics[1].state(qp.qpn[1]), Some(QpState::Rts));
}

#[test]
fn a_sample_has_windows_round_trips_reorder_depths_and_values_and_counts_its_interval_anew() {
    let (mut pair, _) = watched(NicParams::default(), Channel { jitter_ns: 20_000, ..Channel::default() });
    let qp = pair.connect(0);
    let now = pair.now;
    let before = pair.nics[0].sample(now);
    assert_eq!((before.qps, before.groups, before.destinations, before.evs.good), (1, 1, 1, 72));
    assert_eq!((before.rtt.count, before.windows.max, before.base_rtt.min), (0, 450_000, 6_000));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 1 << 20)).unwrap();
    pair.run_for(10 * MS);
    let now = pair.now;
    let samples = [pair.nics[0].sample(now), pair.nics[1].sample(now)];
    assert!(samples[0].rtt.count > 0 && samples[0].rtt.count <= samples[0].counts.rx_sacks);
    assert!(samples[0].rtt.min >= 2_000 && samples[0].rtt.max <= 42_000);
    assert_eq!(samples[1].reorder.count, samples[1].counts.out_of_order);
    assert!(samples[1].reorder.count > 100 && samples[1].reorder.max < 256);
    let again = [pair.nics[0].sample(now), pair.nics[1].sample(now)];
    assert_eq!((again[0].rtt.count, again[1].reorder.count), (0, 0));
    assert_eq!(again[0].counts, samples[0].counts, "counters go on");
    let peer = pair.address(1);
    let ev = pair.nics[0].list_evs(peer).next().unwrap().1.ev.value;
    pair.nics[0].deny(now, Some(peer), ev, true);
    let evs = pair.nics[0].sample(now).evs;
    assert_eq!((evs.good, evs.denied), (72, 1), "a backup took its place");
}
