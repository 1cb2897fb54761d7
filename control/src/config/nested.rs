//! The nested form of the documentation's API: components in each other, and each attribute an object with `value`, `unit` and `type`.

use super::rule::{Finding, Rule};
use super::table::{Acts, Attribute, attributes, nearest};
use super::value::{Kind, Value};
use super::{Config, Loaded, Place};
use serde_json::{Map, Number, Value as Json, json};

/// What an attribute's object may have besides, as the API shows it; it sets nothing.
const SHOWN: [&str; 6] = ["default", "description", "min", "max", "enum", "readonly"];

/// A configuration in the nested form, complete. What is not of the documentation is left out.
#[must_use]
pub fn export(config: &Config) -> Json {
    let mut root = Map::new();
    for attribute in attributes().filter(|attribute| attribute.is_documented()) {
        let mut object = &mut root;
        for &component in attribute.path {
            let inner = object.entry(component).or_insert_with(|| json!({}));
            object = inner.as_object_mut().expect("a component has no attribute's name");
        }
        object.insert(attribute.name.to_owned(), exported(attribute, config));
    }
    Json::Object(root)
}

fn exported(attribute: &Attribute, config: &Config) -> Json {
    let kind = attribute.kind;
    let mut object = match (kind.units(), attribute.get(config)) {
        (Some(_), Value::Text(text)) => {
            let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
            // What is written in digits is a JSON number.
            json!({ "value": number.parse::<Number>().ok(), "unit": unit, "type": kind.name() })
        }
        (_, Value::Bool(bool)) => json!({ "value": bool, "type": kind.name() }),
        (_, Value::Integer(number)) => json!({ "value": number, "type": kind.name() }),
        (_, Value::Decimal(number)) => json!({ "value": number, "type": kind.name() }),
        (_, Value::Text(text)) => json!({ "value": text, "type": kind.name() }),
    };
    if attribute.acts == Acts::ReadOnly {
        object["readonly"] = true.into();
    }
    object
}

/// A patch while it is read.
struct Reader {
    loaded: Loaded,
    /// Attributes that it has, read-only ones included.
    attributes: usize,
    wrong: Vec<Finding>,
}

impl Loaded {
    /// Reads the nested form, complete or a part of it; `name` is what messages call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn import(text: &str, name: &str) -> Result<Loaded, Vec<Finding>> {
        let loaded = Loaded { file: name.to_owned(), nested: true, ..Loaded::default() };
        let mut reader = Reader { loaded, attributes: 0, wrong: Vec::new() };
        match serde_json::from_str(text) {
            Ok(Json::Object(root)) => {
                reader.components(&mut Vec::new(), &root);
                if reader.attributes == 0 && reader.wrong.is_empty() {
                    reader.wrong(Rule::EmptyPatch, &[], "sets no attribute: give one at least".into());
                }
            }
            Ok(_) => reader.wrong(Rule::WrongNesting, &[], "is no object: give one, with components in it".into()),
            Err(error) => {
                let line = Some(error.line()).filter(|&line| line > 0);
                reader.wrong(Rule::Syntax, &[], error.to_string());
                reader.wrong.iter_mut().for_each(|finding| finding.line = line);
            }
        }
        if reader.wrong.is_empty() { reader.loaded.checked() } else { Err(reader.wrong) }
    }
}

impl Reader {
    fn wrong(&mut self, rule: Rule, path: &[&str], why: String) {
        self.wrong.push(Finding { rule, file: self.loaded.file.clone(), line: None, key: path.join("."), why });
    }

