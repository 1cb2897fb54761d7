//! Reads metrics as strictly as OpenMetrics asks for: what Prometheus would not take, or promtool would complain of, is an error.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of a family before its samples.
#[derive(Default)]
struct Family {
    kind: Option<String>,
    help: bool,
    unit: Option<String>,
    samples: usize,
}

/// All series and their values.
pub(crate) struct Exposition {
    series: BTreeMap<String, f64>,
    counters: BTreeSet<String>,
    names: BTreeSet<String>,
}

fn is_name(name: &str, colons: bool) -> bool {
    let fits = |(n, c): (usize, char)| {
        c.is_ascii_alphabetic() || c == '_' || (colons && c == ':') || (n > 0 && c.is_ascii_digit())
    };
    !name.is_empty() && name.chars().enumerate().all(fits)
}

/// Labels and their values.
type Labels = Vec<(String, String)>;

/// `name{label="value",..}` and what is after it.
fn series(line: &str) -> Result<(String, Labels, &str), String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().ok_or("a value without an end")? {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next() {
                        Some((_, c @ ('\\' | '"' | 'n'))) => value.push(c),
                        other => return Err(format!("a wrong escape: {other:?}")),
                    },
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    Ok((name.to_owned(), labels, rest.strip_prefix(' ').ok_or("no blank before the value")?))
}

impl Exposition {
    /// Reads a whole text.
    pub(crate) fn parse(text: &str) -> Result<Exposition, String> {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current = String::new();
        let mut found = Exposition { series: BTreeMap::new(), counters: BTreeSet::new(), names: BTreeSet::new() };
        let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
        for (n, line) in body.lines().enumerate() {
            let fault = |why: &str| format!("line {}: {why}: {line}", n + 1);
            if let Some(meta) = line.strip_prefix("# ") {
                let mut words = meta.splitn(3, ' ');
                let (what, name, text) = (words.next(), words.next(), words.next());
                let (Some(what), Some(name), Some(text)) = (what, name, text) else { return Err(fault("no metadata")) };
                if !is_name(name, true) {
                    return Err(fault("a name that is none"));
                }
                if name != current {
                    if families.contains_key(name) {
                        return Err(fault("a family that is in two places"));
                    }
                    name.clone_into(&mut current);
                }
                let family = families.entry(name.to_owned()).or_default();
                if family.samples > 0 {
                    return Err(fault("metadata behind samples"));
                }
                let twice = match what {
                    "HELP" if text.ends_with('.') => std::mem::replace(&mut family.help, true),
                    "TYPE" if matches!(text, "counter" | "gauge") => family.kind.replace(text.into()).is_some(),
                    "UNIT" if name.ends_with(&format!("_{text}")) && matches!(text, "seconds" | "bytes") => {
                        family.unit.replace(text.into()).is_some()
                    }
                    _ => return Err(fault("metadata that is none of ours")),
                };
                if twice {
                    return Err(fault("metadata that is there twice"));
                }
                continue;
            }
            let (name, labels, value) = series(line).map_err(|why| fault(&why))?;
            let family = families.get_mut(&current).ok_or_else(|| fault("a sample before any family"))?;
            let kind = family.kind.as_deref().ok_or_else(|| fault("no TYPE before it"))?;
            let suffix = if kind == "counter" { "_total" } else { "" };
            if name != format!("{current}{suffix}") || !name.starts_with("mrcnic_") || !family.help {
                return Err(fault("a sample that is not of the family above it, or has no HELP"));
            }
            let value: f64 = value.parse().map_err(|_| fault("no number"))?;
            if !value.is_finite() || value < 0.0 || (kind == "counter" && value.fract() != 0.0) {
                return Err(fault("a value that none of ours has"));
            }
            let names: BTreeSet<&String> = labels.iter().map(|(label, _)| label).collect();
            if names.len() != labels.len()
                || names.iter().any(|label| !is_name(label, false) || label.starts_with("__"))
            {
                return Err(fault("labels that are wrong or there twice"));
            }
            // Base units, and no abbreviations of them.
            if ["_ns", "_us", "_ms", "_kib", "_bits", "_percent"].iter().any(|unit| current.ends_with(unit)) {
                return Err(fault("no base unit"));
            }
            family.samples += 1;
            found.names.insert(name.clone());
            let key = line[..line.rfind(' ').unwrap_or(line.len())].to_owned();
            if kind == "counter" {
                found.counters.insert(key.clone());
            }
            if found.series.insert(key, value).is_some() {
                return Err(fault("a series that is there twice"));
            }
        }
        match families.iter().find(|(_, family)| family.samples == 0) {
            Some((name, _)) => Err(format!("{name} has no samples")),
            None => Ok(found),
        }
    }

    /// The value of a series, written as in the text.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.series.get(series).copied()
    }

    /// The names before the labels.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// All counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&str, f64)> + '_ {
        self.counters.iter().map(|series| (series.as_str(), self.series[series]))
    }
}

#[test]
fn a_text_that_prometheus_would_not_take_is_an_error() {
    let head = "# HELP mrcnic_a_seconds A.\n# TYPE mrcnic_a_seconds gauge\n# UNIT mrcnic_a_seconds seconds\n";
    let good = format!("{head}mrcnic_a_seconds{{nic=\"a\\\"\"}} 0.5\nmrcnic_a_seconds{{nic=\"b\"}} 1\n# EOF\n");
    assert_eq!(Exposition::parse(&good).unwrap().value("mrcnic_a_seconds{nic=\"b\"}"), Some(1.0));
    let wrong = [
        format!("{head}mrcnic_a_seconds 1\n"),
        format!("{head}mrcnic_a_seconds 1\nmrcnic_a_seconds 2\n# EOF\n"),
        format!("{head}mrcnic_b_seconds 1\n# EOF\n"),
        format!("{head}mrcnic_a_seconds inf\n# EOF\n"),
        format!("{head}mrcnic_a_seconds{{x=\"1\",x=\"2\"}} 1\n# EOF\n"),
        format!("{head}mrcnic_a_seconds{{0x=\"1\"}} 1\n# EOF\n"),
        format!("{head}mrcnic_a_seconds 1\n# TYPE mrcnic_a_seconds gauge\n# EOF\n"),
        format!("{head}# EOF\n"),
        "mrcnic_a 1\n# EOF\n".to_owned(),
        "# HELP mrcnic_a A.\nmrcnic_a 1\n# TYPE mrcnic_a gauge\n# EOF\n".to_owned(),
        "# HELP mrcnic_a A.\n# TYPE mrcnic_a counter\nmrcnic_a 1\n# EOF\n".to_owned(),
        "# HELP mrcnic_a_us A.\n# TYPE mrcnic_a_us gauge\nmrcnic_a_us 1\n# EOF\n".to_owned(),
    ];
    for text in wrong {
        assert!(Exposition::parse(&text).is_err(), "{text}");
    }
}
