//! One field of a generated EV: which of its bits are generated, and within which bounds.

/// Widest field, in bits.
pub const FIELD_BITS_MAX: u8 = 32;

/// A field of a GENERATED profile (OCP's controller API): the choice at one hop, one uSID, a locator, or a fixed value.
///
/// The value starts as `init`. Then the bits of `mask` are overwritten by a generated number, its most significant bit at the highest
/// bit of the mask. `min` and `max` bound the generated number, not the whole value: with `mask` 0x0F0 they are 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvField {
    /// Bits of the field, 1 to 32.
    pub width: u8,
    /// The bits that are not generated. Those under the mask have no effect.
    pub init: u32,
    /// Smallest generated number.
    pub min: u32,
    /// Largest generated number; it fits into as many bits as `mask` has.
    pub max: u32,
    /// Which bits are generated; 0 makes the field fixed, and then `min` and `max` are 0.
    pub mask: u32,
}

/// Why a field is refused. The message has the reason and the way out; who reports it names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No bits, or more than 32.
    #[error("the width is {0} bits: it may be 1 to 32")]
    Width(u8),
    /// `init` has bits outside the field.
    #[error("init {init:#x} does not fit into {width} bits: the largest is {largest:#x}")]
    Init {
        /// The value given.
        init: u32,
        /// Bits of the field.
        width: u8,
        /// The largest that fits.
        largest: u32,
    },
    /// `mask` has bits outside the field.
    #[error("mask {mask:#x} does not fit into {width} bits: the widest is {widest:#x}")]
    Mask {
        /// The mask given.
        mask: u32,
        /// Bits of the field.
        width: u8,
        /// All bits of the field.
        widest: u32,
    },
    /// `max` can't be generated.
    #[error(
        "max {max} does not fit into the {bits} bits of mask {mask:#x}: lower max to {largest}, or give the mask more bits"
    )]
    Max {
        /// The bound given.
        max: u32,
        /// The mask given.
        mask: u32,
        /// Bits of the mask.
        bits: u32,
        /// The largest that fits.
        largest: u32,
    },
    /// Nothing lies between the bounds.
    #[error("min {min} is above max {max}: lower min, or raise max")]
    Empty {
        /// Lower bound.
        min: u32,
        /// Upper bound.
        max: u32,
    },
    /// Bounds of a field that is fixed.
    #[error("the field is fixed, for its mask is 0, but min is {min} and max is {max}: set both to 0, or give a mask")]
    Fixed {
        /// Lower bound.
        min: u32,
        /// Upper bound.
        max: u32,
    },
    /// Wider than its place in the format.
    #[error("the field has {width} bits, and the format has {room} for it: make the field narrower")]
    Room {
        /// Bits of the field.
        width: u8,
        /// Bits of the format's field.
        room: u8,
    },
    /// A uSID may come out as 0.
    #[error(
        "the uSID may come out as 0, which ends the list of uSIDs (RFC 9800): set min to 1, or a bit of init outside the mask"
    )]
    ZeroUsid,
}

/// The lowest `bits` bits; 32 at most.
pub(super) const fn ones(bits: u32) -> u32 {
    if bits == 0 { 0 } else { u32::MAX >> (32 - bits) }
}

impl EvField {
    /// A field of `width` bits that are all generated, over their whole range.
    #[must_use]
    pub const fn generated(width: u8) -> EvField {
        // A width out of range is left to `validate`.
        let all = if width > FIELD_BITS_MAX { u32::MAX } else { ones(width as u32) };
        EvField { width, init: 0, min: 0, max: all, mask: all }
    }

    /// A field of `width` bits that always has the value `init`.
    #[must_use]
    pub const fn fixed(width: u8, init: u32) -> EvField {
        EvField { width, init, min: 0, max: 0, mask: 0 }
    }

    /// Checks the field by itself.
    ///
    /// # Errors
    /// [`FieldError`], but neither `Room` nor `ZeroUsid`, which depend on the format.
    pub const fn validate(&self) -> Result<(), FieldError> {
        let EvField { width, init, min, max, mask } = *self;
        if width == 0 || width > FIELD_BITS_MAX {
            return Err(FieldError::Width(width));
        }
        let all = ones(width as u32);
        if init & !all != 0 {
            return Err(FieldError::Init { init, width, largest: all });
        }
        if mask & !all != 0 {
            return Err(FieldError::Mask { mask, width, widest: all });
        }
        if mask == 0 && (min != 0 || max != 0) {
            return Err(FieldError::Fixed { min, max });
        }
        let largest = ones(mask.count_ones());
        if max > largest {
            return Err(FieldError::Max { max, mask, bits: mask.count_ones(), largest });
        }
        if min > max {
            return Err(FieldError::Empty { min, max });
        }
        Ok(())
    }

