//! How entropy values are drawn: the attributes of Default Packet Spraying (Scala MRC NIC documentation).

/// Largest `EntropyMaskBits`.
pub const ENTROPY_MASK_BITS_MAX: u8 = 8;
/// The cap of an active set that is sized by the bandwidth-delay product.
const ACTIVE_SET_CAP: u64 = 100;
/// How the entropy values of a destination are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SprayingParams {
    /// The range has 2^`entropy_mask_bits` values; 0 to 8.
    pub entropy_mask_bits: u8,
    /// First UDP source port of the range.
    pub starting_port_offset: u16,
    /// Size of the active set; 0 sizes it to one bandwidth-delay product, at most 100.
    pub active_ev_set_size: u32,
    /// How long a value stays out of the rotation after a timeout, in ns, where nobody sends reliability probes; `None`: until a probe
    /// on it is answered.
    pub assumed_bad_ns: Option<u64>,
}

impl Default for SprayingParams {
    fn default() -> Self {
        SprayingParams {
            entropy_mask_bits: 7,
            starting_port_offset: 256,
            active_ev_set_size: 0,
            assumed_bad_ns: Some(3 * crate::time::MS),
        }
    }
}

/// Why spraying parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SprayingError {
    /// More than 8 bits.
    #[error("EntropyMaskBits is {0}, but may be 0 to 8")]
    TooManyBits(u8),
    /// The range leaves the port numbers.
    #[error("StartingPortOffset {offset} and 2^{bits} values end beyond port 65535: the largest offset is {largest}")]
    BeyondLastPort {
        /// The offset given.
        offset: u16,
        /// The bits given.
        bits: u8,
        /// The largest offset for these bits.
        largest: u32,
    },
}

impl SprayingParams {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`SprayingError`], which names the attribute as the documentation does.
    pub fn validate(&self) -> Result<(), SprayingError> {
        if self.entropy_mask_bits > ENTROPY_MASK_BITS_MAX {
            return Err(SprayingError::TooManyBits(self.entropy_mask_bits));
        }
        let largest = 65_536 - self.values();
        if u32::from(self.starting_port_offset) > largest {
            return Err(SprayingError::BeyondLastPort {
                offset: self.starting_port_offset,
                bits: self.entropy_mask_bits,
                largest,
            });
        }
        Ok(())
    }

    /// How many values the range has.
    pub(super) const fn values(&self) -> u32 {
        1 << self.entropy_mask_bits
    }

    /// Size of the active set for a bandwidth-delay product of `bdp` bytes and full packets of `full` bytes.
    #[must_use]
    pub fn active_set_size(&self, bdp: u64, full: u32) -> u32 {
        self.active_set_of(self.values(), bdp, full)
    }

    /// The same where there are `values` to draw from.
    pub(super) fn active_set_of(&self, values: u32, bdp: u64, full: u32) -> u32 {
        let wanted = match self.active_ev_set_size {
            0 => (bdp / u64::from(full.max(1))).min(ACTIVE_SET_CAP) as u32,
            size => size,
        };
        wanted.clamp(1, values.max(1))
    }
}
