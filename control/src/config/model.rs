//! What the documentation's NIC always has, and one in software has when it is asked to.

use super::table::{Acts, component};
use super::value::TimeVal;

component! {
    /// Our own switches.
    Model at model, "model";
    [] {
        "" limits: bool = "false", Acts::Engine("limits, host_buffer"),
            "Whether the NIC has the rate of its port, its buffers, and the lanes to its host as limits. Without it a NIC on living ports is as fast as it can be, which is the default; set it to compare with a model in virtual time.";
        "" own_sacks: bool = "false", Acts::Engine("merge_sacks"),
            "Whether each packet that is to draw a SACK draws one of its own, as one in virtual time always does. Without it, a SACK that waits to be sent on a living port stands for those that the packets behind it in a burst draw.";
        "" burst: TimeVal = "0ns", Acts::Limits("limits.pacing.burst_ns"),
            "How far the port may run ahead of `DataRate`. In virtual time frames are spaced exactly with 0; a worker on a living port comes round every few microseconds, and keeps the rate with about 10us.";
        "" pcie_round_trip: TimeVal = "500ns" in ["0ns", "1ms"], Acts::Limits("limits.fetch.credits, host_buffer.credits"),
            "How long credits of the link to the host take to come back: so often the buffers of its transaction layer can be filled anew. At 0 those hold nothing back.";
    }
}
