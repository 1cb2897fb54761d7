//! EVs as controllers write them: bits in a row, of which fields take theirs in turn (OCP's controller API).

use super::expansion::ExpansionError;
use super::field::{EvField, FieldError, ones};
use super::format::EvFormat;
use super::record::Ev;
use std::net::Ipv6Addr;

/// Bytes of an EV as controllers write it.
pub const EV_BYTES: usize = 32;

/// An EV as controllers write it: the most significant bit of byte 0 comes first, and bits behind those that the fields take are 0.
pub type EvBits = [u8; EV_BYTES];

/// Why bits are no EV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the fields take {taken} bits of an EV, and a bit behind these is set: clear it, or give the fields wider masks"
)]
pub struct ExtraBits {
    /// Bits that the fields take.
    pub taken: u32,
}

/// An EV as it is in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Flow label and UDP source port; with SRv6 the bits in a row, which name the path, where there are 32 at most.
    pub value: Option<u32>,
    /// Destination of the outer IPv6 header, with SRv6.
    pub segment: Option<Ipv6Addr>,
}

/// How EVs of a format are made of the bits that controllers write, and the other way round.
///
/// Each field's value starts as its `init`; the bits of its mask, from the most significant, are the EV's next ones. Without fields, each field
/// of the format takes all its bits from the EV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvLayout {
    format: EvFormat,
    fields: Box<[EvField]>,
}

impl EvLayout {
    /// The layout of `fields` in a format. Bounds of fields are of no matter.
    ///
    /// # Errors
    /// [`ExpansionError`]: a field that is refused, or more fields than the format has.
    pub fn new(format: &EvFormat, fields: &[EvField]) -> Result<EvLayout, ExpansionError> {
        let widths = format.widths();
        if fields.is_empty() {
            let fields = widths.iter().map(|&width| EvField::generated(width)).collect();
            return Ok(EvLayout { format: format.clone(), fields });
        }
        if fields.len() > widths.len() {
            return Err(ExpansionError::TooManyFields { given: fields.len(), room: widths.len() });
        }
        for (at, (field, &room)) in fields.iter().zip(widths).enumerate() {
            let refused = |error| ExpansionError::Field { at, error };
            field.validate().map_err(refused)?;
            if field.width > room {
                return Err(refused(FieldError::Room { width: field.width, room }));
            }
        }
        Ok(EvLayout { format: format.clone(), fields: fields.into() })
    }

    /// Bits of an EV that the fields take.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.fields.iter().map(EvField::bits).sum()
    }

    /// The EV that bits stand for.
    ///
    /// # Errors
    /// [`ExtraBits`].
    pub fn place(&self, bits: &EvBits) -> Result<Placed, ExtraBits> {
        let taken = self.taken();
        if (taken..8 * EV_BYTES as u32).any(|at| bit(bits, at)) {
            return Err(ExtraBits { taken });
        }
        let (mut at, mut name) = (0, 0_u32);
        let mut wire = 0_u128;
        for (field, low) in self.places() {
            let mut number = 0;
            for _ in 0..field.bits() {
                number = number << 1 | u32::from(bit(bits, at));
                name = name << 1 | u32::from(bit(bits, at));
                at += 1;
            }
            wire |= u128::from(field.value(number)) << low;
        }
        Ok(match self.format {
            EvFormat::Usid(_) => {
                Placed { value: (taken <= 32).then_some(name), segment: Some(Ipv6Addr::from_bits(wire)) }
            }
            _ => Placed { value: Some(wire as u32), segment: None },
        })
    }

    /// The bits that an EV of this layout is made of. Of another one, what its fields show.
    #[must_use]
    pub fn bits(&self, ev: &Ev) -> EvBits {
        let wire = ev.segment.map_or(u128::from(ev.value), Ipv6Addr::to_bits);
        let mut bits = [0; EV_BYTES];
        let mut at = 0;
        for (field, low) in self.places() {
            let value = (wire >> low) as u32 & ones(u32::from(field.width));
            for place in (0..u32::from(field.width)).rev().filter(|place| field.mask >> place & 1 == 1) {
                bits[at / 8] |= ((value >> place & 1) as u8) << (7 - at % 8);
                at += 1;
            }
        }
        bits
    }

    /// Each field, and the place of its lowest bit.
    fn places(&self) -> impl Iterator<Item = (&EvField, u32)> + '_ {
        let mut low = self.format.room();
        self.fields.iter().zip(self.format.widths()).map(move |(field, &room)| {
            low -= u32::from(room);
            (field, low)
        })
    }
}

