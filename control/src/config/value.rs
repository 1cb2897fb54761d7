//! Values of attributes: their types, as files have them and as the engine needs them.

use super::rule::Rule;
use crate::units::{Units, quantity};
use dataplane::transport::RttMode;
use std::fmt;

const SIZES: Units = &[("B", 1), ("KB", 1_000), ("KiB", 1 << 10), ("MB", 1_000_000), ("MiB", 1 << 20)];
const RATES: Units = &[("Mbps", 1_000_000), ("Gbps", 1_000_000_000)];
/// In picoseconds.
const TIMES: Units = &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];

/// A value as files have it; sizes, rates and times are text with a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Decimal(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// The value as TOML has it.
    #[must_use]
    pub fn toml(&self) -> String {
        match self {
            Value::Text(text) => format!("{text:?}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(bool) => write!(f, "{bool}"),
            Value::Integer(number) => write!(f, "{number}"),
            // 4.0 and not 4.
            Value::Decimal(number) => write!(f, "{number:?}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// Why a value is refused.
pub(super) type Refused = (Rule, String);

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `bool`.
    Bool,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `bytes`.
    Bytes,
    /// `queuesize`.
    QueueSize,
    /// `datarate`.
    DataRate,
    /// `timeval`.
    TimeVal,
    /// `string`: one of these, or without any what the attribute says.
    String(&'static [&'static str]),
}

impl Kind {
    /// The type's name in the nested form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Uint => "uint",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::QueueSize => "queuesize",
            Kind::DataRate => "datarate",
            Kind::TimeVal => "timeval",
            Kind::String(_) => "string",
        }
    }

    /// Its units and how many of the smallest each is; `None` for a type without any.
    pub(super) const fn units(self) -> Option<Units> {
        match self {
            Kind::Bytes | Kind::QueueSize => Some(SIZES),
            Kind::DataRate => Some(RATES),
            Kind::TimeVal => Some(TIMES),
            Kind::Bool | Kind::Uint | Kind::Double | Kind::String(_) => None,
        }
    }

    /// The value that is written like this in a document.
    pub(super) fn parse(self, text: &str) -> Value {
        let number = || text.parse().map(Value::Decimal);
        match self {
            Kind::Bool => text.parse().map(Value::Bool).ok(),
            Kind::Uint => text.parse().map(Value::Integer).ok(),
            Kind::Double => number().ok(),
            _ => None,
        }
        .unwrap_or_else(|| Value::Text(text.to_owned()))
    }

    /// How much a value is, to compare it with others of its type; `None` where there is no order, or the value is none of the type.
    fn measure(self, value: &Value) -> Option<f64> {
        match (self.units(), value) {
            (Some(units), Value::Text(text)) => quantity(text, units).ok().map(|amount| amount as f64),
            (None, Value::Integer(number)) => Some(*number as f64),
            (None, Value::Decimal(number)) => Some(*number),
            _ => None,
        }
    }
}

/// The ends of a range as the documentation writes them; an open end is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest value.
    pub min: Option<&'static str>,
    /// The largest value.
    pub max: Option<&'static str>,
}

impl Range {
    /// The range with these ends, the upper of which may be missing; with none everything is in it.
    pub(super) const fn of(ends: &'static [&'static str]) -> Range {
        match ends {
            [] => Range { min: None, max: None },
            [min] => Range { min: Some(min), max: None },
            [min, max, ..] => Range { min: Some(min), max: Some(max) },
        }
    }

    /// Whether a value of a type is in it.
    pub(super) fn has(&self, kind: Kind, value: &Value) -> bool {
        let end = |end: &str| kind.measure(&kind.parse(end));
        // Everything is false of a NaN, so it is in no range that has an end.
        let Some(amount) = kind.measure(value) else { return true };
        self.min.is_none_or(|min| end(min).is_some_and(|min| amount >= min))
            && self.max.is_none_or(|max| end(max).is_some_and(|max| amount <= max))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "{min} or more"),
            (None, Some(max)) => write!(f, "up to {max}"),
            (None, None) => Ok(()),
        }
    }
}

/// What an attribute's value is read into.
pub(super) trait Field: Sized {
    /// Its type.
    const KIND: Kind;

    /// Reads a value.
    fn read(value: &Value) -> Result<Self, Refused>;

    /// The value as files have it, always in the same words.
    fn value(&self) -> Value;
}

/// The value that the table has for a default.
pub(super) fn default_of<T: Field>(text: &str) -> T {
    T::read(&T::KIND.parse(text)).unwrap_or_else(|(_, why)| panic!("the table's default {text:?} {why}"))
}

impl Field for bool {
    const KIND: Kind = Kind::Bool;

    fn read(value: &Value) -> Result<bool, Refused> {
        match value {
            Value::Bool(bool) => Ok(*bool),
            _ => Err((Rule::WrongType, "is neither true nor false".into())),
        }
    }

