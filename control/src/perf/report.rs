//! What was measured: JSON and a table.

use super::settings::{Mode, Settings};
use crate::text::{bytes, grouped};
use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The result of a measurement, alike at both ends. Its JSON is read by other programs: fields are only ever added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// `client` or `server`: who prints it.
    pub role: &'static str,
    /// `bandwidth` or `latency`.
    pub mode: Mode,
    /// What each message was, `write` or `write_imm`.
    pub op: &'static str,
    /// Both ends sent at the same time.
    pub bidirectional: bool,
    /// QPs of each end.
    pub qps: usize,
    /// Messages in flight on each QP at most.
    pub tx_depth: usize,
    /// Payload of a packet in bytes.
    pub mss: u32,
    /// The client's IP address.
    pub client: String,
    /// The server's.
    pub server: String,
    /// One entry a size, in the order of the sizes.
    pub results: Vec<SizeResult>,
    /// It was interrupted: the last size is not measured to its end.
    pub interrupted: bool,
}

/// What was measured at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeResult {
    /// Bytes of a message.
    pub size: u32,
    /// Messages a second, those of both directions together; of a latency, there and back again is one.
    pub msg_per_s: f64,
    /// Payload in Gbit/s, that of both directions together.
    pub goodput_gbps: f64,
    /// The same in 10^6 bytes a second.
    pub mbytes_per_s: f64,
    /// From the client to the server.
    pub to_server: Direction,
    /// From the server to the client, where that one sends.
    pub to_client: Option<Direction>,
    /// One way, of a latency.
    pub latency_us: Option<Latency>,
}

/// What one end sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Messages that completed.
    pub messages: u64,
    /// From the first post to the last completion.
    pub seconds: f64,
    /// Data packets sent again.
    pub retransmits: u64,
    /// Whether every byte was where it belongs; `null` where nobody looked.
    pub verified: Option<bool>,
}

/// Latency of one way in microseconds: half of there and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// Half are shorter.
    pub p50: f64,
    /// The mean.
    pub avg: f64,
    /// 99 in 100 are shorter.
    pub p99: f64,
    /// 999 in 1,000 are shorter.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of round trips in nanoseconds; `None` when there was none.
    pub(super) fn of(round_trips: &Histogram<u64>) -> Option<Latency> {
        if round_trips.is_empty() {
            return None;
        }
        let us = |ns: f64| (ns / 2.0).round() / 1e3;
        let quantile = |q: f64| us(round_trips.value_at_quantile(q) as f64);
        Some(Latency {
            min: us(round_trips.min() as f64),
            p50: quantile(0.5),
            avg: us(round_trips.mean()),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(round_trips.max() as f64),
        })
    }
}

impl SizeResult {
    pub(super) fn of(
        size: u32,
        to_server: Direction,
        to_client: Option<Direction>,
        latency_us: Option<Latency>,
    ) -> SizeResult {
        let rate = |d: &Direction| if d.seconds > 0.0 { d.messages as f64 / d.seconds } else { 0.0 };
        // Of a latency the messages back are half of the same exchange.
        let back = to_client.as_ref().filter(|_| latency_us.is_none());
        let msg_per_s = rate(&to_server) + back.map_or(0.0, rate);
        let bytes_per_s = msg_per_s * f64::from(size);
        SizeResult {
            size,
            msg_per_s,
            goodput_gbps: bytes_per_s * 8.0 / 1e9,
            mbytes_per_s: bytes_per_s / 1e6,
            to_server,
            to_client,
            latency_us,
        }
    }

    fn directions(&self) -> impl Iterator<Item = &Direction> {
        std::iter::once(&self.to_server).chain(&self.to_client)
    }

    /// Whether every byte that somebody looked at was where it belongs.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.directions().all(|direction| direction.verified != Some(false))
    }
}

impl Report {
    pub(super) fn new(role: &'static str, settings: &Settings) -> Report {
        Report {
            schema: 1,
            role,
            mode: settings.mode,
            op: if settings.immediate { "write_imm" } else { "write" },
            bidirectional: settings.bidirectional,
            qps: settings.qps,
            tx_depth: settings.depth,
            mss: 0,
            client: String::new(),
            server: String::new(),
            results: Vec::new(),
            interrupted: false,
        }
    }

