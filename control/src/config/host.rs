//! The PCIe link between the NIC and its host, an end at a time.

use super::table::{Acts, component};
use super::value::{Bytes, DataRate, QueueSize};

/// Why the buffers of the transaction layer do nothing.
const NO_TRANSACTIONS: Acts =
    Acts::Nothing("the link to the host is modelled as a rate, without the buffers of its transaction layer");

component! {
    /// The NIC's end, and the direction from the NIC to the host.
    NicSide at nic_side, "host_interface.nic_side";
    ["HostInterface", "NICSide", "PCIeGen3.0", "NicDeviceLayer", "NicPCIeInterface", "TransactionLayer"] {
        "RXHeaderBufferSize" rx_header_buffer_size: QueueSize = "16KB", NO_TRANSACTIONS,
            "Buffers for headers of what comes from the host.";
        "TXHeaderBufferSize" tx_header_buffer_size: QueueSize = "16KB", NO_TRANSACTIONS,
            "Buffers for headers of what goes to the host.";
        "RXDataBufferSize" rx_data_buffer_size: QueueSize = "256KB", NO_TRANSACTIONS,
            "Buffers for payload at this end; together with the other direction's it sizes both.";
        "TXDataBufferSize" tx_data_buffer_size: QueueSize = "256KB", NO_TRANSACTIONS,
            "Buffers for payload at this end; together with the other direction's it sizes both.";
    }
    ["HostInterface", "NICSide", "PCIeGen3.0", "NicDeviceLayer", "NicPCIeInterface", "PhysicalLayer"] {
        "LaneBps" lane_bps: DataRate = "31.52Gbps", Acts::Limits("host_buffer.drain_rate"),
            "Rate of a lane towards the host; any PCIe generation's will do, whatever the component's name says.";
        "LaneCount" lane_count: u64 = "16" in ["1", "16"], Acts::Limits("host_buffer.drain_rate"),
            "Lanes towards the host. All of them together carry received data and the requests for payload; 400 Gbps of full packets need about 418.6 Gbps, which 14 lanes of the default rate have and 13 have not.";
    }
    ["HostInterface", "NICSide", "NICPCIeHandler"] {
        "ReadRequestSize" read_request_size: Bytes = "64B", Acts::Limits("limits.fetch.read_request"),
            "What a data packet's request for its payload takes of the link towards the host. How much payload is fetched does not depend on it.";
    }
}

component! {
    /// The host's end, and the direction from the host to the NIC.
    HostSide at host_side, "host_interface.host_side";
    ["HostInterface", "HostSide", "PCIeGen3.0", "ScalaHostPCIeDeviceLayer", "HostPCIeInterface", "TransactionLayer"] {
        "RXHeaderBufferSize" rx_header_buffer_size: QueueSize = "16KB", NO_TRANSACTIONS,
            "Buffers for headers of what comes from the NIC.";
        "TXHeaderBufferSize" tx_header_buffer_size: QueueSize = "16KB", NO_TRANSACTIONS,
            "Buffers for headers of what goes to the NIC.";
        "RXDataBufferSize" rx_data_buffer_size: QueueSize = "256KB", NO_TRANSACTIONS,
            "Buffers for payload at this end; together with the other direction's it sizes both.";
        "TXDataBufferSize" tx_data_buffer_size: QueueSize = "256KB", NO_TRANSACTIONS,
            "Buffers for payload at this end; together with the other direction's it sizes both.";
    }
    ["HostInterface", "HostSide", "PCIeGen3.0", "ScalaHostPCIeDeviceLayer", "HostPCIeInterface", "PhysicalLayer"] {
        "LaneBps" lane_bps: DataRate = "31.52Gbps", Acts::Limits("limits.fetch.rate"),
            "Rate of a lane towards the NIC.";
        "LaneCount" lane_count: u64 = "16" in ["1", "16"], Acts::Limits("limits.fetch.rate"),
            "Lanes towards the NIC. All of them together carry the payload that the NIC fetches.";
    }
}
