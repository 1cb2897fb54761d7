//! Counters and gauges of running NICs for Prometheus, in the text format of OpenMetrics 1.0, which Prometheus takes since 2.5.
//!
//! [`text`] makes them of a survey. An [`Operator`](super::Operator) gives them on the socket of operators, and [`MetricsServer`] over HTTP.

mod families;
mod http;

pub use families::{Family, Kind, families};
pub use http::{METRICS_CONNECTIONS_MAX, MetricsAddress, MetricsServer};

use super::SurveyReport;
use families::Number;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

/// What all names begin with.
const PREFIX: &str = "mrcnic";
/// What the text is, as HTTP says it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
struct Snapshot(SurveyReport);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for family in families() {
            let samples = family.samples(&self.0);
            // A name without a value says nothing.
            if samples.is_empty() {
                continue;
            }
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name(), &family.help, family.unit(), kind)?;
            for sample in samples {
                let mut line = metric.encode_family(&sample.labels)?;
                match (family.kind, sample.value) {
                    (Kind::Counter, Number::Count(count)) => line.encode_counter(&count, NONE)?,
                    (Kind::Counter, Number::Level(level)) => line.encode_counter(&level, NONE)?,
                    (Kind::Gauge, Number::Count(count)) => line.encode_gauge(&count)?,
                    (Kind::Gauge, Number::Level(level)) => line.encode_gauge(&level)?,
                }
            }
        }
        Ok(())
    }
}

const NONE: Option<&Exemplar<NoLabelSet, f64>> = None;

/// The metrics of all NICs of a survey.
#[must_use]
pub fn text(report: &SurveyReport) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Snapshot(report.clone())));
    let mut text = String::new();
    // Writing to a string does not fail, and nothing above does by itself.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{ControlCounters, NicReport, PortReport, QpStates};
    use std::collections::BTreeSet;

    /// The table of docs/metrics.md.
    fn table() -> String {
        let row = |family: &Family| {
            let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
            format!("| `{}` | {kind} | {} | {} |\n", family.full_name(), family.labels.join(", "), family.help)
        };
        let head = "| name | type | labels | meaning |\n|---|---|---|---|\n";
        families().iter().map(row).fold(head.to_owned(), |table, row| table + &row)
    }

    #[test]
    fn the_table_in_the_documentation_names_every_metric_as_it_is() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let table = table();
        assert!(page.contains(&table), "docs/metrics.md lacks this table:\n{table}");
    }

    fn nic(name: &str) -> NicReport {
        NicReport {
            name: name.into(),
            workers: 1,
            ports: vec![PortReport { port: 1, link: true, admin: false, in_use: false }],
            counters: [("rx_bytes".to_owned(), u64::MAX)].into(),
            drops: [("unknown_qp".to_owned(), 3)].into(),
            control: ControlCounters { probes: 7, ..ControlCounters::default() },
            qp_states: QpStates { rts: 2, ..QpStates::default() },
            ..NicReport::default()
        }
    }

    #[test]
    fn names_are_unique_and_every_metric_has_a_help_and_an_end_with_a_full_stop() {
        let families = families();
        let names: BTreeSet<String> = families.iter().map(Family::full_name).collect();
        assert_eq!(names.len(), families.len());
        for family in &families {
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\', '"', '|']), "{}", family.help);
        }
    }

    #[test]
    fn a_nic_without_destinations_has_its_counters_in_full_and_a_name_is_escaped() {
        let report = SurveyReport {
            version: "1".into(),
            uptime_us: 1_500_000.0,
            nics: vec![nic("a"), nic("b\"\\")],
            ..SurveyReport::default()
        };
        let text = text(&report);
        for line in [
            "mrcnic_uptime_seconds 1.5\n",
            "mrcnic_rx_bytes_total{nic=\"a\"} 18446744073709551615\n",
            "mrcnic_rx_frames_total{nic=\"a\"} 0\n",
            "mrcnic_drops_total{nic=\"a\",reason=\"unknown_qp\"} 3\n",
            "mrcnic_drops_total{nic=\"a\",reason=\"old_qp_generation\"} 0\n",
            "mrcnic_port_link_up{nic=\"b\\\"\\\\\",port=\"1\"} 1\n",
            "mrcnic_port_in_use{nic=\"a\",port=\"1\"} 0\n",
            "mrcnic_control_probes_total{nic=\"a\"} 7\n",
            "mrcnic_qps{nic=\"a\",state=\"rts\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is missing:\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("mrcnic_window_bytes"));
    }
}
