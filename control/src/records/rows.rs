//! Rows of the records, in CSV and in JSON lines: the same columns in both. A value that does not exist is empty, or null.

use dataplane::nic::{Again, Direction, EvState, Happening, LifeEvent, NicSample, Operation, PacketKind, Seen};
use dataplane::transport::Fault;
use dataplane::wire::{NackReason, Trim};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;

/// A NIC, as records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
}

/// A row of `mrc-transport-stats`: a NIC at the end of an interval. Totals count from the start; the mean, least and most of round-trip
/// times and reorder depths are those of the interval, and windows are as they are then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatsRow<'a> {
    time_us: f64,
    node_id: u32,
    nic: &'a str,
    interval_us: f64,
    total_pkts_tx: u64,
    total_bytes_tx: u64,
    total_pkts_rx: u64,
    total_bytes_rx: u64,
    total_data_pkts_tx: u64,
    total_data_pkts_rx: u64,
    total_data_bytes_rx: u64,
    total_rtx_pkts: u64,
    total_rtx_sack: u64,
    total_rtx_rto: u64,
    total_rtx_nack: u64,
    total_spurious_rtx: u64,
    total_sack_pkts_tx: u64,
    total_sack_pkts_rx: u64,
    total_ack_pkts_tx: u64,
    total_ack_pkts_rx: u64,
    total_nack_pkts_tx: u64,
    total_nack_pkts_rx: u64,
    total_probe_pkts_tx: u64,
    total_probe_pkts_rx: u64,
    total_probe_responses_rx: u64,
    total_ooo_events: u64,
    calc_mean_reorder_depth: Option<f64>,
    calc_max_reorder_depth: Option<u64>,
    total_duplicate_pkts: u64,
    total_drops: u64,
    total_qp_errors: u64,
    total_wr_completed: u64,
    total_wr_failed: u64,
    num_qps: usize,
    num_groups: usize,
    num_destinations: usize,
    num_evs_good: usize,
    num_evs_skipped: usize,
    num_evs_assumed_bad: usize,
    num_evs_denied: usize,
    calc_mean_cwnd_bytes: Option<f64>,
    calc_min_cwnd_bytes: Option<u64>,
    calc_max_cwnd_bytes: Option<u64>,
    calc_inflight_bytes: u64,
    calc_mean_rtt_ns: Option<f64>,
    calc_min_rtt_ns: Option<u64>,
    calc_max_rtt_ns: Option<u64>,
    calc_base_rtt_ns: Option<u64>,
    calc_mean_queue_delay_ns: Option<f64>,
}

