//! Why a received frame goes no further.

use crate::wire::Refusal;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $text:literal;)+) => {
        /// Why a received frame has no effect. Receiving returns it, and each reason has a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            /// The bytes are no MRC packet, or a broken one.
            Wire(Refusal),
            $($(#[doc = $doc])+ $variant,)+
        }

        const OWN: &[DropReason] = &[$(DropReason::$variant,)+];

        impl DropReason {
            /// How many reasons there are.
            pub const COUNT: usize = Refusal::COUNT + OWN.len();

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    DropReason::Wire(refusal) => refusal.name(),
                    $(DropReason::$variant => $name,)+
                }
            }

            /// What was wrong, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    DropReason::Wire(refusal) => refusal.text(),
                    $(DropReason::$variant => $text,)+
                }
            }

            /// Its place among all reasons.
            #[must_use]
            pub fn index(self) -> usize {
                match self {
                    DropReason::Wire(refusal) => refusal as usize,
                    own => Refusal::COUNT + OWN.iter().position(|&r| r == own).unwrap_or(0),
                }
            }

            /// Every reason, in the order of [`DropReason::index`].
            pub fn all() -> impl Iterator<Item = DropReason> {
                Refusal::ALL.iter().map(|&r| DropReason::Wire(r)).chain(OWN.iter().copied())
            }
        }
    };
}

reasons! {
    /// No QP has this number.
    UnknownQp = "unknown_qp", "for a QP that is not here";
    /// The number is of a QP that was destroyed; its slot has a new one.
    OldQpGeneration = "old_qp_generation", "for a QP that is gone";
    /// The source is not the QP's peer.
    WrongSource = "wrong_source", "not from the QP's peer";
    /// The destination is not the QP's own address.
    WrongDestination = "wrong_destination", "not to the QP's address";
    /// The QP is in a state that cannot take the packet; answered by a NACK.
    QpState = "qp_state", "the QP does not take such packets";
    /// Beyond the window; answered by a NACK.
    PsnOutOfWindow = "psn_out_of_window", "beyond the window; answered by a NACK";
    /// Too far behind the cumulative ACK to be a duplicate.
    PsnStale = "psn_stale", "more than 32,768 PSNs behind: too old to be a duplicate, not answered";
    /// Lengths or order make no message; answered by a NAK.
    MalformedMessage = "malformed_message", "no message; answered by a NAK";
    /// Key, range or access is wrong; answered by a NAK.
    RemoteAccess = "remote_access", "wrong key or range; answered by a NAK";
    /// A Write with Immediate that breaks the order of its kind, is one too many, or finds no receive; answered by a NAK.
    Immediate = "immediate", "a Write with Immediate out of turn, too many, or without a receive; answered by a NAK";
    /// No bitmap to spare for a packet out of order; answered by a NACK.
    NoBitmap = "no_bitmap", "out of order, with no bitmap to spare; answered by a NACK";
    /// The host's buffer is full; answered by a NACK.
    NoPacketBuffer = "no_packet_buffer", "the host's buffer is full; answered by a NACK";
    /// The port's ingress pool is full.
    IngressFull = "ingress_full", "the port's receive buffer is full";
    /// No room to keep an immediate that came early; answered by a NACK.
    NoResource = "no_resource", "an early immediate that could not be kept; answered by a NACK";
    /// The answer to a probe that nobody waits for.
    UnknownProbe = "unknown_probe", "the answer to a probe that nobody waits for";
    /// Trimmed by a switch; answered by a NACK where trimming is enabled.
    Trimmed = "trimmed", "trimmed by a switch; answered by a NACK";
    /// A trimmed packet that is no data packet.
    TrimmedControl = "trimmed_control", "trimmed, and no data packet";
    /// An acknowledgement of packets that were never sent.
    AcknowledgesUnsent = "acknowledges_unsent", "acknowledges what was never sent";
    /// A port status update of somebody without a QP here; not answered, so that it is sent again.
    EndpointStranger = "endpoint_stranger", "a port status update of nobody's peer; not answered";
    /// A port status update that a later one overtook; not answered.
    EndpointOvertaken = "endpoint_overtaken", "a port status update that was overtaken; not answered";
    /// More endpoint requests than are answered.
    EndpointRate = "endpoint_rate", "more endpoint requests than are answered";
    /// ARP, neighbour discovery or ping that found the way to the control thread full.
    SlowPathFull = "slow_path_full", "not MRC: ARP, neighbour discovery or ping, more than the control thread takes";
    /// ARP, neighbour discovery or ping in a frame of more than [`super::SLOW_FRAME_MAX`] bytes.
    SlowPathTooLong = "slow_path_too_long", "not MRC: ARP, neighbour discovery or ping of more than 2,048 bytes";
    /// An endpoint operation that this NIC takes no part in, or one that is no packet of its kind.
    EndpointOperation = "endpoint_operation", "an endpoint operation, which is not answered";
}

impl From<Refusal> for DropReason {
    fn from(refusal: Refusal) -> Self {
        DropReason::Wire(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_drop_reason_has_an_index_and_a_name_of_its_own() {
        let indices: Vec<usize> = DropReason::all().map(DropReason::index).collect();
        assert_eq!(indices, (0..DropReason::COUNT).collect::<Vec<_>>());
        let names: BTreeSet<&str> = DropReason::all().map(DropReason::name).collect();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}
