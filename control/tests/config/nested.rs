//! The nested form of the documentation's API.

use super::{read, rules_of};
use control::config::{Acts, Attribute, Config, Kind, Loaded, Rule, Value, attributes, export};
use proptest::prelude::*;
use serde_json::json;

/// A larger transmit buffer, no spraying, a longer timeout: the documentation's example of a patch.
pub(super) const PATCH: &str = r#"{
  "NetworkInterface": { "EgressBufferManager": { "TotalBufferSize": { "value": 512, "unit": "KB", "type": "bytes" } } },
  "ScalaMrcQpManager": {
    "PacketSprayingType": { "value": "None", "type": "string" },
    "InitialAckTimeout": { "value": 200, "unit": "us", "type": "timeval" }
  }
}"#;

/// The same as a file.
pub(super) const PATCH_FILE: &str = r#"[network_interface.egress_buffer]
total_buffer_size = "512KB"

[qp_manager]
packet_spraying_type = "None"
initial_ack_timeout = "200us"
"#;

fn import(text: &str) -> Result<Loaded, Vec<control::config::Finding>> {
    Loaded::import(text, "params.json")
}

#[test]
fn the_documented_patch_becomes_a_file_that_says_the_same() {
    let patch = import(PATCH).unwrap();
    assert_eq!(patch.toml(), PATCH_FILE);
    assert_eq!(read(PATCH_FILE).config, patch.config);
    assert_eq!(patch.config.setup().nic.transport.initial_ack_timeout_ns, 200_000);
}

#[test]
fn what_is_exported_is_complete_and_has_the_documented_shape() {
    let whole = export(&Config::default());
    let at = |path: &str| whole.pointer(path).cloned();
    let lanes = "/HostInterface/NICSide/PCIeGen3.0/NicDeviceLayer/NicPCIeInterface/PhysicalLayer/LaneBps";
    assert_eq!(at(lanes), Some(json!({ "value": 31.52, "unit": "Gbps", "type": "datarate" })));
    assert_eq!(at("/ScalaMrcQpManager/MSS"), Some(json!({ "value": 4096, "type": "uint" })));
    assert_eq!(at("/ScalaMrcNscc/ConfigBaseRTT"), Some(json!({ "value": 6, "unit": "us", "type": "timeval" })));
    assert_eq!(at("/NumDownLinks"), Some(json!({ "value": 1, "type": "uint", "readonly": true })));
    for attribute in attributes().filter(|attribute| attribute.is_documented()) {
        let path = attribute.path.iter().chain([&attribute.name]).map(|step| format!("/{step}")).collect::<String>();
        assert_eq!(at(&path).unwrap()["type"], attribute.kind.name(), "{path}");
    }
    assert!(whole.get("model").is_none() && whole.get("").is_none());
}

