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
