//! Configurations: the table against the documentation, files, the nested form, and what acts where.

mod acts;
mod behaves;
mod command;
mod documented;
mod nested;
mod observed;
mod records_act;
mod rules;
mod runs;
mod simulated;
mod walk;

use control::config::{Attribute, Finding, Loaded, Rule};

/// A file that is right.
fn read(text: &str) -> Loaded {
    Loaded::read(text, "nic.toml").unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"))
}

/// What is wrong with a file.
fn wrong(text: &str) -> Vec<Finding> {
    Loaded::read(text, "nic.toml").err().unwrap_or_default()
}

/// The line that sets an attribute.
fn line(attribute: &Attribute, value: &str) -> String {
    format!("{} = {value}", attribute.full)
}

/// The rules that findings are about.
fn rules_of(findings: &[Finding]) -> Vec<Rule> {
    findings.iter().map(|finding| finding.rule).collect()
}
