//! A field of EVs in text: `NAME:BITS[:KEY=V,..]`, on the command line and in files.

use dataplane::path::profile::{EvField, FIELD_BITS_MAX};
use std::str::FromStr;

/// A field and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) field: EvField,
}

const FORM: &str = "a field is NAME:BITS or NAME:BITS:KEY=V,.., as in hop1:4 or hop1:4:min=0,max=3";

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Field, String> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(width)) = (parts.next(), parts.next()) else {
            return Err(format!("the bits are missing: {FORM}"));
        };
        if name.is_empty() {
            return Err(format!("the name is missing: {FORM}"));
        }
        let bits = number(width).ok().and_then(|bits| u8::try_from(bits).ok());
        let width = bits
            .filter(|bits| (1..=FIELD_BITS_MAX).contains(bits))
            .ok_or_else(|| format!("BITS is {width:?}: give 1 to {FIELD_BITS_MAX}"))?;
        let field = match parts.next() {
            None => EvField::generated(width),
            Some(keys) => Keys::parse(keys)?.field(width)?,
        };
        Ok(Field { name: name.to_owned(), field })
    }
}

/// What was said of a field besides its bits.
#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) min: Option<u32>,
    pub(crate) max: Option<u32>,
    pub(crate) init: Option<u32>,
    pub(crate) mask: Option<u32>,
    pub(crate) fixed: Option<u32>,
}

impl Keys {
    fn parse(text: &str) -> Result<Keys, String> {
        let mut keys = Keys::default();
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=V: {FORM}"))?;
            let place = match key {
                "min" => &mut keys.min,
                "max" => &mut keys.max,
                "init" => &mut keys.init,
                "mask" => &mut keys.mask,
                "fixed" => &mut keys.fixed,
                _ => return Err(format!("there is no key {key:?}: use min, max, init, mask or fixed")),
            };
            let value = number(value).map_err(|why| format!("{key} is {value:?}, which is {why}"))?;
            if place.replace(value).is_some() {
                return Err(format!("{key} is given twice: keep one"));
            }
        }
        Ok(keys)
    }

    /// The field of `width` bits; what was not said has its default.
    pub(crate) fn field(self, width: u8) -> Result<EvField, String> {
        let Keys { min, max, init, mask, fixed } = self;
        if let Some(value) = fixed {
            if [min, max, init, mask].iter().any(Option::is_some) {
                return Err("fixed goes with no other key: for a field that is fixed in part, use init and mask".into());
            }
            return Ok(EvField::fixed(width, value));
        }
        let mask = mask.unwrap_or(EvField::generated(width).mask);
        let most = EvField::generated(u8::try_from(mask.count_ones()).unwrap_or(width)).mask;
        let most = if mask == 0 { 0 } else { most };
        Ok(EvField { width, init: init.unwrap_or(0), min: min.unwrap_or(0), max: max.unwrap_or(most), mask })
    }
}

/// A number of 32 bits: decimal, `0x` or `0b`.
fn number(text: &str) -> Result<u32, &'static str> {
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        _ => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err("no number: give it in decimal, as 0x.. or as 0b..");
    }
    u32::from_str_radix(digits, radix).map_err(|_| "more than 32 bits hold: give a smaller number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> EvField {
        text.parse::<Field>().unwrap().field
    }

    #[test]
    fn a_name_and_bits_are_a_field_that_is_all_generated() {
        assert_eq!(field("hop1:4"), EvField::generated(4));
        assert_eq!(field("x:32"), EvField::generated(32));
    }

    #[test]
    fn keys_come_in_any_order_and_values_in_three_notations() {
        let expected = EvField { width: 8, init: 0x10, min: 1, max: 14, mask: 0x0F };
        assert_eq!(field("hop3:8:max=14,mask=0x0f,min=0b1,init=16"), expected);
    }

    #[test]
    fn without_max_the_generated_number_fills_the_mask() {
        assert_eq!(field("h:8:mask=0x0c").max, 3);
        assert_eq!(field("h:8:mask=0").max, 0);
    }

    #[test]
    fn fixed_stands_for_an_init_without_a_mask() {
        assert_eq!(field("locator:32:fixed=0xfcbbbbbb"), EvField::fixed(32, 0xFCBB_BBBB));
        assert_eq!(field("l:8:init=3,mask=0"), EvField::fixed(8, 3));
    }

    #[test]
    fn what_is_no_field_is_refused_with_the_reason() {
        for (text, reason) in [
            ("hop1", "the bits are missing"),
            (":4", "the name is missing"),
            ("hop1:0", "BITS is \"0\": give 1 to 32"),
            ("hop1:33", "give 1 to 32"),
            ("hop1:x", "BITS is \"x\""),
            ("hop1:4:", "\"\" is not KEY=V"),
            ("hop1:4:max", "\"max\" is not KEY=V"),
            ("hop1:4:mx=3", "no key \"mx\": use min"),
            ("hop1:4:max=-1", "max is \"-1\", which is no number"),
            ("hop1:4:max=0x", "no number"),
            ("hop1:4:max=+3", "no number"),
            ("hop1:4:max=4294967296", "more than 32 bits hold"),
            ("hop1:4:max=1,max=2", "max is given twice"),
            ("hop1:4:fixed=1,max=2", "fixed goes with no other key"),
        ] {
            let error = text.parse::<Field>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
