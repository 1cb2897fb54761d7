//! Quantities with their units, as scenario files have them: rates, times, sizes and shares.

use dataplane::fabric::{DELAY_MAX, RATE_MAX};
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A unit and how many of the smallest it is.
pub(crate) type Units = &'static [(&'static str, u64)];

const RATES: Units =
    &[("bps", 1), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];
const TIMES: Units = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const SIZES: Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
/// Digits behind the point.
const DIGITS_MAX: usize = 12;

/// Bits a second, 1 to [`RATE_MAX`]: `"400Gbps"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// Nanoseconds, 0 to [`DELAY_MAX`]: `"1.5us"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

/// Bytes, 0 to 2^63: `"256KiB"`, or a plain number. KB are 1,000 bytes, KiB 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A share, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// A number and its unit, in the smallest unit; the number may have a fraction, as long as the whole has none.
pub(crate) fn quantity(text: &str, units: Units) -> Result<u64, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let one = units.iter().find(|(name, _)| *name == unit).map(|(_, one)| u128::from(*one));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > DIGITS_MAX {
        return Err("is no number with a unit".into());
    }
    let one = one.ok_or_else(|| match unit {
        "" => format!("has no unit: give one of {}", names()),
        _ => format!("has the unit {unit:?}: give one of {}", names()),
    })?;
    let scale = 10u128.pow(fraction.len() as u32);
    let parsed = |digits: &str| digits.parse::<u64>().map(u128::from).map_err(|_| "is too large".to_owned());
    let number = parsed(whole)? * scale + parsed(fraction)?;
    let scaled = number.checked_mul(one).ok_or("is too large")?;
    if !scaled.is_multiple_of(scale) {
        let smallest = units.iter().find(|(_, one)| *one == 1).map_or("bits a second", |(name, _)| name);
        return Err(format!("is no whole number of {smallest}"));
    }
    u64::try_from(scaled / scale).map_err(|_| "is too large".into())
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match quantity(text, RATES)? {
            rate @ 1..=RATE_MAX => Ok(Rate(rate)),
            _ => Err("is out of range: 1bps to 10Tbps".into()),
        }
    }
}

/// What a quantity may be, for those who got it wrong.
struct Quantity {
    units: Units,
    example: &'static str,
    range: std::ops::RangeInclusive<u64>,
    says: &'static str,
    /// A plain number is one too.
    plain: bool,
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quantity { example, says, .. } = self;
        write!(f, "{says}, as in {example:?}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        let Quantity { units, example, ref range, says, .. } = self;
        let value = quantity(text, units).map_err(|why| E::custom(format!("{text:?} {why}, as in {example:?}")))?;
        if range.contains(&value) {
            Ok(value)
        } else {
            Err(E::custom(format!("{text:?} is out of range: give {says}")))
        }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        match u64::try_from(number) {
            Ok(number) if self.plain && self.range.contains(&number) => Ok(number),
            _ => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let (units, range, says) = (RATES, 1..=RATE_MAX, "1bps to 10Tbps");
        deserializer.deserialize_any(Quantity { units, example: "400Gbps", range, says, plain: false }).map(Rate)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let (units, range, says) = (TIMES, 0..=DELAY_MAX, "0ns to 60s");
        deserializer.deserialize_any(Quantity { units, example: "500ns", range, says, plain: false }).map(Time)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let (units, range, says) = (SIZES, 0..=1 << 63, "0 or more bytes");
        deserializer.deserialize_any(Quantity { units, example: "256KiB", range, says, plain: true }).map(Size)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        let share = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&share) {
            return Ok(Share(share));
        }
        Err(D::Error::custom(format!("{share} is out of range: a share is 0 to 1, and 0.01 is 1 %")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, units, value) in [
            ("400Gbps", RATES, 400_000_000_000),
            ("0.1 Tbps", RATES, 100_000_000_000),
            ("1.5us", TIMES, 1_500),
            ("500ns", TIMES, 500),
            ("2s", TIMES, 2_000_000_000),
            ("256KiB", SIZES, 262_144),
            ("256KB", SIZES, 256_000),
            ("1.5KiB", SIZES, 1_536),
        ] {
            assert_eq!(quantity(text, units), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_reason() {
        for (text, units, why) in [
            ("400", RATES, "has no unit: give one of bps, Kbps"),
            ("400Gb", RATES, "has the unit \"Gb\""),
            ("5KiB", TIMES, "has the unit \"KiB\": give one of ns, us, ms, s"),
            ("1.5ns", TIMES, "is no whole number of ns"),
            ("", SIZES, "is no number"),
            ("-1B", SIZES, "is no number"),
            ("1.B", SIZES, "is no number"),
            ("99999999999999999999B", SIZES, "is too large"),
            ("18446744073709551615KiB", SIZES, "is too large"),
            ("18446744073709551615.000000000000Tbps", RATES, "is too large"),
        ] {
            let error = quantity(text, units).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
