//! From fields to EVs: every EV that the fields allow, in an order that is random but repeatable.

use super::field::{EvField, FieldError, ones};
use super::format::EvFormat;
use super::permutation::Permutation;
use std::net::Ipv6Addr;

/// Bits of an EV that are generated at most: as many as travel.
const GENERATED_BITS_MAX: u32 = 32;
/// Fields at most: 32 of one bit each.
const FIELDS_MAX: usize = 32;

/// The generated number of each field.
type Numbers = [u32; FIELDS_MAX];

/// An EV as it is in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// UDP source port in bits 15:0, flow label in bits 31:16. With SRv6 these are the generated bits of all fields in a row, the first
    /// field's uppermost and the last one's in bit 0.
    pub ev: u32,
    /// Destination of the outer IPv6 header, with SRv6.
    pub segment: Option<Ipv6Addr>,
}

impl Expanded {
    /// The UDP source port.
    #[must_use]
    pub const fn udp_source_port(&self) -> u16 {
        self.ev as u16
    }

    /// The lower 16 bits of the IPv6 flow label; the upper 4 are 0.
    #[must_use]
    pub const fn flow_label(&self) -> u16 {
        (self.ev >> 16) as u16
    }
}

/// Bits of a field: `high` to `low` of the EV, or of the IPv6 address with SRv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Most significant bit.
    pub high: u32,
    /// Least significant bit.
    pub low: u32,
}

/// Why fields don't make EVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpansionError {
    /// No fields.
    #[error("there are no fields: give one for each hop")]
    NoFields,
    /// More fields than the format has.
    #[error("there are {given} fields, and the format has {room}: take fields away, or use a format with more")]
    TooManyFields {
        /// Fields given.
        given: usize,
        /// Fields of the format.
        room: usize,
    },
    /// One field is refused.
    #[error("field {}: {error}", at + 1)]
    Field {
        /// Which, from 0.
        at: usize,
        /// Why.
        error: FieldError,
    },
    /// More generated bits than can travel with a packet.
    #[error("the masks have {0} bits in all, and the EV that travels with each packet has 32: fix some of the bits")]
    TooManyBits(u32),
}

/// All EVs that fields allow, in the order of a seed. It computes each when asked, so its size does not depend on their number.
#[derive(Clone, Debug)]
pub struct Expansion {
    format: EvFormat,
    fields: Box<[EvField]>,
    seed: u64,
    space: u64,
    order: Permutation,
}

impl Expansion {
    /// The EVs of `fields` in `format`. Each field takes the lower bits of the format's field with the same place; fields of the format
    /// without one are 0. The same `seed` gives the same order, in every release.
    ///
    /// # Errors
    /// [`ExpansionError`]: a field that is refused, too many fields, or more than 32 generated bits.
    pub fn new(format: &EvFormat, fields: &[EvField], seed: u64) -> Result<Expansion, ExpansionError> {
        let widths = format.widths();
        if fields.is_empty() {
            return Err(ExpansionError::NoFields);
        }
        if fields.len() > widths.len() {
            return Err(ExpansionError::TooManyFields { given: fields.len(), room: widths.len() });
        }
        let usid = matches!(format, EvFormat::Usid(_));
        for (at, (field, &room)) in fields.iter().zip(widths).enumerate() {
            let refused = |error| ExpansionError::Field { at, error };
            field.validate().map_err(refused)?;
            if field.width > room {
                return Err(refused(FieldError::Room { width: field.width, room }));
            }
            if usid && at > 0 && field.may_be_zero() {
                return Err(refused(FieldError::ZeroUsid));
            }
        }
        let bits = fields.iter().map(EvField::bits).sum();
        if bits > GENERATED_BITS_MAX {
            return Err(ExpansionError::TooManyBits(bits));
        }
        let space = fields.iter().map(EvField::values).product();
        let order = Permutation::new(space, seed);
        Ok(Expansion { format: format.clone(), fields: fields.into(), seed, space, order })
    }

    /// How many EVs there are, 1 to 2^32.
    #[must_use]
    pub const fn space(&self) -> u64 {
        self.space
    }

    /// The seed of the order.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The fields, the first hop first.
    #[must_use]
    pub fn fields(&self) -> &[EvField] {
        &self.fields
    }

    /// The format that the EVs have.
    #[must_use]
    pub const fn format(&self) -> &EvFormat {
        &self.format
    }

