//! The PCIe link between the NIC and its host, an end at a time.

use super::table::{Acts, component};
use super::value::{Bytes, DataRate, QueueSize};

/// What buffers for what comes from the host act on, at either end.
const FROM_HOST: Acts = Acts::Limits("limits.fetch.credits");
/// Buffers for headers of what goes to the host. A fetch begins with a request, so they space fetches too.
const TO_HOST_HEADERS: Acts = Acts::Limits("host_buffer.credits, limits.fetch.credits");
/// Buffers for data of what goes to the host.
const TO_HOST: Acts = Acts::Limits("host_buffer.credits");

component! {
    /// The NIC's end, and the direction from the NIC to the host.
    NicSide at nic_side, "host_interface.nic_side";
    ["HostInterface", "NICSide", "PCIeGen3.0", "NicDeviceLayer", "NicPCIeInterface", "TransactionLayer"] {
        "RXHeaderBufferSize" rx_header_buffer_size: QueueSize = "16KB", FROM_HOST,
            "Room for headers of what comes from the host. With the host's `TXHeaderBufferSize` it says how many transfers a round trip of credits carries: one for each 16 bytes of the smaller one.";
        "TXHeaderBufferSize" tx_header_buffer_size: QueueSize = "16KB", TO_HOST_HEADERS,
            "Room for headers of what goes to the host: received packets, and requests for payload. With the host's `RXHeaderBufferSize` it says how many a round trip of credits carries: one for each 16 bytes of the smaller one.";
        "RXDataBufferSize" rx_data_buffer_size: QueueSize = "256KB", FROM_HOST,
            "Room for payload that comes from the host. A round trip of credits carries no more than the smaller one of this and the host's `TXDataBufferSize`.";
        "TXDataBufferSize" tx_data_buffer_size: QueueSize = "256KB", TO_HOST,
            "Room for received data on its way to the host. A round trip of credits carries no more than the smaller one of this and the host's `RXDataBufferSize`.";
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
        "RXHeaderBufferSize" rx_header_buffer_size: QueueSize = "16KB", TO_HOST_HEADERS,
            "Room for headers of what comes from the NIC; with the NIC's `TXHeaderBufferSize`, see there.";
        "TXHeaderBufferSize" tx_header_buffer_size: QueueSize = "16KB", FROM_HOST,
            "Room for headers of what goes to the NIC; with the NIC's `RXHeaderBufferSize`, see there.";
        "RXDataBufferSize" rx_data_buffer_size: QueueSize = "256KB", TO_HOST,
            "Room for data that comes from the NIC; with the NIC's `TXDataBufferSize`, see there.";
        "TXDataBufferSize" tx_data_buffer_size: QueueSize = "256KB", FROM_HOST,
            "Room for payload that goes to the NIC; with the NIC's `RXDataBufferSize`, see there.";
    }
    ["HostInterface", "HostSide", "PCIeGen3.0", "ScalaHostPCIeDeviceLayer", "HostPCIeInterface", "PhysicalLayer"] {
        "LaneBps" lane_bps: DataRate = "31.52Gbps", Acts::Limits("limits.fetch.rate"),
            "Rate of a lane towards the NIC.";
        "LaneCount" lane_count: u64 = "16" in ["1", "16"], Acts::Limits("limits.fetch.rate"),
            "Lanes towards the NIC. All of them together carry the payload that the NIC fetches.";
    }
}
