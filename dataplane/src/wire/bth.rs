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
    #[inline]
    pub fn read(from: &[u8], at: usize) -> Result<Bth, Refusal> {
        let b: &[u8; 12] = bytes(from, at).ok_or(Refusal::TruncatedBth)?;
        if b[1] & 0x0F != 0 {
            return Err(Refusal::BadTransportVersion);
        }
        let opcode = Opcode::from_u8(b[0]).ok_or(Refusal::UnknownOpcode)?;
        Ok(Bth {
            opcode,
            se: b[1] & 0x80 != 0,
            m: b[1] & 0x40 != 0,
            pad: (b[1] >> 4) & 3,
            pkey: u16::from_be_bytes([b[2], b[3]]),
            dqp: u32::from_be_bytes([0, b[5], b[6], b[7]]),
            ack_request: b[8] & 0x80 != 0,
            rtx: b[8] & 0x20 != 0,
            tsh: b[8] & 0x10 != 0,
            psn: u32::from_be_bytes([0, b[9], b[10], b[11]]),
        })
    }

    /// The header's bytes; reserved fields are 0, numbers are cut to 24 bits.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 12] {
        let [_, d0, d1, d2] = self.dqp.to_be_bytes();
        let [_, p0, p1, p2] = self.psn.to_be_bytes();
        let [k0, k1] = self.pkey.to_be_bytes();
        let flags = u8::from(self.se) << 7 | u8::from(self.m) << 6 | (self.pad & 3) << 4;
        let asks = u8::from(self.ack_request) << 7 | u8::from(self.rtx) << 5 | u8::from(self.tsh) << 4;
        [self.opcode as u8, flags, k0, k1, 0, d0, d1, d2, asks, p0, p1, p2]
    }
}
