//! Counters of one engine: written by its worker, read by anyone.

use super::{Again, DropReason};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer. Adding is a plain load and store, without a lock on the bus.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; for the one writer.
    #[inline]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    /// Sets the count; for the one writer.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Relaxed);
    }

    /// The count so far.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What an engine has done since it was made.
        #[derive(Debug)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: Counter,)+
            /// Dropped frames by [`DropReason::index`].
            pub drops: [Counter; DropReason::COUNT],
        }

        /// The counters at a moment.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Dropped frames by [`DropReason::index`].
            pub drops: [u64; DropReason::COUNT],
        }

        impl Default for Counts {
            fn default() -> Self {
                Counts { $($name: 0,)+ drops: [0; DropReason::COUNT] }
            }
        }

        impl Counts {
            /// Takes what another engine counted.
            pub fn merge(&mut self, other: &Counts) {
                $(self.$name += other.$name;)+
                for (own, other) in self.drops.iter_mut().zip(&other.drops) {
                    *own += other;
                }
            }

            /// Received frames that had no effect.
            #[must_use]
            pub fn dropped(&self) -> u64 {
                self.drops.iter().sum()
            }
        }

        impl Default for Stats {
            fn default() -> Self {
                Stats { $($name: Counter::default(),)+ drops: core::array::from_fn(|_| Counter::default()) }
            }
        }

        impl Stats {
            /// The counters as they are now.
            #[must_use]
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)+ drops: core::array::from_fn(|i| self.drops[i].get()) }
            }
            /// What each counter of [`Stats::iter`] counts, in its order: its name, and a sentence.
            pub const TEXTS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+)),)+];

            /// All counters but the drops, by name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$((stringify!($name), self.$name.get()),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Frames received.
    rx_frames,
    /// Bytes received.
    rx_bytes,
    /// Frames written and handed to a port.
    tx_frames,
    /// Bytes sent.
    tx_bytes,
    /// Data packets sent, retransmissions included.
    tx_data,
    /// Data packets sent again because they were lost.
    retransmits,
    /// Data packets sent again because of a gap in SACKs.
    resent_by_gap,
    /// Data packets sent again because their timer ran out.
    resent_by_timeout,
    /// Data packets sent again because a NACK refused them.
    resent_by_nack,
    /// Retransmissions whose first transmission turned out to have arrived.
    spurious_retransmits,
    /// Packets presumed lost because of a gap in SACKs.
    lost_by_gap,
    /// Packets presumed lost because their timer ran out.
    lost_by_timeout,
    /// Outstanding packets that a NACK refused.
    refused,
    /// Requests for a completion whose transport ACK did not come.
    completion_requests,
    /// SACKs sent.
    tx_sacks,
    /// SACKs that were due, but not needed beside one that waited to be sent.
    sacks_merged,
    /// SACKs received.
    rx_sacks,
    /// Transport ACKs and NAKs sent.
    tx_acks,
    /// Transport ACKs and NAKs received.
    rx_acks,
    /// NACKs sent.
    tx_nacks,
    /// NACKs received.
    rx_nacks,
    /// Endpoint requests and responses sent.
    tx_endpoint,
    /// Probes sent.
    tx_probes,
    /// Probes that found no room in the egress buffer, and were not sent.
    probes_unsent,
    /// Probes received.
    rx_probes,
    /// Answers to probes received.
    rx_probe_answers,
    /// SACKs and ACKs that acknowledged nothing outstanding.
    idle_acknowledgements,
    /// Data packets placed.
    placed,
    /// Bytes of payload placed.
    placed_bytes,
    /// Data packets that had arrived before.
    duplicates,
    /// Data packets that arrived ahead of the next expected PSN.
    out_of_order,
    /// Receives completed by Writes with Immediate.
    received_immediates,
    /// Requests that ended with success.
    completed,
    /// Requests that ended otherwise.
    failed,
    /// QPs that went into the error state.
    qp_errors,
    /// ARP, neighbour discovery and ping handed to the control thread.
    rx_slow,
    /// ARP, neighbour discovery and ping sent.
    tx_slow,
    /// ARP, neighbour discovery and ping given up because their port took nothing for 10 ms.
    slow_unsent,
    /// SACKs, ACKs and NACKs left out because the control queue was full.
    replies_dropped,
}

impl Stats {
    /// Counts a dropped frame.
    #[inline]
    pub fn dropped(&self, reason: DropReason) {
        if let Some(counter) = self.drops.get(reason.index()) {
            counter.add(1);
        }
    }

    /// Counts a packet that is sent again.
    #[inline]
    pub fn resent(&self, cause: Again) {
        match cause {
            Again::Gap => self.resent_by_gap.add(1),
            Again::Timeout => self.resent_by_timeout.add(1),
            Again::Refused => self.resent_by_nack.add(1),
            // It was not lost.
            Again::Ask => {}
        }
    }

    /// How many frames were dropped for `reason`.
    #[must_use]
    pub fn drops_by(&self, reason: DropReason) -> u64 {
        self.drops.get(reason.index()).map_or(0, Counter::get)
    }

    /// The reasons that frames were dropped for, and how many.
    pub fn drop_reasons(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::all().map(|reason| (reason, self.drops_by(reason))).filter(|&(_, count)| count > 0)
    }
}