impl<'a> StatsRow<'a> {
    /// The row of a sample, `interval_ns` after the one before.
    #[must_use]
    pub fn new(node: &'a Node, interval_ns: u64, sample: &NicSample) -> StatsRow<'a> {
        let NicSample { counts, rtt, reorder, windows, base_rtt, delay, evs, .. } = sample;
        let least = |spread: &dataplane::nic::Spread| (spread.count > 0).then_some(spread.min);
        let most = |spread: &dataplane::nic::Spread| (spread.count > 0).then_some(spread.max);
        StatsRow {
            time_us: us(sample.at.0),
            node_id: node.id,
            nic: &node.name,
            interval_us: us(interval_ns),
            total_pkts_tx: counts.tx_frames,
            total_bytes_tx: counts.tx_bytes,
            total_pkts_rx: counts.rx_frames,
            total_bytes_rx: counts.rx_bytes,
            total_data_pkts_tx: counts.tx_data,
            total_data_pkts_rx: counts.placed,
            total_data_bytes_rx: counts.placed_bytes,
            total_rtx_pkts: counts.retransmits,
            total_rtx_sack: counts.resent_by_gap,
            total_rtx_rto: counts.resent_by_timeout,
            total_rtx_nack: counts.resent_by_nack,
            total_spurious_rtx: counts.spurious_retransmits,
            total_sack_pkts_tx: counts.tx_sacks,
            total_sack_pkts_rx: counts.rx_sacks,
            total_ack_pkts_tx: counts.tx_acks,
            total_ack_pkts_rx: counts.rx_acks,
            total_nack_pkts_tx: counts.tx_nacks,
            total_nack_pkts_rx: counts.rx_nacks,
            total_probe_pkts_tx: counts.tx_probes,
            total_probe_pkts_rx: counts.rx_probes,
            total_probe_responses_rx: counts.rx_probe_answers,
            total_ooo_events: counts.out_of_order,
            calc_mean_reorder_depth: reorder.mean(),
            calc_max_reorder_depth: most(reorder),
            total_duplicate_pkts: counts.duplicates,
            total_drops: counts.dropped(),
            total_qp_errors: counts.qp_errors,
            total_wr_completed: counts.completed,
            total_wr_failed: counts.failed,
            num_qps: sample.qps,
            num_groups: sample.groups,
            num_destinations: sample.destinations,
            num_evs_good: evs.good,
            num_evs_skipped: evs.skipped,
            num_evs_assumed_bad: evs.assumed_bad,
            num_evs_denied: evs.denied,
            calc_mean_cwnd_bytes: windows.mean(),
            calc_min_cwnd_bytes: least(windows),
            calc_max_cwnd_bytes: most(windows),
            calc_inflight_bytes: sample.inflight,
            calc_mean_rtt_ns: rtt.mean(),
            calc_min_rtt_ns: least(rtt),
            calc_max_rtt_ns: most(rtt),
            calc_base_rtt_ns: least(base_rtt),
            calc_mean_queue_delay_ns: delay.mean(),
        }
    }
}

/// A row of `mrc-events`: something in the life of a QP or of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventRow {
    #[serde(serialize_with = "as_us")]
    time_us: u64,
    node_id: u32,
    event: &'static str,
    local_addr: IpAddr,
    local_qp: u32,
    remote_addr: IpAddr,
    remote_qp: u32,
    wr_id: Option<u64>,
    operation: Option<&'static str>,
    bytes: Option<u32>,
    status: Option<&'static str>,
}

impl EventRow {
    /// The row of an event; `None` for those that are no matter of this record.
    #[must_use]
    pub fn new(node: u32, LifeEvent { at, qp, what }: &LifeEvent) -> Option<EventRow> {
        let row = EventRow {
            time_us: at.0,
            node_id: node,
            event: "",
            local_addr: qp.local,
            local_qp: qp.qpn,
            remote_addr: qp.remote,
            remote_qp: qp.peer_qpn,
            wr_id: None,
            operation: None,
            bytes: None,
            status: None,
        };
        Some(match *what {
            Happening::Opened => EventRow { event: "qp_created", ..row },
            Happening::Ready => EventRow { event: "qp_ready", ..row },
            Happening::Failed(fault) => EventRow { event: "qp_error", status: Some(fault_name(fault)), ..row },
            Happening::Closed => EventRow { event: "qp_closed", ..row },
            Happening::Posted { wr_id, operation, len } => {
                let (wr_id, operation, bytes) = (Some(wr_id), Some(operation_name(operation)), Some(len));
                EventRow { event: "wr_created", wr_id, operation, bytes, ..row }
            }
            Happening::Completed(done) => EventRow {
                event: "wr_completed",
                wr_id: Some(done.wr_id),
                operation: Some(operation_name(done.operation)),
                bytes: Some(done.len),
                status: Some(done.status.name()),
                ..row
            },
            Happening::TimedOut { .. } => return None,
        })
    }
}

/// A row of `mrc-monitor`: a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacketRow {
    #[serde(serialize_with = "as_us")]
    time_us: u64,
    node_id: u32,
    direction: &'static str,
    r#type: &'static str,
    psn: u32,
    ev: u32,
    frame_bytes: u32,
    payload_bytes: u32,
    local_addr: IpAddr,
    local_qp: u32,
    remote_addr: IpAddr,
    remote_qp: u32,
    port: u8,
    ecn: u8,
    trimmed: &'static str,
    rtx_cause: Option<&'static str>,
    nack_code: Option<&'static str>,
    ev_state: Option<&'static str>,
    verdict: &'static str,
}

