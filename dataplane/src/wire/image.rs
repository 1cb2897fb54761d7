//! Headers of Writes that follow each other on a QP.
//!
//! Few fields differ from one packet to the next. The others stand ready in an image, and so does what the iCRC takes for ones.

use super::icrc::{self, ONES};
use super::{Bth, Icrc, Template, WriteHeaders};

/// UDP, BTH, METH and RETH.
const ABOVE: usize = 8 + Bth::LEN + WriteHeaders::PLAIN;
/// Bytes that are written at once: the longest headers are a VLAN tag and IPv6, and payload is written over what is too much.
const IMAGE: usize = 14 + 4 + 40 + ABOVE;
/// What is put back of the IP header and before it, in one piece.
const CLEAR: usize = ONES + 12;

/// The headers that packets of one template, opcode, length, key and number of Writes with Immediate have in common.
#[derive(Clone, Copy, Debug)]
pub struct WriteImage {
    /// A frame's first bytes, with ones for what the iCRC does not cover, and for four bytes before the IP header.
    masked: [u8; IMAGE],
    /// Those four and the first of the IP header, as they are on the wire.
    clear: [u8; CLEAR],
    ip_at: u8,
    udp_at: u8,
    v6: bool,
}

/// What differs from one packet to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Entropy value, as in [`super::Marks`].
    pub ev: u32,
    /// The BTH's AckReq.
    pub ack_request: bool,
    /// The BTH's PSN, 24 bits.
    pub psn: u32,
    /// The number of its message, in the METH.
    pub msn: u16,
    /// Where the payload goes, in the RETH.
    pub va: u64,
}

impl WriteImage {
    /// Of the packet in `frame`, which `template` has written: one that is no retransmission and has neither timestamp nor immediate data. `None` for
    /// encapsulated frames, and for very short ones.
    #[must_use]
    pub fn of(template: &Template, frame: &[u8]) -> Option<WriteImage> {
        let (ip_at, udp_at) = template.plain()?;
        let mut masked: [u8; IMAGE] = *frame.first_chunk()?;
        let begin = ip_at.checked_sub(ONES)?;
        let clear: [u8; CLEAR] = *masked.get(begin..)?.first_chunk()?;
        let (before, rest) = masked.get_mut(begin..)?.split_first_chunk_mut::<ONES>()?;
        *before = [0xFF; ONES];
        icrc::mask_headers(rest, udp_at - ip_at)?;
        Some(WriteImage { masked, clear, ip_at: ip_at as u8, udp_at: udp_at as u8, v6: clear[ONES] >> 4 == 6 })
    }

    /// Bytes of the headers.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.udp_at) + ABOVE
    }

    /// Writes the headers of a packet into `frame`, and returns where the payload goes; `None` when the frame is too short. They are complete after
    /// [`WriteImage::icrc_over`].
    #[inline(always)]
    #[must_use]
    pub fn write(&self, frame: &mut [u8], differing: &Differing) -> Option<usize> {
        let first: &mut [u8; IMAGE] = frame.first_chunk_mut()?;
        *first = self.masked;
        let udp_at = usize::from(self.udp_at);
        let above: &mut [u8; ABOVE] = first.get_mut(udp_at..)?.first_chunk_mut()?;
        above[..2].copy_from_slice(&(differing.ev as u16).to_be_bytes());
        // The BTH begins at 8, the METH at 20, the RETH at 24.
        let asks = u32::from(differing.ack_request) << 31;
        above[16..20].copy_from_slice(&(asks | differing.psn & 0x00FF_FFFF).to_be_bytes());
        above[22..24].copy_from_slice(&differing.msn.to_be_bytes());
        above[24..32].copy_from_slice(&differing.va.to_be_bytes());
        Some(self.len())
    }

    /// Begins the iCRC over `head`, the first bytes of a frame with headers of this image, and completes them.
    #[inline(always)]
    #[must_use]
    pub fn icrc_over(&self, head: &mut [u8], differing: &Differing) -> Option<Icrc> {
        let from = usize::from(self.ip_at).checked_sub(ONES)?;
        let icrc = Icrc::over_masked(head.get(from..)?);
        *head.get_mut(from..)?.first_chunk_mut()? = self.clear;
        let above: &mut [u8; ABOVE] = head.get_mut(usize::from(self.udp_at)..)?.first_chunk_mut()?;
        // No UDP checksum, and nothing in the reserved byte of the BTH.
        above[6..8].fill(0);
        above[12] = 0;
        if self.v6 {
            // The high half of the entropy value.
            let flow: &mut [u8; 2] = head.get_mut(usize::from(self.ip_at) + 2..)?.first_chunk_mut()?;
            *flow = ((differing.ev >> 16) as u16).to_be_bytes();
        }
        Some(icrc)
    }
}
