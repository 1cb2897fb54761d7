//! Why a frame from the network changes nothing, and what was done.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// Why a frame of the slow path was not taken. Each reason has a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refused {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Refused {
            /// Every reason, in the order of their counters.
            pub const ALL: &'static [Refused] = &[$(Refused::$variant,)+];

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Refused::$variant => $name,)+ }
            }

            /// What was wrong.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Refused::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// A length or a version is wrong, or the frame ends too early.
    Malformed = "malformed";
    /// A VLAN tag that is not the NIC's, or none where the NIC has one.
    OtherVlan = "other_vlan";
    /// Sent from a broadcast or multicast Ethernet address, or from none.
    GroupSource = "group_source";
    /// Sent from the NIC's own Ethernet address: it came back.
    OwnFrame = "own_frame";
    /// Sent to somebody else: an Ethernet or IP address that is not the NIC's, or a question for another address.
    NotForUs = "not_for_us";
    /// ARP of another kind than Ethernet and IPv4, or an operation that is no request and no reply.
    ArpKind = "arp_kind";
    /// An IP address that nobody may send from, or be asked for: multicast, broadcast, or none.
    BadAddress = "bad_address";
    /// Somebody else uses the NIC's own IP address.
    Conflict = "conflict";
    /// A checksum is wrong.
    Checksum = "checksum";
    /// Neighbour discovery with a hop limit that is not 255: it came through a router.
    HopLimit = "hop_limit";
    /// Neighbour discovery with a code, flags or an address that RFC 4861 forbids.
    DiscoveryForm = "discovery_form";
    /// Neighbour discovery with an option that is broken, or without the address that it is to tell.
    DiscoveryOption = "discovery_option";
    /// An answer for an address that nobody asked for.
    Unasked = "unasked";
    /// Another Ethernet address for an IP address whose last change is less than a second ago, or one that does not override.
    Unsettled = "unsettled";
    /// ICMP of a kind that is not answered.
    OtherIcmp = "other_icmp";
    /// More questions than are answered.
    Rate = "rate";
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What was done for neighbours, since the NIC came up.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
            pub(super) refused: Vec<u64>,
        }

        impl Default for Counters {
            fn default() -> Counters {
                Counters { $($name: 0,)+ refused: vec![0; Refused::ALL.len()] }
            }
        }

        impl Counters {
            /// What each of [`Counters::iter`] counts, in its order: its name, and a sentence.
            pub const TEXTS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+)),)+];

            /// All counters but the refusals, by name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// ARP requests and neighbour solicitations sent.
    asked,
    /// ARP requests and neighbour solicitations answered.
    answered,
    /// Pings answered.
    pings,
    /// The NIC's own address told to everybody on a port that came up.
    announced,
    /// Ethernet addresses found by asking.
    found,
    /// Ethernet addresses that changed, which living QPs follow.
    changed,
    /// Questions that stayed without an answer, three times in a row.
    unanswered,
    /// Frames for the ports that found the way to them full.
    unsent,
}

impl Counters {
    pub(super) fn refuse(&mut self, reason: Refused) {
        if let Some(count) = self.refused.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// How many frames were refused for `reason`.
    #[must_use]
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused.get(reason as usize).copied().unwrap_or(0)
    }
}