/// A value that an attribute takes, drawn by a number; it breaks no rule with any other.
fn drawn(attribute: &Attribute, seed: u64) -> Value {
    let lists = |texts: &[&str]| Value::Text(texts[seed as usize % texts.len()].to_owned());
    let number = |text: Option<&str>, open: f64| text.map_or(open, |text| text.parse().unwrap());
    match (attribute.kind, attribute.key) {
        (Kind::Bool, _) => Value::Bool(seed % 2 == 1),
        (Kind::Uint, key) => {
            let most = match key {
                "starting_port_offset" => 65_280.0,
                "mss" => 16_384.0,
                _ => number(attribute.range.max, i64::MAX as f64),
            };
            let least = number(attribute.range.min, 0.0) as u64;
            Value::Integer((least + seed % (most as u64 - least + 1).max(1)) as i64)
        }
        (Kind::Double, _) => {
            let (min, max) = (number(attribute.range.min, 0.0), number(attribute.range.max, 1.0));
            Value::Decimal((min + (max - min) * (seed as f64 / u64::MAX as f64)).clamp(min, max))
        }
        (Kind::Bytes | Kind::QueueSize, _) => Value::Text(format!("{}B", seed >> (seed % 64))),
        (Kind::DataRate, _) => {
            let bits = 1 + (seed >> (seed % 40)) % 8_000_000_000_000;
            Value::Text(format!("{}.{:06}Mbps", bits / 1_000_000, bits % 1_000_000))
        }
        // 10 us to 8 s, of whole picoseconds.
        (Kind::TimeVal, _) => Value::Text(format!("{}ps", 10_000_000 + (seed >> (seed % 40)) % 7_999_990_000_001)),
        (Kind::String([]), "monitor_triggers") => lists(&["None", "trim", "rto, nack", "trim,nack,qp_error,rto"]),
        (Kind::String([]), "filter_node_id") => lists(&["All", "0", "3,4294967295"]),
        (Kind::String([]), key) if key.ends_with("endpoint") => lists(&["All", "10.0.0.1:17", "10.0.0.1:1, 1.2.3.4:0"]),
        (Kind::String([]), _) => lists(&["All", "10.0.0.1", "10.0.0.1,255.255.255.255"]),
        (Kind::String(names), _) => lists(names),
    }
}

fn configs() -> impl Strategy<Value = Config> {
    let count = attributes().count();
    proptest::collection::vec(proptest::option::of(any::<u64>()), count).prop_map(|seeds| {
        let mut config = Config::default();
        for (attribute, seed) in attributes().zip(seeds) {
            let sets = attribute.is_documented() && attribute.acts != Acts::ReadOnly;
            if let Some(seed) = seed.filter(|_| sets) {
                attribute
                    .set(&mut config, &drawn(attribute, seed))
                    .unwrap_or_else(|e| panic!("{}: {e:?}", attribute.full));
            }
        }
        config
    })
}

proptest! {
    #[test]
    fn what_was_exported_is_imported_as_it_was(config in configs()) {
        let imported = import(&export(&config).to_string()).unwrap();
        prop_assert_eq!(&imported.config, &config);
        // And as a file.
        prop_assert_eq!(&read(&imported.toml()).config, &config);
        prop_assert_eq!(config.setup().nic.validate(), Ok(()));
    }

    #[test]
    fn no_text_is_too_strange_for_the_readers(text in "[a-z_.\\[\\]{}:=\"0-9\n ]{0,80}") {
        let _ = Loaded::read(&text, "nic.toml");
        let _ = import(&text);
    }
}

#[test]
fn what_the_api_shows_of_attributes_is_passed_over() {
    let shown = r#"{
        "NumDownLinks": { "value": 1, "type": "uint", "readonly": true },
        "TransportProcessingLayers": { "A": {}, "B": {} },
        "ScalaMrcPCIePayloadFetchManager": {},
        "ScalaMrcQpManager": {
            "MSS": { "value": 1024, "type": "uint", "default": 4096, "min": 1, "description": "text", "enum": [] },
            "PacketSprayingType": { "value": "None", "type": "string", "default": { "value": 1 } }
        }
    }"#;
    assert_eq!(import(shown).unwrap().toml(), "[qp_manager]\nmss = 1024\npacket_spraying_type = \"None\"\n");
}