    /// How many values the field can have; of a valid field, 1 to 2^32.
    #[must_use]
    pub const fn values(&self) -> u64 {
        self.max as u64 - self.min as u64 + 1
    }

    /// The field's value for a generated number: its bits go, the most significant first, to the bits of the mask from the top.
    #[must_use]
    pub const fn value(&self, number: u32) -> u32 {
        let mut value = self.init & !self.mask;
        let mut mask = self.mask;
        let mut left = self.mask.count_ones();
        while mask != 0 {
            let bit = 31 - mask.leading_zeros();
            left -= 1;
            value |= (number >> left & 1) << bit;
            mask &= !(1 << bit);
        }
        value
    }

    /// The generated number of a value; `None` for a value that the field can't have.
    #[must_use]
    pub const fn number(&self, value: u32) -> Option<u32> {
        if value & !self.mask != self.init & !self.mask {
            return None;
        }
        let mut number = 0;
        let mut mask = self.mask;
        while mask != 0 {
            let bit = 31 - mask.leading_zeros();
            number = number << 1 | value >> bit & 1;
            mask &= !(1 << bit);
        }
        if number < self.min || number > self.max { None } else { Some(number) }
    }

    /// Bits that are generated.
    pub(super) const fn bits(&self) -> u32 {
        self.mask.count_ones()
    }

    /// Whether the value may be 0.
    pub(super) const fn may_be_zero(&self) -> bool {
        self.init & !self.mask == 0 && self.min == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generated_bits_go_to_the_mask_from_the_top_and_the_others_come_from_init() {
        let field = EvField { width: 16, init: 0x1F00, min: 0, max: 0xFF, mask: 0x0F0F };
        assert_eq!(field.validate(), Ok(()));
        assert_eq!(field.value(0xA5), 0x1A05);
        assert_eq!(field.number(0x1A05), Some(0xA5));
        assert_eq!(field.number(0x2A05), None);
    }

    #[test]
    fn min_and_max_bound_the_generated_number_not_the_whole_value() {
        let field = EvField { width: 8, init: 0x10, min: 1, max: 3, mask: 0x0C };
        assert_eq!((1..=3).map(|n| field.value(n)).collect::<Vec<_>>(), [0x14, 0x18, 0x1C]);
        assert_eq!(field.number(0x10), None, "0 is below min");
        assert_eq!(field.values(), 3);
    }

    #[test]
    fn a_field_of_32_bits_can_have_every_value() {
        let field = EvField::generated(32);
        assert_eq!(field.validate(), Ok(()));
        assert_eq!(field.values(), 1 << 32);
        assert_eq!(field.value(u32::MAX), u32::MAX);
    }

    #[test]
    fn what_does_not_fit_into_the_field_is_refused_with_what_would() {
        let base = EvField::generated(4);
        assert_eq!(EvField { width: 0, ..base }.validate(), Err(FieldError::Width(0)));
        assert_eq!(EvField::generated(33).validate(), Err(FieldError::Width(33)));
        let init = EvField { init: 0x10, ..base }.validate();
        assert_eq!(init, Err(FieldError::Init { init: 0x10, width: 4, largest: 15 }));
        let mask = EvField { mask: 0x1F, ..base }.validate();
        assert_eq!(mask, Err(FieldError::Mask { mask: 0x1F, width: 4, widest: 15 }));
        let max = EvField { mask: 0x5, max: 4, ..base }.validate();
        assert_eq!(max, Err(FieldError::Max { max: 4, mask: 5, bits: 2, largest: 3 }));
        assert_eq!(EvField { min: 9, max: 8, ..base }.validate(), Err(FieldError::Empty { min: 9, max: 8 }));
        assert_eq!(EvField { mask: 0, ..base }.validate(), Err(FieldError::Fixed { min: 0, max: 15 }));
    }

    #[test]
    fn a_fixed_field_has_one_value() {
        let field = EvField::fixed(32, 0xCAFE_0001);
        assert_eq!(field.validate(), Ok(()));
        assert_eq!((field.values(), field.value(0)), (1, 0xCAFE_0001));
        assert_eq!(field.number(0xCAFE_0001), Some(0));
    }

    proptest! {
        #[test]
        fn number_undoes_value(mask: u32, init: u32, number: u32) {
            let all = ones(mask.count_ones());
            let field = EvField { width: 32, init, min: 0, max: all, mask };
            prop_assert_eq!(field.number(field.value(number & all)), Some(number & all));
            prop_assert_eq!(field.value(number & all) & !mask, init & !mask);
        }
    }
}
