//! Which packets the monitor shows (Scala MRC NIC documentation, `ScalaMrcMonitor`).

use crate::config::{Filter, Monitor, NodeId, QpEnd};
use dataplane::nic::{Direction, Happening, LifeEvent, PacketKind, QpEnds, Seen};
use dataplane::wire::{NackReason, Trim};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the monitors of all NICs of a process share: how much they have shown.
#[derive(Debug, Default)]
pub struct MonitorTotals {
    rows: AtomicU64,
    triggered: AtomicU64,
}

/// Takes one of `cap` places.
fn take_place(taken: &AtomicU64, cap: Option<u64>) -> bool {
    let more = |count: u64| cap.is_none_or(|cap| count < cap).then_some(count + 1);
    taken.fetch_update(Relaxed, Relaxed, more).is_ok()
}

/// Chooses packets for one engine: those of queue pairs that all filters let through, or that a trigger selected, as far as their kind and
/// direction are switched on and there is room.
#[derive(Debug)]
pub struct Selector {
    monitor: Monitor,
    node_matches: bool,
    totals: Arc<MonitorTotals>,
    /// Queue pairs that triggers selected.
    selected: HashSet<QpEnds>,
    /// Those that the filters let through, or not: looked up once.
    filtered: Option<(QpEnds, bool)>,
}

impl Selector {
    /// The selector of an engine of node `node`.
    #[must_use]
    pub fn new(monitor: Monitor, node: u32, totals: Arc<MonitorTotals>) -> Selector {
        let node_matches = matches(&monitor.filter_node_id, |&NodeId(id)| id == node);
        Selector { monitor, node_matches, totals, selected: HashSet::new(), filtered: None }
    }

    /// Something happened: it may select its queue pair.
    pub fn event(&mut self, event: &LifeEvent) {
        let triggers = &self.monitor.monitor_triggers;
        let selects = match event.what {
            Happening::Failed(_) => triggers.qp_error,
            Happening::TimedOut { .. } => triggers.rto,
            // Another queue pair may come to have the same ends.
            Happening::Closed => {
                self.selected.remove(&event.qp);
                false
            }
            _ => false,
        };
        if selects {
            self.select(event.qp);
        }
    }

    /// Whether a packet is shown; if so, it counts. A packet that is itself a trigger is the first to be shown.
    pub fn packet(&mut self, seen: &Seen) -> bool {
        let Some(qp) = seen.qp else { return false };
        let triggers = &self.monitor.monitor_triggers;
        let received = seen.direction == Direction::Rx;
        let trimmed = triggers.trim && seen.trim != Trim::Whole;
        let nack = triggers.nack && seen.kind == Some(PacketKind::Nack);
        if received && (trimmed || nack) {
            self.select(qp);
        }
        self.is_wanted(seen)
            && (self.lets_through(&qp) || self.selected.contains(&qp))
            && take_place(&self.totals.rows, self.monitor.row_cap())
    }

    /// Whether no filter holds anything back: then packets of no queue pair are of interest too.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let Monitor {
            filter_local_endpoint,
            filter_remote_endpoint,
            filter_either_endpoint,
            filter_local_addr,
            filter_remote_addr,
            filter_either_addr,
            filter_node_id,
            ..
        } = &self.monitor;
        let ends = [filter_local_endpoint, filter_remote_endpoint, filter_either_endpoint];
        let addresses = [filter_local_addr, filter_remote_addr, filter_either_addr];
        ends.into_iter().all(|filter| *filter == Filter::All)
            && addresses.into_iter().all(|filter| *filter == Filter::All)
            && *filter_node_id == Filter::All
    }

    fn select(&mut self, qp: QpEnds) {
        if !self.selected.contains(&qp) && take_place(&self.totals.triggered, self.monitor.trigger_qp_cap()) {
            self.selected.insert(qp);
        }
    }

    /// Do all filters let a queue pair through? Packets come in runs, so the last answer is kept.
    fn lets_through(&mut self, qp: &QpEnds) -> bool {
        if let Some((last, answer)) = &self.filtered
            && last == qp
        {
            return *answer;
        }
        let answer = self.node_matches && self.ends_match(qp);
        self.filtered = Some((*qp, answer));
        answer
    }

    fn ends_match(&self, qp: &QpEnds) -> bool {
        let is = |address: IpAddr, wanted: Ipv4Addr| address == IpAddr::V4(wanted);
        let local_end = |end: &QpEnd| is(qp.local, end.address) && qp.qpn == end.qp;
        let remote_end = |end: &QpEnd| is(qp.remote, end.address) && qp.peer_qpn == end.qp;
        let monitor = &self.monitor;
        matches(&monitor.filter_local_endpoint, local_end)
            && matches(&monitor.filter_remote_endpoint, remote_end)
            && matches(&monitor.filter_either_endpoint, |end| local_end(end) || remote_end(end))
            && matches(&monitor.filter_local_addr, |&address| is(qp.local, address))
            && matches(&monitor.filter_remote_addr, |&address| is(qp.remote, address))
            && matches(&monitor.filter_either_addr, |&address| is(qp.local, address) || is(qp.remote, address))
    }

    /// Are the packet's kind and direction switched on?
    fn is_wanted(&self, seen: &Seen) -> bool {
        let monitor = &self.monitor;
        let of_kind = match seen.kind {
            Some(PacketKind::Write) => monitor.log_write,
            Some(PacketKind::Ack) => monitor.log_ack,
            Some(PacketKind::Sack) => monitor.log_sack,
            Some(PacketKind::Nack) => monitor.log_nack,
            Some(PacketKind::Probe) => monitor.log_probe,
            Some(PacketKind::Endpoint) | None => return false,
        };
        let of_direction = match seen.direction {
            Direction::Tx => monitor.log_tx,
            Direction::Rtx(_) => monitor.log_rtx,
            Direction::Rx => monitor.log_rx,
        };
        of_kind && of_direction && (seen.direction != Direction::Rx || self.wants_code(seen.nack))
    }

    /// Is the code of a received NACK switched on? The documentation has no switch for the other codes.
    fn wants_code(&self, nack: Option<u8>) -> bool {
        match nack.and_then(NackReason::from_u8) {
            Some(NackReason::Trimmed) => self.monitor.log_nack_trimmed,
            Some(NackReason::TrimmedLastHop) => self.monitor.log_nack_trimmed_last_hop,
            Some(NackReason::PsnOutOfWindow) => self.monitor.log_nack_psn_oor,
            Some(NackReason::UnexpectedEvent) => self.monitor.log_nack_unexp,
            _ => true,
        }
    }
}