impl PacketRow {
    /// The row of a packet; `None` for one of no QP.
    #[must_use]
    pub fn new(node: u32, seen: &Seen) -> Option<PacketRow> {
        let qp = seen.qp?;
        Some(PacketRow {
            time_us: seen.at.0,
            node_id: node,
            direction: direction_name(seen.direction),
            r#type: seen.kind.map_or("unknown", kind_name),
            psn: seen.psn,
            ev: seen.ev,
            frame_bytes: seen.frame_len,
            payload_bytes: seen.payload,
            local_addr: qp.local,
            local_qp: qp.qpn,
            remote_addr: qp.remote,
            remote_qp: qp.peer_qpn,
            port: seen.port.0 + 1,
            ecn: seen.ecn,
            trimmed: match seen.trim {
                Trim::Whole => "no",
                Trim::Trimmed => "yes",
                Trim::LastHop => "last_hop",
            },
            rtx_cause: if let Direction::Rtx(cause) = seen.direction { Some(cause_name(cause)) } else { None },
            nack_code: seen.nack.map(nack_name),
            ev_state: seen.ev_state.map(EvState::name),
            verdict: verdict_name(seen),
        })
    }
}

/// A time in us.
fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// Nanoseconds, written as us.
fn as_us<S: serde::Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(us(*ns))
}

const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "tx",
        Direction::Rtx(_) => "rtx",
        Direction::Rx => "rx",
    }
}

/// The name of a packet's kind.
#[must_use]
pub(super) const fn kind_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Write => "write",
        PacketKind::Ack => "ack",
        PacketKind::Sack => "sack",
        PacketKind::Nack => "nack",
        PacketKind::Probe => "probe",
        PacketKind::Endpoint => "endpoint",
    }
}

/// The name of a cause of a retransmission.
#[must_use]
pub(super) const fn cause_name(cause: Again) -> &'static str {
    match cause {
        Again::Gap => "sack",
        Again::Timeout => "rto",
        Again::Refused => "nack",
        Again::Ask => "completion",
    }
}

/// The name of a NACK's reason.
#[must_use]
pub(super) fn nack_name(reason: u8) -> &'static str {
    match NackReason::from_u8(reason) {
        Some(NackReason::Trimmed) => "trimmed",
        Some(NackReason::TrimmedLastHop) => "trimmed_last_hop",
        Some(NackReason::PsnOutOfWindow) => "psn_oor",
        Some(NackReason::UnexpectedEvent) => "unexpected_event",
        Some(NackReason::NoBitmap) => "no_bitmap",
        Some(NackReason::NoPacketBuffer) => "no_packet_buffer",
        Some(NackReason::NoResource) => "no_resource",
        _ => "other",
    }
}

/// What became of a packet.
#[must_use]
pub(super) const fn verdict_name(seen: &Seen) -> &'static str {
    match (seen.verdict, seen.direction) {
        (Err(reason), _) => reason.name(),
        (Ok(()), Direction::Rx) => "taken",
        (Ok(()), _) => "sent",
    }
}

const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Write => "write",
        Operation::WriteImm => "write_imm",
        Operation::Receive { .. } => "receive",
    }
}

const fn fault_name(fault: Option<Fault>) -> &'static str {
    match fault {
        None => "refused_message",
        Some(Fault::RetryExceeded) => "retry_exceeded",
        Some(Fault::RemoteInvalidRequest) => "remote_invalid_request",
        Some(Fault::RemoteAccess) => "remote_access",
        Some(Fault::RemoteOperation) => "remote_operation",
        Some(Fault::LocalProtection) => "local_protection",
    }
}
