//! One attribute by an option of the command line: `--set KEY=VALUE`.

use super::file::{is_section, no_such_key, plain};
use super::rule::{Finding, Rule};
use super::table::{Attribute, find};
use super::value::{Kind, Refused, Value};
use super::{Loaded, Place};
use toml::de::DeValue;

/// The option, as messages name it in the place of a file.
pub(super) const OPTION: &str = "--set";

impl Loaded {
    /// The defaults, and attributes that are set by options: `KEY=VALUE` each.
    ///
    /// # Errors
    /// Everything that is wrong with the options.
    pub fn set_alone(sets: &[String]) -> Result<Loaded, Vec<Finding>> {
        Loaded::read_with("", OPTION, sets)
    }

    /// Sets an attribute as an option has it: its section and key, and a value as in TOML. A text needs no quotes.
    pub(super) fn set_option(&mut self, set: &str) -> Result<(), Finding> {
        let (key, text) = set.split_once('=').map_or((set, None), |(key, text)| (key, Some(text.trim())));
        let key = key.trim();
        self.set_key(key, text).map_err(|(rule, why)| Finding {
            rule,
            file: OPTION.to_owned(),
            line: None,
            key: key.to_owned(),
            why,
        })
    }

    fn set_key(&mut self, key: &str, text: Option<&str>) -> Result<(), Refused> {
        let Some(text) = text else {
            return Err((Rule::Syntax, "has no value: give KEY=VALUE, as in qp_manager.mss=1024".into()));
        };
        let Some(attribute) = find(key) else {
            return Err(if is_section(key) {
                (Rule::WrongNesting, format!("is a section and no key: name one of its keys, as in {key}.KEY=VALUE"))
            } else {
                (Rule::UnknownAttribute, no_such_key(key))
            });
        };
        let value = value(attribute, text)?;
        attribute.set(&mut self.config, &value)?;
        self.set.insert(attribute.full, Place::Option);
        Ok(())
    }
}

/// The value that a text is: one of TOML, or where it is none a bare text. An attribute that is a text takes what has no quotes as it is.
fn value(attribute: &Attribute, text: &str) -> Result<Value, Refused> {
    let bare = || Ok(Value::Text(text.to_owned()));
    let is_quoted = text.starts_with(['"', '\'']);
    if matches!(attribute.kind, Kind::String(_)) && !is_quoted {
        return bare();
    }
    match DeValue::parse(text) {
        Ok(value) => plain(value.get_ref())
            .ok_or_else(|| (Rule::WrongType, format!("{text} is no value of the type {}", attribute.kind.name()))),
        Err(error) if is_quoted => Err((Rule::Syntax, format!("{text} is no text: {}", error.message().trim_end()))),
        Err(_) => bare(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, text: &str) -> Result<Value, Rule> {
        value(find(key).unwrap(), text).map_err(|refused| refused.0)
    }

    #[test]
    fn values_are_those_of_toml_and_words_need_no_quotes() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        let timeout = |text: &str| read("qp_manager.initial_ack_timeout", text);
        assert_eq!(timeout("200us"), text("200us"));
        assert_eq!(timeout("\"200us\""), text("200us"));
        assert_eq!(timeout("'200us'"), text("200us"));
        assert_eq!(timeout("200"), Ok(Value::Integer(200)));
        assert_eq!(timeout("\"200us"), Err(Rule::Syntax));
        assert_eq!(timeout("[1]"), Err(Rule::WrongType));
        assert_eq!(read("nic.enable_monitor", "true"), Ok(Value::Bool(true)));
        assert_eq!(read("qp_manager.mss", "0x400"), Ok(Value::Integer(1024)));
        assert_eq!(read("nscc.eta_multiplier", "0.5"), Ok(Value::Decimal(0.5)));
        assert_eq!(read("qp_manager.packet_spraying_type", "Default Packet Spraying"), text("Default Packet Spraying"));
        assert_eq!(read("monitor.filter_node_id", "3"), text("3"));
        assert_eq!(read("monitor.filter_node_id", "\"3,4\""), text("3,4"));
        assert_eq!(read("qp_manager.mss", "1024\nmax_psn_range = 1"), text("1024\nmax_psn_range = 1"), "one value");
    }
}