    /// Writes the table for people.
    ///
    /// # Errors
    /// What `out` says.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        match self.mode {
            Mode::Bandwidth => {
                table.set_header(["size", "messages", "seconds", "Mmsg/s", "Gbit/s", "MB/s", "resent", "verified"])
            }
            Mode::Latency => {
                table.set_header(["size", "messages", "min", "p50", "avg", "p99", "p99.9", "max", "resent", "verified"])
            }
        };
        for result in &self.results {
            table.add_row(self.row(result));
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")?;
        if self.mode == Mode::Latency {
            writeln!(out, "microseconds one way: half of the time from a post to when the answer was seen in memory")?;
        }
        if self.bidirectional {
            writeln!(out, "both directions together")?;
        }
        if self.interrupted {
            writeln!(out, "interrupted: the last size is not measured to its end")?;
        }
        Ok(())
    }

    fn row(&self, result: &SizeResult) -> Vec<String> {
        let messages = grouped(result.directions().map(|d| d.messages).sum());
        let resent = grouped(result.directions().map(|d| d.retransmits).sum());
        let verified = match result.to_server.verified {
            None => "-",
            Some(_) if result.is_right() => "yes",
            Some(_) => "no",
        };
        let mut row = vec![bytes(result.size as usize), messages];
        match self.mode {
            Mode::Bandwidth => {
                let seconds = result.directions().map(|d| d.seconds).fold(0.0, f64::max);
                row.extend([
                    format!("{seconds:.3}"),
                    format!("{:.4}", result.msg_per_s / 1e6),
                    format!("{:.2}", result.goodput_gbps),
                    format!("{:.1}", result.mbytes_per_s),
                ]);
            }
            Mode::Latency => {
                let us = |us: f64| format!("{us:.2}");
                match &result.latency_us {
                    Some(l) => row.extend([l.min, l.p50, l.avg, l.p99, l.p999, l.max].map(us)),
                    None => row.extend(["-"; 6].map(str::to_owned)),
                }
            }
        }
        row.extend([resent, verified.to_owned()]);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Asked;
    use super::*;

    fn direction(messages: u64, seconds: f64, verified: Option<bool>) -> Direction {
        Direction { messages, seconds, retransmits: 0, verified }
    }

    #[test]
    fn rates_of_both_directions_add_up_and_one_that_is_wrong_makes_all_wrong() {
        let one = SizeResult::of(1000, direction(100, 2.0, None), None, None);
        assert_eq!((one.msg_per_s, one.mbytes_per_s, one.goodput_gbps, one.is_right()), (50.0, 0.05, 0.0004, true));
        let back = direction(100, 1.0, Some(false));
        let both = SizeResult::of(1000, direction(100, 2.0, Some(true)), Some(back), None);
        assert_eq!((both.msg_per_s, both.is_right()), (150.0, false));
    }

    #[test]
    fn a_latency_is_half_of_each_round_trip() {
        let mut trips = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        assert_eq!(Latency::of(&trips), None);
        for us in 1..=1000u64 {
            trips.record(2_000 * us).unwrap();
        }
        let latency = Latency::of(&trips).unwrap();
        assert!((latency.min, latency.max) == (1.0, 1000.4) || (latency.max - 1000.0).abs() < 1.0, "{latency:?}");
        for (value, about) in [(latency.p50, 500.0), (latency.avg, 500.5), (latency.p99, 990.0), (latency.p999, 999.0)]
        {
            assert!((value - about).abs() <= about / 500.0, "{latency:?}");
        }
    }

    #[test]
    fn a_report_keeps_its_shape() {
        let mut report = Report::new("client", &Asked::default().settle());
        report.results.push(SizeResult::of(64, direction(3, 1.0, None), None, None));
        let json = serde_json::to_value(&report).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&json), "bidirectional client interrupted mode mss op qps results role schema server tx_depth");
        assert_eq!(
            keys(&json["results"][0]),
            "goodput_gbps latency_us mbytes_per_s msg_per_s size to_client to_server"
        );
        assert_eq!(keys(&json["results"][0]["to_server"]), "messages retransmits seconds verified");
        assert_eq!((&json["mode"], &json["op"]), (&"bandwidth".into(), &"write".into()));
    }
}