#[test]
fn what_is_no_patch_is_refused_by_its_rule() {
    for (rule, text, words) in [
        (Rule::Syntax, "{", "params.json:1:"),
        (Rule::EmptyPatch, "{}", "sets no attribute"),
        (Rule::EmptyPatch, r#"{"ScalaMrcNscc":{}}"#, "sets no attribute"),
        (Rule::WrongNesting, "[1]", "is no object"),
        (Rule::WrongNesting, r#"{"ScalaMrcQpManager":{"MSS":1024}}"#, "ScalaMrcQpManager.MSS: is an attribute"),
        (Rule::WrongNesting, r#"{"ScalaMrcQpManager":{"MSS":{"MSS":{}}}}"#, "is an attribute"),
        (Rule::WrongNesting, r#"{"ScalaMrcQpManager":1}"#, "is a component"),
        (Rule::WrongNesting, r#"{"ScalaMrcQpManager":{"MSS":{"value":1,"type":"uint","colour":1}}}"#, "\"colour\""),
        (
            Rule::UnknownAttribute,
            r#"{"ScalaMrcQpManager":{"MaxPsnRange":{"value":1,"type":"uint"}}}"#,
            "did you mean ScalaMrcQpManager.MaxPSNRange?",
        ),
        (
            Rule::UnknownAttribute,
            r#"{"ScalaMrcNsc":{"PassThrough":{"value":true,"type":"bool"}}}"#,
            "did you mean ScalaMrcNscc?",
        ),
        (
            Rule::UnknownAttribute,
            r#"{"NetworkInterface":{"IngressBufferManager":{"MSS":{"value":1,"type":"uint"}}}}"#,
            "did you mean ScalaMrcQpManager.MSS?",
        ),
        (Rule::ReadOnly, r#"{"NumDownLinks":{"value":1,"type":"uint"}}"#, "NumDownLinks can be read"),
        (Rule::ReadOnly, r#"{"NumDownLinks":{"value":2,"type":"uint","readonly":true}}"#, "NumDownLinks can be read"),
        (Rule::OtherType, r#"{"ScalaMrcQpManager":{"MSS":{"value":1}}}"#, "the type is missing: give \"uint\""),
        (
            Rule::OtherType,
            r#"{"ScalaMrcQpManager":{"MSS":{"value":1,"type":"double"}}}"#,
            "the type is \"double\": give \"uint\"",
        ),
        (
            Rule::WrongQuantity,
            r#"{"ScalaMrcQpManager":{"InitialAckTimeout":{"value":1,"type":"timeval"}}}"#,
            "has no unit",
        ),
        (
            Rule::WrongQuantity,
            r#"{"ScalaMrcQpManager":{"InitialAckTimeout":{"value":1,"unit":"KB","type":"timeval"}}}"#,
            "give one of ps, ns",
        ),
        (
            Rule::WrongQuantity,
            r#"{"ScalaMrcQpManager":{"InitialAckTimeout":{"value":"1","unit":"us","type":"timeval"}}}"#,
            "without quotes",
        ),
        (Rule::WrongQuantity, r#"{"ScalaMrcQpManager":{"MSS":{"value":1,"unit":"B","type":"uint"}}}"#, "take it away"),
        (Rule::NotAWholeNumber, r#"{"ScalaMrcQpManager":{"MSS":{"value":1.5,"type":"uint"}}}"#, "whole number"),
        (Rule::NotAWholeNumber, r#"{"ScalaMrcQpManager":{"MSS":{"value":-1,"type":"uint"}}}"#, "whole number"),
        (
            Rule::WrongType,
            r#"{"ScalaMrcNscc":{"PassThrough":{"value":"true","type":"bool"}}}"#,
            "neither true nor false",
        ),
        (Rule::WrongType, r#"{"ScalaMrcNscc":{"PassThrough":{"type":"bool"}}}"#, "has no value"),
        (Rule::OutOfRange, r#"{"ScalaMrcQpManager":{"MSS":{"value":0,"type":"uint"}}}"#, "MSS takes 1 or more"),
        (
            Rule::NoSuchChoice,
            r#"{"ScalaMrcQpManager":{"PacketSprayingType":{"value":"Some","type":"string"}}}"#,
            "is none of",
        ),
        (Rule::ShellCharacter, r#"{"ScalaMrcMonitor":{"FilterNodeId":{"value":"1&2","type":"string"}}}"#, "'&'"),
    ] {
        let found = import(text).unwrap_err();
        assert_eq!(rules_of(&found), [rule], "{text}: {found:?}");
        assert!(found[0].to_string().contains(words), "{text}: {}", found[0]);
    }
}
