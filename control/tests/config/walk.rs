//! A walk over the table.

use super::documented::DOCUMENTED;
use super::{line, read, wrong};
use control::config::{Acts, Attribute, Config, Kind, Rule, Value, attributes};
use std::collections::BTreeSet;

fn documented() -> Vec<&'static Attribute> {
    attributes().filter(|attribute| attribute.is_documented()).collect()
}

/// A value as an attribute's type has it.
fn value(attribute: &Attribute, text: &str) -> Value {
    match attribute.kind {
        Kind::Bool => Value::Bool(text == "true"),
        Kind::Uint => Value::Integer(text.parse().unwrap()),
        Kind::Double => Value::Decimal(text.parse().unwrap()),
        _ => Value::Text(text.to_owned()),
    }
}

/// What is next to an end of a range, on the side where nothing is.
fn beyond(attribute: &Attribute, end: &str, step: i64) -> Value {
    match attribute.kind {
        Kind::Uint => Value::Integer(end.parse::<i64>().unwrap() + step),
        Kind::Double => Value::Decimal(end.parse::<f64>().unwrap() + step as f64 * 1e-6),
        Kind::TimeVal => {
            let ps = match end {
                "0ns" => 0,
                "1ns" => 1_000,
                "10us" => 10_000_000,
                "1ms" => 1_000_000_000,
                "8s" => 8_000_000_000_000_i64,
                _ => panic!("another end: {end}"),
            };
            Value::Text(format!("{}ps", ps + step))
        }
        _ => panic!("{} has no range", attribute.full),
    }
}

#[test]
fn every_attribute_is_there_with_its_type_its_default_and_its_range() {
    let documented = documented();
    assert_eq!(documented.len(), DOCUMENTED.len());
    for (attribute, expected) in documented.iter().zip(DOCUMENTED) {
        assert_eq!(attribute.document_name(), expected.name);
        assert_eq!(attribute.kind.name(), expected.kind, "{}", expected.name);
        assert_eq!(attribute.default, expected.default, "{}", expected.name);
        let ends = [attribute.range.min, attribute.range.max].map(Option::unwrap_or_default);
        assert_eq!(ends, expected.range, "{}", expected.name);
    }
}

#[test]
fn defaults_are_what_a_configuration_has() {
    for attribute in documented().into_iter().filter(|attribute| attribute.acts != Acts::ReadOnly) {
        let mut config = Config::default();
        attribute.set(&mut config, &value(attribute, attribute.default)).unwrap();
        assert_eq!(config, Config::default(), "{}", attribute.full);
    }
}

#[test]
fn keys_are_the_names_in_snake_case_and_each_is_one_of_a_kind() {
    let mut seen = BTreeSet::new();
    for attribute in attributes() {
        assert!(seen.insert(attribute.full), "{} is there twice", attribute.full);
        assert_eq!(attribute.full, format!("{}.{}", attribute.section, attribute.key));
        if attribute.is_documented() {
            assert_eq!(attribute.key.replace('_', ""), attribute.name.to_lowercase());
        }
        assert!(!attribute.about.is_empty() && attribute.about.ends_with('.'), "{}", attribute.full);
    }
}

#[test]
fn the_ends_of_ranges_are_taken_and_what_is_beyond_is_refused_by_name() {
    let mut ends = 0;
    for attribute in attributes() {
        for (end, step) in [(attribute.range.min, -1), (attribute.range.max, 1)] {
            let Some(end) = end else { continue };
            ends += 1;
            let mut config = Config::default();
            attribute.set(&mut config, &value(attribute, end)).unwrap();
            let before = config.clone();
            let beyond = beyond(attribute, end, step);
            assert!(attribute.set(&mut config, &beyond).is_err(), "{} takes {beyond}", attribute.full);
            assert_eq!(config, before, "what is refused changes nothing");
            let text = format!("# a file\n{}", line(attribute, &beyond.toml()));
            let found = wrong(&text).remove(0);
            assert_eq!((found.line, found.key.as_str()), (Some(2), attribute.full));
            // Below 0 is neither a uint nor a time, whatever the range is.
            if found.rule == Rule::OutOfRange {
                let range = format!("{} takes {}", attribute.name, attribute.range);
                assert!(found.why.contains(&range), "{found}");
            } else if attribute.kind == Kind::Uint {
                assert_eq!((found.rule, beyond), (Rule::NotAWholeNumber, Value::Integer(-1)));
            } else {
                assert_eq!((found.rule, beyond), (Rule::WrongQuantity, Value::Text("-1ps".into())));
            }
        }
    }
    let documented = DOCUMENTED.iter().flat_map(|documented| documented.range).filter(|end| !end.is_empty());
    let ours = 2; // Those of model.pcie_round_trip.
    assert_eq!(ends, documented.count() + ours);
}

#[test]
fn a_file_with_every_default_is_the_default() {
    let lines = documented().into_iter().filter(|attribute| attribute.acts != Acts::ReadOnly);
    let lines: Vec<String> =
        lines.map(|attribute| line(attribute, &value(attribute, attribute.default).toml())).collect();
    assert_eq!(read(&lines.join("\n")).config, Config::default());
}

#[test]
fn values_of_another_type_are_refused_for_every_attribute() {
    for attribute in attributes().filter(|attribute| attribute.acts != Acts::ReadOnly) {
        let (text, rule) = match attribute.kind {
            Kind::Bool => ("1", Rule::WrongType),
            Kind::Uint => ("1.5", Rule::NotAWholeNumber),
            Kind::Double => ("\"much\"", Rule::WrongType),
            Kind::Bytes | Kind::QueueSize | Kind::DataRate | Kind::TimeVal => ("150", Rule::WrongQuantity),
            Kind::String(_) => ("true", Rule::WrongType),
        };
        let found = wrong(&line(attribute, text)).remove(0);
        assert_eq!((found.rule, found.key.as_str()), (rule, attribute.full), "{found}");
        let found = wrong(&line(attribute, "[1]")).remove(0);
        assert_eq!(found.rule, Rule::WrongType, "{found}");
    }
}
