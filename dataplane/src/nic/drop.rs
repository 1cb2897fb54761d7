//! Why a received frame goes no further.

use crate::wire::Refusal;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
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
    UnknownQp = "unknown_qp";
    /// The number is of a QP that was destroyed; its slot has a new one.
    OldQpGeneration = "old_qp_generation";
    /// The source is not the QP's peer.
    WrongSource = "wrong_source";
    /// The destination is not the QP's own address.
    WrongDestination = "wrong_destination";
    /// The QP is in a state that cannot take the packet; answered by a NACK.
    QpState = "qp_state";
    /// Beyond the window; answered by a NACK.
    PsnOutOfWindow = "psn_out_of_window";
    /// Too far behind the cumulative ACK to be a duplicate.
    PsnStale = "psn_stale";
    /// Lengths or order make no message; answered by a NAK.
    MalformedMessage = "malformed_message";
    /// Key, range or access is wrong; answered by a NAK.
    RemoteAccess = "remote_access";
    /// A Write with Immediate, but no receive is posted; answered by a NAK.
    NoReceivePosted = "no_receive_posted";
    /// Trimmed by a switch; answered by a NACK where trimming is enabled.
    Trimmed = "trimmed";
    /// A trimmed packet that is no data packet.
    TrimmedControl = "trimmed_control";
    /// An acknowledgement of packets that were never sent.
    AcknowledgesUnsent = "acknowledges_unsent";
    /// An endpoint operation, which this NIC does not take part in.
    EndpointOperation = "endpoint_operation";
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
