//! Packets a second, as people write them.

use std::fmt;
use std::str::FromStr;

/// The most that can be asked for: one packet a nanosecond.
const MAX: f64 = 1e9;

/// A rate in packets a second: `500`, `10k`, `2M`, `1.5Mpps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// Packets a second.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }

    /// When packet `index` (from 0) is due, in nanoseconds after the first.
    #[must_use]
    pub fn due(self, index: u64) -> u64 {
        // Whole nanoseconds are exact for the first 104 days.
        (index as f64 * 1e9 / self.0) as u64
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("{text:?} is not a rate: write packets a second, such as 500, 10k, 2M or 1.5Mpps");
        let bare = text.strip_suffix("pps").or_else(|| text.strip_suffix("/s")).unwrap_or(text).trim_end();
        let (digits, unit) = match bare.char_indices().last() {
            Some((at, 'k' | 'K')) => (&bare[..at], 1e3),
            Some((at, 'M')) => (&bare[..at], 1e6),
            Some((at, 'G')) => (&bare[..at], 1e9),
            _ => (bare, 1.0),
        };
        let digits = digits.trim_end();
        // What else a float may be (1e3, inf, nan, a sign) is no rate.
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(wrong());
        }
        let rate = digits.parse::<f64>().map_err(|_| wrong())? * unit;
        if rate < 0.001 {
            return Err(format!("{text:?} is no rate to replay at: the least is 0.001 packets a second"));
        }
        if rate > MAX {
            return Err(format!(
                "{text:?} is more than 1G packets a second; without --rate, replay goes as fast as it can"
            ));
        }
        Ok(Rate(rate))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            rate if rate >= 1e6 => (rate / 1e6, "M"),
            rate if rate >= 1e3 => (rate / 1e3, "k"),
            rate => (rate, ""),
        };
        // Three figures, without zeros at the end.
        let figures = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        let text = format!("{value:.figures$}");
        let text = if figures > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(f, "{text}{unit} packets/s")
    }
}

/// A rate that was measured.
pub(super) fn measured(packets: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { packets as f64 / seconds } else { 0.0 }
}

/// A measured rate in words.
pub(super) fn words(per_second: f64) -> String {
    Rate(per_second).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_units() {
        for (text, rate) in [
            ("500", 500.0),
            ("500pps", 500.0),
            ("10k", 1e4),
            ("10K/s", 1e4),
            ("2M", 2e6),
            ("1.5Mpps", 1.5e6),
            ("1 Mpps", 1e6),
            ("0.5", 0.5),
            ("1G", 1e9),
        ] {
            assert_eq!(text.parse::<Rate>().expect(text).per_second(), rate, "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_a_word() {
        for text in
            ["", "k", "pps", "-1", "+1", "1e3", "inf", "NaN", "1.2.3", "10m", "10 kilo", "0", "0.0k", "2G", "ä", "1é"]
        {
            let said = text.parse::<Rate>().expect_err(text);
            assert!(said.contains(&format!("{text:?}")), "{said}");
        }
    }

    #[test]
    fn packets_are_due_at_even_distances() {
        let rate: Rate = "4M".parse().expect("a rate");
        assert_eq!([0, 1, 4, 4_000_000].map(|i| rate.due(i)), [0, 250, 1_000, 1_000_000_000]);
    }

    #[test]
    fn rates_are_shown_in_three_figures() {
        for (rate, text) in [(0.5, "0.5"), (999.0, "999"), (1_500.0, "1.5k"), (123_456.0, "123k"), (2e6, "2M")] {
            assert_eq!(Rate(rate).to_string(), format!("{text} packets/s"));
        }
    }
}