    fn value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Field for u64 {
    const KIND: Kind = Kind::Uint;

    fn read(value: &Value) -> Result<u64, Refused> {
        match value {
            Value::Integer(number) if *number >= 0 => Ok(number.unsigned_abs()),
            _ => Err((Rule::NotAWholeNumber, "is no whole number of 0 or more".into())),
        }
    }

    fn value(&self) -> Value {
        // None is larger: they are read from such.
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Double;

    fn read(value: &Value) -> Result<f64, Refused> {
        match value {
            Value::Decimal(number) => Ok(*number),
            Value::Integer(number) => Ok(*number as f64),
            _ => Err((Rule::WrongType, "is no number".into())),
        }
    }

    fn value(&self) -> Value {
        Value::Decimal(*self)
    }
}

/// Reads an amount with its unit.
fn amount(value: &Value, kind: Kind) -> Result<u64, Refused> {
    let units = kind.units().unwrap_or_default();
    let read = match value {
        Value::Text(text) => quantity(text, units),
        Value::Integer(_) | Value::Decimal(_) => quantity(&value.to_string(), units),
        Value::Bool(_) => Err("is no number with a unit".into()),
    };
    read.map_err(|why| (Rule::WrongQuantity, why))
}

/// An amount in the unit of which it is a whole number with the fewest letters; 512KB and not 500KiB.
fn whole(amount: u64, units: Units) -> Value {
    let fits = units.iter().filter(|(_, one)| amount.is_multiple_of(*one));
    let texts = fits.map(|(name, one)| format!("{}{name}", amount / one));
    // The smallest unit fits all.
    Value::Text(texts.min_by_key(String::len).unwrap_or_default())
}

/// A type of amounts: a number of the smallest unit.
macro_rules! amounts {
    ($( $(#[$doc:meta])* $type:ident = $write:expr; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $type(pub u64);

        impl Field for $type {
            const KIND: Kind = Kind::$type;

            fn read(value: &Value) -> Result<Self, Refused> {
                amount(value, Self::KIND).map($type)
            }

            fn value(&self) -> Value {
                $write(self.0)
            }
        }
    )* };
}

amounts! {
    /// A size in bytes.
    Bytes = |bytes| whole(bytes, SIZES);
    /// The size of a queue in bytes.
    QueueSize = |bytes| whole(bytes, SIZES);
    /// A rate in bits a second.
    DataRate = rate;
    /// A time in picoseconds.
    TimeVal = |picoseconds| whole(picoseconds, TIMES);
}

impl TimeVal {
    /// Whole nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }
}

/// A rate in Gbps, or below 1 Gbps in Mbps, with as many digits behind the point as it needs.
fn rate(bits: u64) -> Value {
    let (name, one) = if bits >= RATES[1].1 { RATES[1] } else { RATES[0] };
    let fraction = format!("{:0width$}", bits % one, width = one.ilog10() as usize);
    let number = format!("{}.{fraction}", bits / one);
    Value::Text(format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.')))
}

/// `PacketSprayingType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SprayingType {
    /// Each QP keeps to a UDP source port of its own.
    None,
    /// Packets are sprayed over an active set.
    Default,
}

/// Attributes that take one of a few names.
macro_rules! choices {
    ($( $type:ty { $( $value:path = $name:literal ),* } )*) => { $(
        impl Field for $type {
            const KIND: Kind = Kind::String(&[$($name),*]);

            fn read(value: &Value) -> Result<Self, Refused> {
                match value {
                    $( Value::Text(text) if text == $name => Ok($value), )*
                    Value::Text(_) => Err((Rule::NoSuchChoice, one_of(&[$($name),*]))),
                    _ => Err((Rule::WrongType, one_of(&[$($name),*]))),
                }
            }

            fn value(&self) -> Value {
                Value::Text(match self { $( $value => $name ),* }.to_owned())
            }
        }
    )* };
}

choices! {
    SprayingType { SprayingType::None = "None", SprayingType::Default = "Default Packet Spraying" }
    RttMode { RttMode::LocalDatabase = "LocalDatabase", RttMode::WireTimestamp = "WireTimestamp" }
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("is none of {}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Field + PartialEq + fmt::Debug>(value: T, text: &str) {
        assert_eq!(value.value().to_string(), text);
        assert_eq!(T::read(&value.value()), Ok(value));
    }

    #[test]
    fn amounts_are_written_in_a_unit_that_keeps_them_exact() {
        again(TimeVal(150_000_000), "150us");
        again(TimeVal(1_500), "1500ps");
        again(TimeVal(0), "0s");
        again(Bytes(4_000_000), "4MB");
        again(Bytes(262_144), "256KiB");
        again(Bytes(512_000), "512KB");
        again(Bytes(1 << 20), "1MiB");
        again(QueueSize(4_174), "4174B");
        again(DataRate(31_520_000_000), "31.52Gbps");
        again(DataRate(400_000_000_000), "400Gbps");
        again(DataRate(1), "0.000001Mbps");
        again(DataRate(0), "0Mbps");
    }

    #[test]
    fn units_that_a_type_does_not_have_are_refused() {
        let refused = |read: Result<u64, Refused>| read.unwrap_err().1;
        let text = |text: &str| Value::Text(text.to_owned());
        assert!(refused(amount(&text("1GB"), Kind::Bytes)).contains("give one of B, KB, KiB, MB, MiB"));
        assert!(refused(amount(&text("1Tbps"), Kind::DataRate)).contains("give one of Mbps, Gbps"));
        assert!(refused(amount(&Value::Integer(150), Kind::TimeVal)).contains("has no unit"));
        assert!(refused(amount(&text("0.1ps"), Kind::TimeVal)).contains("is no whole number of ps"));
        assert!(refused(amount(&Value::Integer(-1), Kind::TimeVal)).contains("is no number"));
    }

    #[test]
    fn nothing_that_is_no_number_is_in_a_range() {
        let range = Range::of(&["0.0", "1.0"]);
        assert!(range.has(Kind::Double, &Value::Decimal(1.0)));
        assert!(!range.has(Kind::Double, &Value::Decimal(f64::NAN)));
        assert!(!range.has(Kind::Double, &Value::Decimal(f64::INFINITY)));
    }
}
