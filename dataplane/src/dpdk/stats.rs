//! What a lane counts: written by its worker, read by anyone.

pub use crate::nic::Counter;

/// What a lane counted. Frames that the engine refuses are in the engine's own counters.
#[derive(Debug, Default)]
pub struct LaneStats {
    /// Frames received from the ports.
    pub rx_frames: Counter,
    /// Frames that the ports accepted.
    pub tx_frames: Counter,
    /// Received frames lost on purpose.
    pub injected_losses: Counter,
    /// Received frames that the engine got twice on purpose.
    pub injected_duplicates: Counter,
    /// Received frames held back on purpose until later ones were taken.
    pub injected_reorders: Counter,
    /// Received frames trimmed on purpose.
    pub injected_trims: Counter,
    /// Frames handed to the worker that owns their source.
    pub handed_over: Counter,
    /// Frames received from other workers.
    pub handed_in: Counter,
    /// Frames lost because another worker's ring was full.
    pub handover_full: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Turns in which nothing came, went or was done.
    pub idle_turns: Counter,
    /// Slots refused because a pool was empty.
    pub tx_pool_empty: Counter,
    /// Flushes of which a port took nothing.
    pub tx_stalls: Counter,
    /// Slots refused because the port can't carry such a frame.
    pub tx_too_long: Counter,
}
