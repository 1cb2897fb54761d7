//! docs/configuration.md, from the table.

use super::rule::{Rule, Severity};
use super::table::{Attribute, attributes};
use super::value::Kind;

/// What stands before the tables.
const HEAD: &str = include_str!("docs_head.md");
/// What stands between the tables of attributes and those of rules.
const RULES: &str = include_str!("docs_rules.md");

/// The whole document, in Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = HEAD.to_owned();
    let mut group = ("", [""; 0].as_slice());
    for attribute in attributes() {
        if group.0 != attribute.section {
            text += &format!("\n## `[{}]`\n", attribute.section);
        }
        if group != (attribute.section, attribute.path) {
            group = (attribute.section, attribute.path);
            text += &head(attribute);
        }
        text += &row(attribute);
    }
    text += RULES;
    for (severity, title) in [(Severity::Stops, "stop a NIC"), (Severity::Warns, "warn")] {
        text += &format!("\n### Rules that {title}\n\n| rule | broken when |\n|---|---|\n");
        for rule in Rule::ALL.iter().filter(|rule| rule.severity() == severity) {
            text += &format!("| `{rule}` | {} |\n", rule.about());
        }
    }
    text
}

/// The head of a table: where its attributes are in the documentation.
fn head(attribute: &Attribute) -> String {
    let place = match (attribute.is_documented(), attribute.path) {
        (false, _) => "Ours: the documentation does not have them.".to_owned(),
        (true, []) => "At the NIC's top level.".to_owned(),
        (true, path) => path.iter().map(|component| format!("`{component}`")).collect::<Vec<_>>().join(" > "),
    };
    format!(
        "\n{place}\n\n| key | attribute | type | default | values | what it is | acts on |\n|---|---|---|---|---|---|---|\n"
    )
}

fn row(attribute: &Attribute) -> String {
    let Attribute { key, name, kind, default, range, about, acts, .. } = attribute;
    let name = if attribute.is_documented() { format!("`{name}`") } else { String::new() };
    let range = match kind {
        Kind::String(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        _ => range.to_string(),
    };
    format!("| `{key}` | {name} | {} | `{default}` | {range} | {about} | {acts} |\n", kind.name())
}