    fn components<'a>(&mut self, path: &mut Vec<&'a str>, object: &'a Map<String, Json>) {
        for (name, inner) in object {
            path.push(name);
            let attribute = attributes().find(|attribute| {
                attribute.is_documented() && path.split_last() == Some((&attribute.name, attribute.path))
            });
            match (attribute, inner) {
                (Some(attribute), Json::Object(object)) if !has_components(object) => {
                    self.attributes += 1;
                    if let Err((rule, why)) = self.attribute(attribute, object) {
                        self.wrong(rule, path, why);
                    }
                }
                (Some(_), _) => {
                    let why = "is an attribute: give an object with value, unit and type".into();
                    self.wrong(Rule::WrongNesting, path, why);
                }
                (None, Json::Object(object)) if is_component(path) => self.components(path, object),
                (None, Json::Object(object)) if is_empty(object) => {}
                (None, _) if is_component(path) => {
                    self.wrong(Rule::WrongNesting, path, "is a component: give an object with attributes".into());
                }
                (None, _) => self.unknown(path),
            }
            path.pop();
        }
    }

    fn attribute(&mut self, attribute: &'static Attribute, object: &Map<String, Json>) -> Result<(), (Rule, String)> {
        let strange = object.keys().find(|key| !["value", "unit", "type"].contains(&key.as_str()) && !is_shown(key));
        if let Some(key) = strange {
            return Err((
                Rule::WrongNesting,
                format!("has {key:?}, which no attribute has: give value, unit and type"),
            ));
        }
        let kind = attribute.kind;
        if object.get("type").and_then(Json::as_str) != Some(kind.name()) {
            let given = object.get("type").map_or("missing".to_owned(), Json::to_string);
            return Err((Rule::OtherType, format!("the type is {given}: give {:?}", kind.name())));
        }
        let value = value(kind, object)?;
        // A complete form has what can only be read, and says so.
        let shown = object.get("readonly") == Some(&Json::Bool(true));
        if attribute.acts == Acts::ReadOnly && shown && value == attribute.get(&self.loaded.config) {
            return Ok(());
        }
        attribute.set(&mut self.loaded.config, &value)?;
        self.loaded.set.insert(attribute.full, Place::Form);
        Ok(())
    }

    fn unknown(&mut self, path: &[&str]) {
        let names = attributes().filter(|attribute| attribute.is_documented()).map(Attribute::document_name);
        let hint = match nearest(&path.join("."), names.chain(component_names())) {
            Some(name) => format!("did you mean {name}?"),
            None => "mrcnic config docs lists all of them".to_owned(),
        };
        self.wrong(Rule::UnknownAttribute, path, format!("there is no such attribute or component; {hint}"));
    }
}

/// The value of an attribute's object; a number and its unit are one text.
fn value(kind: Kind, object: &Map<String, Json>) -> Result<Value, (Rule, String)> {
    let unit = object
        .get("unit")
        .map(|unit| unit.as_str().ok_or_else(|| (Rule::WrongQuantity, format!("has the unit {unit}"))));
    let unit = unit.transpose()?;
    let value = match object.get("value") {
        Some(Json::Bool(bool)) => Value::Bool(*bool),
        Some(Json::String(text)) if kind.units().is_some() => {
            return Err((Rule::WrongQuantity, format!("{text:?} is no number: give the number without quotes")));
        }
        Some(Json::String(text)) => Value::Text(text.clone()),
        Some(Json::Number(number)) if kind.units().is_some() => {
            return Ok(Value::Text(format!("{}{}", digits(number), unit.unwrap_or_default())));
        }
        Some(Json::Number(number)) => {
            number.as_i64().map_or_else(|| Value::Decimal(number.as_f64().unwrap_or(f64::NAN)), Value::Integer)
        }
        _ => return Err((Rule::WrongType, format!("has no value: give one of the type {}", kind.name()))),
    };
    match unit {
        Some(unit) if kind.units().is_none() && !unit.is_empty() => {
            Err((Rule::WrongQuantity, format!("has the unit {unit:?}, and {} has none: take it away", kind.name())))
        }
        _ => Ok(value),
    }
}

/// A number in plain digits: 4.0 is 4.
fn digits(number: &Number) -> String {
    match number.as_f64() {
        Some(decimal) if number.is_f64() => format!("{decimal}"),
        _ => number.to_string(),
    }
}

fn is_shown(key: &str) -> bool {
    SHOWN.contains(&key)
}

/// Whether an object that stands for an attribute has components in it.
fn has_components(object: &Map<String, Json>) -> bool {
    object.iter().any(|(key, inner)| inner.is_object() && !is_shown(key) && key != "value")
}

/// Components without attributes are shown as empty objects.
fn is_empty(object: &Map<String, Json>) -> bool {
    object.values().all(|inner| inner.as_object().is_some_and(is_empty))
}

/// Whether there are attributes below a path.
fn is_component(path: &[&str]) -> bool {
    attributes().any(|attribute| attribute.path.starts_with(path))
}

fn component_names() -> impl Iterator<Item = String> {
    attributes().flat_map(|attribute| (1..=attribute.path.len()).map(|depth| attribute.path[..depth].join(".")))
}
