//! The monitor: which packets `mrc-monitor` shows.

use super::list::{Filter, NodeId, QpEnd, Triggers};
use super::table::{Acts, component};
use std::net::Ipv4Addr;

/// A switch or list of the monitor.
const PACKETS: Acts = Acts::Records("which packets `mrc-monitor` has");
/// A limit of the monitor.
const LIMIT: Acts = Acts::Records("how much `mrc-monitor` has");

component! {
    /// Which packets the monitor shows: those of queue pairs that all filters let through, if the packet's kind and direction are switched on.
    Monitor at monitor, "monitor";
    ["ScalaMrcMonitor"] {
        "EnableMonitorRowCap" enable_monitor_row_cap: bool = "true", LIMIT,
            "Whether `MonitorRowCap` holds.";
        "MonitorRowCap" monitor_row_cap: u64 = "1000000", LIMIT,
            "Most rows of all NICs of a process together; after them the monitor is silent. At 0 there are none.";
        "MonitorTriggers" monitor_triggers: Triggers = "None", PACKETS,
            "Events that select their queue pair from then on, in lower case and separated by commas: `trim`, a trimmed data packet comes; `nack`, a NACK comes; `qp_error`, the queue pair fails; `rto`, a retransmission timer expires. Or `None`.";
        "EnableMonitorTriggerQpCap" enable_monitor_trigger_qp_cap: bool = "true", LIMIT,
            "Whether `MonitorTriggerQpCap` holds.";
        "MonitorTriggerQpCap" monitor_trigger_qp_cap: u64 = "64", LIMIT,
            "Most queue pairs of a process that triggers select. At 0 they select none.";
        "FilterLocalEndpoint" filter_local_endpoint: Filter<QpEnd> = "All", PACKETS,
            "`All`, or ends `ADDRESS:QP` (IPv4) one of which is this NIC's.";
        "FilterRemoteEndpoint" filter_remote_endpoint: Filter<QpEnd> = "All", PACKETS,
            "`All`, or ends `ADDRESS:QP` one of which is the other NIC's; its QP is 0 until it is known.";
        "FilterEitherEndpoint" filter_either_endpoint: Filter<QpEnd> = "All", PACKETS,
            "`All`, or ends `ADDRESS:QP` one of which is either NIC's.";
        "FilterLocalAddr" filter_local_addr: Filter<Ipv4Addr> = "All", PACKETS,
            "`All`, or IPv4 addresses one of which is this NIC's.";
        "FilterRemoteAddr" filter_remote_addr: Filter<Ipv4Addr> = "All", PACKETS,
            "`All`, or IPv4 addresses one of which is the other NIC's.";
        "FilterEitherAddr" filter_either_addr: Filter<Ipv4Addr> = "All", PACKETS,
            "`All`, or IPv4 addresses one of which is either NIC's.";
        "FilterNodeId" filter_node_id: Filter<NodeId> = "All", PACKETS,
            "`All`, or the numbers of the nodes whose NICs are shown, as the records have them.";
        "LogWrite" log_write: bool = "true", PACKETS, "Data packets are shown.";
        "LogAck" log_ack: bool = "true", PACKETS, "Cumulative ACKs are shown.";
        "LogSack" log_sack: bool = "true", PACKETS, "SACKs are shown, answers to probes among them.";
        "LogNack" log_nack: bool = "true", PACKETS, "NACKs are shown.";
        "LogProbe" log_probe: bool = "true", PACKETS, "Reliability probes are shown.";
        "LogTx" log_tx: bool = "true", PACKETS, "What is sent for the first time is shown.";
        "LogRx" log_rx: bool = "true", PACKETS, "What is received is shown.";
        "LogRtx" log_rtx: bool = "true", PACKETS,
            "What is sent again is shown: data, and requests for the ACK that completes a message.";
        "LogNackTrimmed" log_nack_trimmed: bool = "true", PACKETS, "NACKs that came for a trimmed packet are shown.";
        "LogNackTrimmedLastHop" log_nack_trimmed_last_hop: bool = "true", PACKETS,
            "NACKs that came for a packet trimmed on its last hop are shown.";
        "LogNackPsnOor" log_nack_psn_oor: bool = "true", PACKETS, "NACKs that came for a PSN beyond the window are shown.";
        "LogNackUnexp" log_nack_unexp: bool = "true", PACKETS, "NACKs that came for an unexpected event are shown.";
    }
}

impl Monitor {
    /// Most rows, if there is a limit.
    #[must_use]
    pub fn row_cap(&self) -> Option<u64> {
        self.enable_monitor_row_cap.then_some(self.monitor_row_cap)
    }

    /// Most queue pairs that triggers select, if there is a limit.
    #[must_use]
    pub fn trigger_qp_cap(&self) -> Option<u64> {
        self.enable_monitor_trigger_qp_cap.then_some(self.monitor_trigger_qp_cap)
    }
}
