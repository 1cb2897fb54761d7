//! Counters.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// Why a frame goes no further. Each reason has a counter on each link.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FabricDrop {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl FabricDrop {
            /// All reasons, each at the index that it is as a number.
            pub const ALL: &'static [FabricDrop] = &[$(FabricDrop::$variant,)+];

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(FabricDrop::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// The link is down, or went down under it.
    LinkDown = "link_down";
    /// The link swallows everything.
    BlackHole = "black_hole";
    /// The link lost it.
    Loss = "loss";
    /// The switch forgot it when it started anew.
    Reboot = "reboot";
    /// The data class is full, and it may not be trimmed.
    DataFull = "data_full";
    /// The control class is full.
    ControlFull = "control_full";
    /// Longer than [`FRAME_MAX`](super::FRAME_MAX).
    TooLong = "too_long";
    /// Shorter than its headers, or they contradict themselves.
    Malformed = "malformed";
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip";
    /// No NIC has the destination address.
    UnknownDestination = "unknown_destination";
    /// The uSID that is first names no neighbour, or none is left and the destination is not below.
    NoWay = "no_way";
}

/// How many reasons there are.
pub(super) const REASONS: usize = FabricDrop::ALL.len();

/// Frames dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; REASONS]);

impl Drops {
    /// Frames dropped for this reason.
    #[must_use]
    pub const fn of(&self, reason: FabricDrop) -> u64 {
        self.0[reason as usize]
    }

    /// Frames dropped for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn count(&mut self, reason: FabricDrop) {
        self.0[reason as usize] += 1;
    }
}

/// What one direction of a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames that it began to send.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Time that it sent, in ps.
    pub busy_ps: u64,
    /// Bytes that wait in the data class now.
    pub data_bytes: u32,
    /// Bytes that wait in the control class now.
    pub control_bytes: u32,
    /// Most bytes that waited in the data class.
    pub max_data_bytes: u32,
    /// Most bytes that waited in the control class.
    pub max_control_bytes: u32,
    /// Frames that were marked (ECN) in its queue.
    pub marked: u64,
    /// Frames that were trimmed before its queue.
    pub trimmed: u64,
    /// Frames that were lost before it, on it, or that the switch behind it could not forward.
    pub dropped: Drops,
}

/// What befell frames of a link: apart from what changes with every frame, which lies beside the state of the link.
#[derive(Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) marked: u64,
    pub(super) trimmed: u64,
    pub(super) dropped: Drops,
}

/// What the whole fabric has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that NICs sent.
    pub injected: u64,
    /// Frames that reached a NIC.
    pub delivered: u64,
    /// Frames that did not.
    pub dropped: Drops,
    /// Transmissions over links.
    pub hops: u64,
    /// Events that were handled.
    pub events: u64,
}
