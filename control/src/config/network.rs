//! The NIC itself, its port, its link and its buffers.

use super::table::{Acts, component};
use super::value::{Bytes, DataRate, TimeVal};

component! {
    /// The NIC's own attributes.
    Nic at nic, "nic";
    [] {
        "EnableTransportStats" enable_transport_stats: bool = "true", Acts::Records("whether there is `mrc-transport-stats`"),
            "Whether the NIC keeps `mrc-transport-stats`: at each interval a row with its counters, windows and round-trip times.";
        "TransportStatsReportInterval" transport_stats_report_interval: TimeVal = "1ms" in ["10us"], Acts::Records("interval of `mrc-transport-stats`"),
            "Time between two rows of `mrc-transport-stats`, the first of which comes after one such interval. It has nothing to do with the interval of other records.";
        "EnableEventLogging" enable_event_logging: bool = "false", Acts::Records("whether there is `mrc-events`"),
            "Whether the NIC keeps `mrc-events`: a row when a queue pair or a work request is created, completes, fails or is closed.";
        "EnableMonitor" enable_monitor: bool = "false", Acts::Records("whether there is `mrc-monitor`"),
            "Whether the NIC keeps `mrc-monitor`, a row for each packet that the monitor's attributes select. One process has one monitor: its NICs should agree on it.";
        "NumDownLinks" num_down_links: u64 = "1", Acts::ReadOnly,
            "How many hosts the NIC serves: the one that it is in.";
    }
}

component! {
    /// The NIC's port.
    Uplink at uplink, "network_interface.uplink";
    ["NetworkInterface", "UplinkNetworkInterface"] {
        "DataRate" data_rate: DataRate = "400Gbps", Acts::Engine("data_rate"),
            "Rate of the port. From it follow the bandwidth-delay product, so the largest window and the size of the active set. With `model.limits` the port also sends no faster (`limits.pacing`).";
    }
}

component! {
    /// The link from the NIC to its switch.
    Medium at medium, "network_interface.medium";
    ["NetworkInterface", "TransmissionMedium"] {
        "Delay" delay: TimeVal = "100ns", Acts::VirtualTime("delay of the NIC's link; a living link has its own"),
            "How long a frame travels on the link between the NIC and its switch once its last bit is sent.";
    }
}

component! {
    /// The receive buffer.
    IngressBuffer at ingress_buffer, "network_interface.ingress_buffer";
    ["NetworkInterface", "IngressBufferManager"] {
        "TotalBufferSize" total_buffer_size: Bytes = "4MB", Acts::Limits("host_buffer.capacity"),
            "Size of the receive buffer. Data has 90 % of it, control packets 10 %. What finds no room is dropped. Only the data pool is modelled.";
    }
}

component! {
    /// The transmit buffer.
    EgressBuffer at egress_buffer, "network_interface.egress_buffer";
    ["NetworkInterface", "EgressBufferManager"] {
        "TotalBufferSize" total_buffer_size: Bytes = "256KB", Acts::Limits("limits.egress_buffer"),
            "Size of the transmit buffer. Data has 90 % of it, control packets 10 %. A data packet takes its whole length from the start of its fetch until it is sent; without room nothing more is fetched, and nothing is dropped.";
    }
}