    /// The EV at this place of the order, from 0; `None` from [`Expansion::space`] on.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Expanded> {
        (index < self.space).then(|| self.expand(&self.numbers_at(index)))
    }

    /// The EVs in order, each once.
    pub fn iter(&self) -> impl Iterator<Item = Expanded> + '_ {
        (0..self.space).map(|index| self.expand(&self.numbers_at(index)))
    }

    /// The place in the order of an EV, by its 32 bits; `None` for one that the fields don't allow.
    #[must_use]
    pub fn position(&self, ev: u32) -> Option<u64> {
        let numbers = self.numbers_of(ev)?;
        let rank = self.fields.iter().zip(&numbers).fold(0, |rank, (field, &number)| {
            // The fields are the digits of a number in mixed radix.
            rank * field.values() + u64::from(number - field.min)
        });
        Some(self.order.index_of(rank))
    }

    /// The value of each field in an EV, by its 32 bits; `None` for one that the fields don't allow.
    #[must_use]
    pub fn values(&self, ev: u32) -> Option<Vec<u32>> {
        let numbers = self.numbers_of(ev)?;
        Some(self.fields.iter().zip(&numbers).map(|(field, &number)| field.value(number)).collect())
    }

    /// Where each field is: its own bits, without those that the format has beyond its width.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let mut low = self.format.room();
        self.fields.iter().zip(self.format.widths()).map(move |(field, &room)| {
            low -= u32::from(room);
            Span { high: low + u32::from(field.width) - 1, low }
        })
    }

    fn numbers_at(&self, index: u64) -> Numbers {
        let mut numbers = [0; FIELDS_MAX];
        let mut rank = self.order.at(index);
        for (field, number) in self.fields.iter().zip(&mut numbers).rev() {
            *number = field.min + (rank % field.values()) as u32;
            rank /= field.values();
        }
        numbers
    }

    fn expand(&self, numbers: &Numbers) -> Expanded {
        let fields = self.fields.iter().zip(numbers);
        let wire = fields
            .clone()
            .zip(self.spans())
            .fold(0u128, |wire, ((field, &number), span)| wire | u128::from(field.value(number)) << span.low);
        if matches!(self.format, EvFormat::Usid(_)) {
            let ev = fields.fold(0u64, |ev, (field, &number)| ev << field.bits() | u64::from(number));
            Expanded { ev: ev as u32, segment: Some(Ipv6Addr::from_bits(wire)) }
        } else {
            Expanded { ev: wire as u32, segment: None }
        }
    }

    fn numbers_of(&self, ev: u32) -> Option<Numbers> {
        let mut numbers = [0; FIELDS_MAX];
        if matches!(self.format, EvFormat::Usid(_)) {
            let mut rest = u64::from(ev);
            for (field, number) in self.fields.iter().zip(&mut numbers).rev() {
                *number = rest as u32 & ones(field.bits());
                rest >>= field.bits();
                if !(field.min..=field.max).contains(number) {
                    return None;
                }
            }
            return (rest == 0).then_some(numbers);
        }
        for ((field, span), number) in self.fields.iter().zip(self.spans()).zip(&mut numbers) {
            *number = field.number(ev >> span.low & ones(u32::from(field.width)))?;
        }
        // Bits of no field have to be 0.
        (self.expand(&numbers).ev == ev).then_some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn structured(fields: &[EvField], seed: u64) -> Expansion {
        let widths: Vec<u8> = fields.iter().map(|field| field.width).collect();
        Expansion::new(&EvFormat::structured(&widths).unwrap(), fields, seed).unwrap()
    }

    /// A field of up to 8 bits with all that a field can have, and few values.
    fn any_field() -> impl Strategy<Value = EvField> {
        (1u8..=8, any::<[u32; 4]>()).prop_map(|(width, [init, mask, a, b])| {
            // Three generated bits at most, so that all EVs of four fields can be listed.
            let all = ones(u32::from(width));
            let mut mask = mask & all;
            while mask.count_ones() > 3 {
                mask &= mask - 1;
            }
            let largest = ones(mask.count_ones());
            let (a, b) = (a & largest, b & largest);
            EvField { width, init: init & all, min: a.min(b), max: a.max(b), mask }
        })
    }

    #[test]
    fn the_first_hop_is_in_the_most_significant_bits_and_unused_bits_are_0() {
        let expansion = structured(&[EvField::fixed(4, 0xA), EvField::fixed(8, 0x5B), EvField::fixed(4, 0xC)], 1);
        assert_eq!(expansion.get(0), Some(Expanded { ev: 0xA5BC_0000, segment: None }));
        let ev = expansion.get(0).unwrap();
        assert_eq!((ev.flow_label(), ev.udp_source_port()), (0xA5BC, 0));
        let spans: Vec<_> = expansion.spans().collect();
        assert_eq!(spans, [(31, 28), (27, 20), (19, 16)].map(|(high, low)| Span { high, low }));
    }

    #[test]
    fn a_field_narrower_than_the_formats_is_filled_up_with_zeros_from_the_left() {
        let format = EvFormat::structured(&[8, 8, 16]).unwrap();
        let expansion = Expansion::new(&format, &[EvField::fixed(4, 0xF), EvField::fixed(8, 0x11)], 1).unwrap();
        assert_eq!(expansion.get(0).unwrap().ev, 0x0F11_0000);
        assert_eq!(expansion.spans().next(), Some(Span { high: 27, low: 24 }));
    }

    #[test]
    fn fields_of_a_udp_port_stay_in_16_bits() {
        let format = EvFormat::udp_port(&[8, 8]).unwrap();
        let expansion = Expansion::new(&format, &[EvField::fixed(8, 0xC0), EvField::generated(8)], 3).unwrap();
        assert_eq!(expansion.space(), 256);
        assert!(expansion.iter().all(|ev| ev.flow_label() == 0 && ev.udp_source_port() >> 8 == 0xC0));
    }

    #[test]
    fn an_srv6_address_is_locator_and_usids_and_the_ev_is_the_generated_bits_in_a_row() {
        let tier = |n: u32| EvField { width: 16, init: n << 8, min: 0, max: 0xFF, mask: 0xFF };
        let fields = [EvField::fixed(32, 0xFCBB_BBBB), tier(1), tier(2), tier(3), tier(4)];
        let expansion = Expansion::new(&EvFormat::usid(4).unwrap(), &fields, 5).unwrap();
        assert_eq!(expansion.space(), 1 << 32);
        for ev in expansion.iter().take(1000) {
            let [a, b, c, d] = ev.ev.to_be_bytes().map(u16::from);
            let expected = Ipv6Addr::new(0xFCBB, 0xBBBB, 0x100 | a, 0x200 | b, 0x300 | c, 0x400 | d, 0, 0);
            assert_eq!(ev.segment, Some(expected));
            assert_eq!(expansion.values(ev.ev).unwrap()[2], u32::from(0x200 | b));
        }
    }

    #[test]
    fn a_usid_that_may_come_out_as_0_is_refused() {
        let fields = [EvField::fixed(32, 0xFCBB_BBBB), EvField::generated(8)];
        let error = Expansion::new(&EvFormat::usid(1).unwrap(), &fields, 5).unwrap_err();
        assert_eq!(error, ExpansionError::Field { at: 1, error: FieldError::ZeroUsid });
        let fields = [fields[0], EvField { min: 1, ..fields[1] }];
        assert_eq!(Expansion::new(&EvFormat::usid(1).unwrap(), &fields, 5).unwrap().space(), 255);
    }

    #[test]
    fn more_generated_bits_than_travel_with_a_packet_are_refused() {
        let fields = [EvField::generated(32), EvField { min: 1, ..EvField::generated(16) }];
        let error = Expansion::new(&EvFormat::usid(1).unwrap(), &fields, 5).unwrap_err();
        assert_eq!(error, ExpansionError::TooManyBits(48));
    }

    #[test]
    fn fields_that_the_format_has_no_room_for_are_refused() {
        let format = EvFormat::structured(&[4, 4]).unwrap();
        let new = |fields: &[EvField]| Expansion::new(&format, fields, 1).unwrap_err();
        assert_eq!(new(&[]), ExpansionError::NoFields);
        assert_eq!(new(&[EvField::generated(4); 3]), ExpansionError::TooManyFields { given: 3, room: 2 });
        let error = FieldError::Room { width: 5, room: 4 };
        assert_eq!(new(&[EvField::generated(4), EvField::generated(5)]), ExpansionError::Field { at: 1, error });
    }

    #[test]
    fn all_32_bits_generated_are_2_to_the_32_evs_that_nobody_has_to_list() {
        let expansion = structured(&[EvField::generated(8), EvField::generated(24)], 9);
        assert_eq!(expansion.space(), 1 << 32);
        let some: BTreeSet<u32> = expansion.iter().take(10_000).map(|ev| ev.ev).collect();
        assert_eq!(some.len(), 10_000);
        assert!(expansion.get((1 << 32) - 1).is_some());
        assert_eq!(expansion.get(1 << 32), None);
        assert_eq!(expansion.position(expansion.get(0xDEAD_BEEF).unwrap().ev), Some(0xDEAD_BEEF));
    }

    #[test]
    fn the_order_of_a_seed_is_the_same_in_every_release() {
        let expansion = structured(&[EvField::generated(4), EvField::generated(4)], 1);
        let evs: Vec<u32> = expansion.iter().take(6).map(|ev| ev.ev >> 24).collect();
        // Reckoned by another program.
        assert_eq!(evs, [116, 181, 90, 221, 88, 243]);
    }

    proptest! {
        #[test]
        fn every_ev_that_the_fields_allow_comes_exactly_once(fields in prop::collection::vec(any_field(), 1..=4), seed: u64) {
            let expansion = structured(&fields, seed);
            let evs: BTreeSet<u32> = expansion.iter().map(|ev| ev.ev).collect();
            prop_assert_eq!(evs.len() as u64, expansion.space());
            // Reckoned the other way round: walk through all values of the fields, and keep those that obey.
            let mut expected = BTreeSet::from([0u32]);
            let mut low = 32;
            for field in &fields {
                low -= u32::from(field.width);
                let allowed: Vec<u32> = (0..=ones(u32::from(field.width)))
                    .filter(|value| value & !field.mask == field.init & !field.mask)
                    .filter(|value| {
                        let bits = (0..32).filter(|bit| field.mask >> bit & 1 == 1).enumerate();
                        let number = bits.map(|(at, bit)| (value >> bit & 1) << at).sum::<u32>();
                        (field.min..=field.max).contains(&number)
                    })
                    .collect();
                expected = expected.iter().flat_map(|ev| allowed.iter().map(move |value| ev | value << low)).collect();
            }
            prop_assert_eq!(evs, expected);
        }

        #[test]
        fn the_same_seed_gives_the_same_order_and_another_seed_another(seed: u64) {
            let fields = [EvField::generated(4), EvField { max: 2, ..EvField::generated(4) }, EvField::generated(2)];
            let order = |seed| structured(&fields, seed).iter().map(|ev| ev.ev).collect::<Vec<_>>();
            prop_assert_eq!(order(seed), order(seed));
            prop_assert_ne!(order(seed), order(seed.wrapping_add(1)));
        }

        #[test]
        fn the_place_of_an_ev_is_found_and_evs_that_are_not_allowed_have_none(
            fields in prop::collection::vec(any_field(), 1..=4), seed: u64, ev: u32,
        ) {
            let expansion = structured(&fields, seed);
            let all: BTreeSet<u32> = expansion.iter().map(|ev| ev.ev).collect();
            for (index, ev) in expansion.iter().enumerate() {
                prop_assert_eq!(expansion.position(ev.ev), Some(index as u64));
            }
            prop_assert_eq!(expansion.position(ev).is_some(), all.contains(&ev));
        }

        #[test]
        fn the_ev_of_an_srv6_path_names_it(bounds in prop::collection::vec((1u32..=8, 0u32..=7), 1..=6), seed: u64) {
            let mut fields = vec![EvField::fixed(32, 0xFCBB_BBBB)];
            fields.extend(bounds.iter().map(|&(min, more)| EvField { min, max: min + more, ..EvField::generated(4) }));
            let expansion = Expansion::new(&EvFormat::usid(bounds.len() as u8).unwrap(), &fields, seed).unwrap();
            for (index, ev) in expansion.iter().take(200).enumerate() {
                prop_assert_eq!(expansion.position(ev.ev), Some(index as u64));
                let usids = ev.segment.unwrap().segments();
                let values = expansion.values(ev.ev).unwrap();
                for (usid, value) in usids[2..].iter().zip(&values[1..]) {
                    prop_assert_eq!(u32::from(*usid), *value);
                }
            }
        }
    }
}