fn matches<T>(filter: &Filter<T>, is: impl Fn(&T) -> bool) -> bool {
    match filter {
        Filter::All => true,
        Filter::Any(entries) => entries.iter().any(is),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loaded;
    use dataplane::Ns;
    use dataplane::nic::PortId;

    const A: QpEnds = ends(1, 0x1_0000, 2, 0x1_0001);
    const B: QpEnds = ends(1, 0x1_0002, 3, 0x1_0003);

    const fn ends(local: u8, qpn: u32, remote: u8, peer_qpn: u32) -> QpEnds {
        QpEnds { local: ip_of(local), qpn, remote: ip_of(remote), peer_qpn }
    }

    const fn ip_of(n: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
    }

    fn selector(settings: &str) -> Selector {
        let text = format!("[nic]\nenable_monitor = true\n[monitor]\n{settings}\n");
        let loaded = Loaded::read(&text, "test.toml").unwrap();
        Selector::new(loaded.config.setup().records.monitor.unwrap(), 7, Arc::default())
    }

    fn seen(qp: QpEnds, direction: Direction, kind: PacketKind) -> Seen {
        Seen {
            at: Ns(0),
            port: PortId(0),
            direction,
            kind: Some(kind),
            qp: Some(qp),
            psn: 0,
            ev: 256,
            ev_state: None,
            frame_len: 100,
            payload: 0,
            ecn: 0,
            trim: Trim::Whole,
            nack: None,
            verdict: Ok(()),
        }
    }

    fn shows(selector: &mut Selector, qp: QpEnds) -> bool {
        selector.packet(&seen(qp, Direction::Tx, PacketKind::Write))
    }

    #[test]
    fn a_queue_pair_is_shown_when_it_matches_every_filter_that_is_not_all() {
        for (settings, a, b) in [
            ("", true, true),
            ("filter_local_endpoint = \"10.0.0.1:65536\"", true, false),
            ("filter_local_endpoint = \"10.0.0.1:65536,10.0.0.1:65538\"", true, true),
            ("filter_remote_endpoint = \"10.0.0.3:65539\"", false, true),
            ("filter_either_endpoint = \"10.0.0.3:65539,10.0.0.1:65536\"", true, true),
            ("filter_local_addr = \"10.0.0.2\"", false, false),
            ("filter_local_addr = \"10.0.0.1\"\nfilter_remote_addr = \"10.0.0.2\"", true, false),
            ("filter_either_addr = \"10.0.0.3\"", false, true),
            ("filter_node_id = \"7\"", true, true),
            ("filter_node_id = \"6,8\"", false, false),
        ] {
            let mut selector = selector(settings);
            assert_eq!((shows(&mut selector, A), shows(&mut selector, B)), (a, b), "{settings}");
            assert_eq!(selector.is_open(), settings.is_empty());
        }
    }

    #[test]
    fn a_trigger_selects_its_queue_pair_from_the_moment_that_it_happens_and_no_other() {
        let closed = "filter_node_id = \"0\"";
        let life = |what| LifeEvent { at: Ns(0), qp: A, what };
        for (trigger, event) in [("rto", Happening::TimedOut { ev: 256 }), ("qp_error", Happening::Failed(None))] {
            let mut selector = selector(&format!("{closed}\nmonitor_triggers = \"{trigger}\""));
            assert!(!shows(&mut selector, A));
            selector.event(&life(Happening::Opened));
            assert!(!shows(&mut selector, A));
            selector.event(&life(event));
            assert!(shows(&mut selector, A) && !shows(&mut selector, B), "{trigger}");
            selector.event(&life(Happening::Closed));
            assert!(!shows(&mut selector, A), "the next one with these ends is another");
        }
        let nack = Seen { nack: Some(1), ..seen(A, Direction::Rx, PacketKind::Nack) };
        let trimmed = Seen { trim: Trim::Trimmed, ..seen(A, Direction::Rx, PacketKind::Write) };
        for (trigger, packet, other) in [("nack", &nack, &trimmed), ("trim", &trimmed, &nack)] {
            let mut selector = selector(&format!("{closed}\nmonitor_triggers = \"{trigger}\""));
            assert!(!selector.packet(other) && !shows(&mut selector, A));
            assert!(selector.packet(packet), "{trigger}: the packet itself is the first");
            assert!(shows(&mut selector, A) && !shows(&mut selector, B));
        }
        let mut selector = selector(closed);
        selector.event(&life(Happening::Failed(None)));
        assert!(!selector.packet(&nack) && !shows(&mut selector, A), "None triggers nothing");
    }

    #[test]
    fn triggers_select_no_more_queue_pairs_than_their_cap_in_the_whole_process() {
        for (cap, selected) in [
            ("monitor_trigger_qp_cap = 1", (true, false)),
            ("monitor_trigger_qp_cap = 0", (false, false)),
            ("monitor_trigger_qp_cap = 0\nenable_monitor_trigger_qp_cap = false", (true, true)),
        ] {
            let mut selector = selector(&format!("filter_node_id = \"0\"\nmonitor_triggers = \"rto\"\n{cap}"));
            for qp in [A, A, B] {
                selector.event(&LifeEvent { at: Ns(0), qp, what: Happening::TimedOut { ev: 1 } });
            }
            assert_eq!((shows(&mut selector, A), shows(&mut selector, B)), selected, "{cap}");
        }
    }

    #[test]
    fn no_more_rows_than_the_cap_are_shown_by_all_selectors_of_a_process_together() {
        let totals = Arc::default();
        let with = |settings: &str| Selector { totals: Arc::clone(&totals), ..selector(settings) };
        let (mut one, mut other) = (with("monitor_row_cap = 3"), with("monitor_row_cap = 3"));
        assert!(shows(&mut one, A) && shows(&mut other, A) && shows(&mut one, A));
        assert!(!shows(&mut other, A) && !shows(&mut one, A));
        assert!(shows(&mut with("monitor_row_cap = 3\nenable_monitor_row_cap = false"), A));
        assert!(!shows(&mut selector("monitor_row_cap = 0"), A));
    }

    #[test]
    fn a_packet_needs_the_switches_of_its_kind_and_direction_and_a_received_nack_that_of_its_code() {
        use dataplane::nic::Again;
        let again = Direction::Rtx(Again::Timeout);
        let nack =
            |reason: NackReason, direction| Seen { nack: Some(reason as u8), ..seen(A, direction, PacketKind::Nack) };
        let cases: [(&str, Seen); 12] = [
            ("log_write", seen(A, Direction::Tx, PacketKind::Write)),
            ("log_ack", seen(A, Direction::Rx, PacketKind::Ack)),
            ("log_sack", seen(A, Direction::Tx, PacketKind::Sack)),
            ("log_nack", nack(NackReason::NoBitmap, Direction::Tx)),
            ("log_probe", seen(A, Direction::Rx, PacketKind::Probe)),
            ("log_tx", seen(A, Direction::Tx, PacketKind::Ack)),
            ("log_rx", nack(NackReason::NoResource, Direction::Rx)),
            ("log_rtx", seen(A, again, PacketKind::Write)),
            ("log_nack_trimmed", nack(NackReason::Trimmed, Direction::Rx)),
            ("log_nack_trimmed_last_hop", nack(NackReason::TrimmedLastHop, Direction::Rx)),
            ("log_nack_psn_oor", nack(NackReason::PsnOutOfWindow, Direction::Rx)),
            ("log_nack_unexp", nack(NackReason::UnexpectedEvent, Direction::Rx)),
        ];
        for (switch, packet) in &cases {
            assert!(selector("").packet(packet), "{switch}");
            assert!(!selector(&format!("{switch} = false")).packet(packet), "{switch}");
        }
        let (_, retransmission) = &cases[7];
        assert!(selector("log_tx = false").packet(retransmission));
        let sent = nack(NackReason::Trimmed, Direction::Tx);
        assert!(selector("log_nack_trimmed = false").packet(&sent), "codes are those of received NACKs");
    }
}
