//! Base transport header.

use super::{Opcode, Refusal, bytes};

/// Base transport header, 12 bytes (InfiniBand's BTH with MRC's `rtx` and `tsh`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Kind of packet.
    pub opcode: Opcode,
    /// Solicited event.
    pub se: bool,
    /// Migration request; carried, without meaning in MRC.
    pub m: bool,
    /// Pad bytes after the payload, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Destination QP number, 24 bits.
    pub dqp: u32,
    /// Asks for a transport ACK.
    pub ack_request: bool,
    /// Marks a retransmission; a SACK echoes it.
    pub rtx: bool,
    /// A TSETH follows the METH.
    pub tsh: bool,
    /// PSN, 24 bits. Its meaning depends on the opcode.
    pub psn: u32,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = 12;

    /// A header with the default partition and no flag set.
    #[must_use]
    pub const fn new(opcode: Opcode, dqp: u32, psn: u32) -> Bth {
        Bth {
            opcode,
            se: false,
            m: false,
            pad: 0,
            pkey: super::DEFAULT_PKEY,
            dqp,
            ack_request: false,
            rtx: false,
            tsh: false,
            psn,
        }
    }

    /// Reads the header at `at`.
    ///
    /// # Errors
    /// [`Refusal::TruncatedBth`], [`Refusal::BadTransportVersion`], [`Refusal::UnknownOpcode`].
    // Always: a header that is returned in memory is written and read field by field.
    #[inline(always)]
    pub fn read(from: &[u8], at: usize) -> Result<Bth, Refusal> {
        let &[b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11] = bytes(from, at).ok_or(Refusal::TruncatedBth)?;
        let first = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        let last = u32::from_be_bytes([b8, b9, b10, b11]);
        let (flags, asks) = (first >> 48, last >> 24);
        if flags & 0x0F != 0 {
            return Err(Refusal::BadTransportVersion);
        }
        let opcode = Opcode::from_u8((first >> 56) as u8).ok_or(Refusal::UnknownOpcode)?;
        Ok(Bth {
            opcode,
            se: flags & 0x80 != 0,
            m: flags & 0x40 != 0,
            pad: (flags >> 4) as u8 & 3,
            pkey: (first >> 32) as u16,
            dqp: first as u32 & 0x00FF_FFFF,
            ack_request: asks & 0x80 != 0,
            rtx: asks & 0x20 != 0,
            tsh: asks & 0x10 != 0,
            psn: last & 0x00FF_FFFF,
        })
    }

    /// The header's bytes; reserved fields are 0, numbers are cut to 24 bits.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 12] {
        let flags = u32::from(self.se) << 7 | u32::from(self.m) << 6 | u32::from(self.pad & 3) << 4;
        let asks = u32::from(self.ack_request) << 7 | u32::from(self.rtx) << 5 | u32::from(self.tsh) << 4;
        let first = (self.opcode as u32) << 24 | flags << 16 | u32::from(self.pkey);
        let (dqp, last) = (self.dqp & 0x00FF_FFFF, asks << 24 | (self.psn & 0x00FF_FFFF));
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&(u64::from(first) << 32 | u64::from(dqp)).to_be_bytes());
        bytes[8..].copy_from_slice(&last.to_be_bytes());
        bytes
    }
}
