//! The wire format of MRC: bytes to headers and back, and the iCRC.
//!
//! No state and no allocation. [`parse`] reads a frame in place and refuses it with a named reason ([`Refusal`]); [`Template`] writes one
//! into a buffer that the driver lends. Layouts follow OCP MRC 1.0 (March 2026) where its implementations agree; what was
//! decided where they do not is in `docs/protocol.md`.

mod bth;
mod ext;
mod icrc;
mod image;
mod net;
mod opcode;
mod packet;
mod refusal;
mod srv6;
mod template;

pub use bth::Bth;
pub use ext::{
    Aeth, CcState, EndpointOp, EndpointRequest, EndpointResponse, Ext, ExtHeaders, Meth, Nack, NackReason, Probe, Reth,
    Sack, SackFor, Skip, Syndrome, Timestamp, WriteHeaders,
};
pub use icrc::Icrc;
pub use image::{Differing, WriteImage};
pub use net::{Ip, Link, MacAddr, is_for_neighbours, probable_qp, source_address};
pub use opcode::Opcode;
pub use packet::{Packet, Trim, parse};
pub use refusal::Refusal;
pub use srv6::{Encapsulation, Outer, OuterMarks, USIDS_MAX, UsidError, UsidPath, at_switch, next_usid};
pub use template::{
    Addressing, AddressingError, LinkAddresses, Marks, Template, frame_len, link_addresses, padding, write_link,
};

/// Longest header stack that is read: Ethernet, two VLAN tags, IPv6 in IPv6 with a one-segment SRH, UDP, BTH and the longest run of
/// extension headers. A driver makes so many bytes of a frame contiguous, or all of it.
pub const HEAD_MAX: usize = 256;
// SACK and Endpoint Response have the longest extension headers. An SRH with TLVs or used-up segments may be longer than ours.
const _: () = assert!(14 + 2 * 4 + 40 + srv6::SRH_READ_MAX + 40 + 8 + Bth::LEN + Sack::LEN <= HEAD_MAX);
/// UDP destination port of MRC over RoCEv2.
pub const UDP_PORT: u16 = 4791;
/// The port that one printing of the OCP text names. A reader of captures accepts both.
pub const UDP_PORT_ALTERNATE: u16 = 4971;
/// Bytes of the iCRC.
pub const ICRC_LEN: usize = 4;
/// Most UDP destination ports that one [`Rules`] accepts.
pub const UDP_PORTS_MAX: usize = 4;
/// The payload of a packet and this many bytes is its nominal size (4,156 for a full packet at the default MSS).
pub const NOMINAL_OVERHEAD: u32 = 60;
/// What a TSETH adds to the nominal size and to the frame.
pub const TSETH_LEN: u32 = 4;
/// QP number of endpoint operations; 0 to 2 are never given to a QP.
pub const ENDPOINT_QPN: u32 = 2;
/// P_Key of every packet: the default partition.
pub const DEFAULT_PKEY: u16 = 0xFFFF;

/// The DSCP of each traffic class, 0 to 63. The defaults are OCP MRC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap {
    /// Data that a switch must not trim.
    pub no_trim: u8,
    /// First transmissions that a switch may trim.
    pub trimmable: u8,
    /// Retransmissions that a switch may trim.
    pub trimmable_retx: u8,
    /// Packets that a switch has trimmed.
    pub trimmed: u8,
    /// Packets that the switch of the last hop has trimmed.
    pub trimmed_last_hop: u8,
    /// ACK, SACK and NACK.
    pub control: u8,
}

impl Default for DscpMap {
    fn default() -> Self {
        DscpMap { no_trim: 0, trimmable: 4, trimmable_retx: 8, trimmed: 12, trimmed_last_hop: 16, control: 46 }
    }
}

/// What [`parse`] takes for MRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// UDP destination ports; a 0 stands for none.
    pub udp_ports: [u16; UDP_PORTS_MAX],
    /// The codepoints that tell a trimmed packet.
    pub dscp: DscpMap,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { udp_ports: [UDP_PORT, 0, 0, 0], dscp: DscpMap::default() }
    }
}

impl Rules {
    /// The rules of a reader of captures: either printing of the UDP port.
    #[must_use]
    pub fn of_captures() -> Rules {
        Rules { udp_ports: [UDP_PORT, UDP_PORT_ALTERNATE, 0, 0], dscp: DscpMap::default() }
    }
}

/// `N` bytes at `at`, or `None` when they are not all there.
#[inline]
fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<&[u8; N]> {
    from.get(at..at.checked_add(N)?)?.first_chunk::<N>()
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