fn bit(bits: &EvBits, at: u32) -> bool {
    bits[(at / 8) as usize] >> (7 - at % 8) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(text: &[u8]) -> EvBits {
        let mut bits = [0; EV_BYTES];
        bits[..text.len()].copy_from_slice(text);
        bits
    }

    fn field(width: u8, init: u32, mask: u32) -> EvField {
        EvField { width, init, min: 0, max: 0, mask }
    }

    fn address(text: &str) -> Option<Ipv6Addr> {
        Some(text.parse().unwrap())
    }

    /// What OCP's example of expansion prints for the same profiles.
    #[test]
    fn expansion_is_that_of_the_published_example() {
        let stev = EvFormat::structured(&[16, 16]).unwrap();
        let placed = |format: &EvFormat, fields: &[EvField], ev: &[u8]| {
            EvLayout::new(format, fields).unwrap().place(&bits(ev)).unwrap()
        };
        let plain = |value| Placed { value: Some(value), segment: None };
        let explicit = [field(16, 0, 0xFFFF); 2];
        assert_eq!(placed(&stev, &explicit, &[0x68, 0x67, 0x3d, 0x23]), plain(0x6867_3d23));
        let fixed = [field(16, 0x100, 0x000F), field(16, 0x200, 0x000F)];
        assert_eq!(placed(&stev, &fixed, &[0x3a]), plain(0x0103_020a));
        let weird = [field(16, 0x1000, 0x0F0F), field(16, 0x2000, 0x0F0F)];
        assert_eq!(placed(&stev, &weird, &[0xa5, 0x3c]), plain(0x1a05_230c));
        let srv6 = EvFormat::usid(4).unwrap();
        let locator = EvField::fixed(32, 0xcafe_cafe);
        let fields = [locator, explicit[0], explicit[0], explicit[0], explicit[0]];
        let long = placed(&srv6, &fields, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(long, Placed { value: None, segment: address("cafe:cafe:102:304:506:708::") });
        let subset = placed(&srv6, &fields[..3], &[1, 2, 3, 4]);
        assert_eq!(subset, Placed { value: Some(0x0102_0304), segment: address("cafe:cafe:102:304::") });
        let narrow = field(4, 0, 0xF);
        let nibbles = placed(&srv6, &[locator, narrow, narrow, narrow, narrow], &[0x12, 0x34]);
        assert_eq!(nibbles, Placed { value: Some(0x1234), segment: address("cafe:cafe:1:2:3:4::") });
    }

    #[test]
    fn without_fields_an_ev_is_what_is_in_the_packet_from_the_top() {
        let layout = EvLayout::new(&EvFormat::structured(&[8, 4, 4]).unwrap(), &[]).unwrap();
        assert_eq!(layout.place(&bits(&[0xAB, 0xCD])).unwrap().value, Some(0xABCD_0000));
        assert_eq!(layout.place(&bits(&[0xAB, 0xCD, 0x80])), Err(ExtraBits { taken: 16 }));
        let port = EvLayout::new(&EvFormat::udp_port(&[16]).unwrap(), &[]).unwrap();
        assert_eq!(port.place(&bits(&[0x12, 0x34])).unwrap().value, Some(0x1234));
    }

    #[test]
    fn fields_that_the_format_has_no_room_for_are_refused() {
        let format = EvFormat::structured(&[8, 8]).unwrap();
        let new = |fields: &[EvField]| EvLayout::new(&format, fields).unwrap_err();
        assert_eq!(new(&[EvField::fixed(8, 0); 3]), ExpansionError::TooManyFields { given: 3, room: 2 });
        let error = FieldError::Room { width: 9, room: 8 };
        assert_eq!(new(&[EvField::fixed(9, 0)]), ExpansionError::Field { at: 0, error });
    }

    proptest! {
        #[test]
        fn the_bits_of_a_placed_ev_are_those_that_it_was_made_of(masks in prop::collection::vec(1u32..=0xFFFF, 1..=6), ev: u128) {
            let usid = EvFormat::usid(masks.len() as u8).unwrap();
            let fields: Vec<EvField> = [EvField::fixed(32, 0xFCBB_BBBB)].into_iter()
                .chain(masks.iter().map(|&mask| field(16, 0xA5A5, mask))).collect();
            let layout = EvLayout::new(&usid, &fields).unwrap();
            let kept = ev & u128::MAX.checked_shl(128 - layout.taken()).unwrap_or(0);
            let wanted = bits(&kept.to_be_bytes());
            let Placed { value, segment } = layout.place(&wanted).unwrap();
            prop_assert_eq!(layout.bits(&Ev { value: value.unwrap_or(9), port: 1, segment }), wanted);
        }
    }
}
