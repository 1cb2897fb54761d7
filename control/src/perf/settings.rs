//! What both ends do: the client says it, and the server agrees unless its own options say otherwise.

use crate::host::OFFER_QPS_MAX;
use crate::pattern::ALIGN;
use dataplane::transport::{MESSAGE_MAX, SEND_QUEUE_MAX};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Sizes of one measurement at most.
pub const SIZES_MAX: usize = 64;
/// Registered memory of each direction at most, in bytes.
const MEMORY_MAX: usize = 16 << 30;
/// Messages of a QP take turns in so many bytes, where they are smaller: a page, as with perftest.
const PLACES_BYTES: usize = 4_096;
/// Where memory is compared they have places of their own in so many.
const VERIFIED_PLACES_BYTES: usize = 4 << 20;
/// Longest time at a size.
const DURATION_MAX: Duration = Duration::from_secs(86_400);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Messages and bytes a second, with many in flight.
    Bandwidth,
    /// The time of one message, there and back.
    Latency,
}

impl Mode {
    const fn option(self) -> &'static str {
        match self {
            Mode::Bandwidth => "bandwidth",
            Mode::Latency => "latency (--lat)",
        }
    }
}

/// When a size is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After so many messages of each QP.
    Messages(u64),
    /// After so many milliseconds.
    Millis(u64),
}

impl Until {
    fn text(self) -> String {
        match self {
            Until::Messages(count) => format!("{count} messages (--iters)"),
            Until::Millis(ms) => format!("{} s (--duration)", ms as f64 / 1e3),
        }
    }

    /// Messages of each QP, where they are counted.
    pub(super) const fn messages(self) -> Option<u64> {
        match self {
            Until::Messages(count) => Some(count),
            Until::Millis(_) => None,
        }
    }

    /// The time, where it decides.
    pub(super) const fn time(self) -> Option<Duration> {
        match self {
            Until::Messages(_) => None,
            Until::Millis(ms) => Some(Duration::from_millis(ms)),
        }
    }
}

/// What both ends do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is measured.
    pub mode: Mode,
    /// Writes with Immediate, instead of plain Writes.
    pub immediate: bool,
    /// Both ends send at the same time.
    pub bidirectional: bool,
    /// Bytes of a message, one size after the other.
    pub sizes: Vec<u32>,
    /// QPs of each end.
    pub qps: usize,
    /// Messages in flight on each QP.
    pub depth: usize,
    /// When a size is over.
    pub until: Until,
    /// Every byte is checked at the end of a size.
    pub verify: bool,
}

/// What the options of an end say; `None` where they leave it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// As [`Settings::mode`].
    pub mode: Option<Mode>,
    /// As [`Settings::immediate`].
    pub immediate: Option<bool>,
    /// As [`Settings::bidirectional`].
    pub bidirectional: Option<bool>,
    /// As [`Settings::sizes`].
    pub sizes: Option<Vec<u32>>,
    /// As [`Settings::qps`].
    pub qps: Option<usize>,
    /// As [`Settings::depth`].
    pub depth: Option<usize>,
    /// As [`Settings::until`].
    pub until: Option<Until>,
    /// As [`Settings::verify`].
    pub verify: Option<bool>,
}

impl Asked {
    /// What a client does that is asked this.
    #[must_use]
    pub fn settle(&self) -> Settings {
        let mode = self.mode.unwrap_or(Mode::Bandwidth);
        let usual = match mode {
            Mode::Bandwidth => 65_536,
            Mode::Latency => 8,
        };
        Settings {
            mode,
            immediate: self.immediate.unwrap_or(false),
            bidirectional: self.bidirectional.unwrap_or(false),
            sizes: self.sizes.clone().unwrap_or_else(|| vec![usual]),
            qps: self.qps.unwrap_or(1),
            depth: self.depth.unwrap_or(128),
            until: self.until.unwrap_or(Until::Millis(2_000)),
            verify: self.verify.unwrap_or(false),
        }
    }

    /// What the server's options say otherwise than the client's `settings`.
    ///
    /// # Errors
    /// The first difference, with both ends' words and the way out.
    pub fn agrees(&self, settings: &Settings) -> Result<(), String> {
        let yes_no = |yes: bool| if yes { "given" } else { "not given" }.to_owned();
        let list = |sizes: &Vec<u32>| sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let pairs = [
            ("what is measured", self.mode.map(|m| m.option().to_owned()), settings.mode.option().to_owned()),
            ("--imm", self.immediate.map(yes_no), yes_no(settings.immediate)),
            ("--bidirectional", self.bidirectional.map(yes_no), yes_no(settings.bidirectional)),
            ("--size", self.sizes.as_ref().map(list), list(&settings.sizes)),
            ("--qp", self.qps.map(|n| n.to_string()), settings.qps.to_string()),
            ("--tx-depth", self.depth.map(|n| n.to_string()), settings.depth.to_string()),
            ("the end of a size", self.until.map(Until::text), settings.until.text()),
            ("--verify", self.verify.map(yes_no), yes_no(settings.verify)),
        ];
        for (what, server, client) in pairs {
            if let Some(server) = server.filter(|server| *server != client) {
                return Err(format!(
                    "{what} is {client} at the client and {server} at the server: give both the same, or leave it out at the server"
                ));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// What is wrong with them: a client's word is not taken on trust.
    ///
    /// # Errors
    /// In words, with the way out.
    pub fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes.len() > SIZES_MAX {
            return Err(format!("--size: {} sizes, give 1 to {SIZES_MAX}", self.sizes.len()));
        }
        if let Some(size) = self.sizes.iter().find(|&&size| size > MESSAGE_MAX) {
            return Err(format!("--size {size}: a message has 1 GiB at most"));
        }
        if self.qps == 0 || self.qps > OFFER_QPS_MAX {
            return Err(format!("--qp {}: give 1 to {OFFER_QPS_MAX}", self.qps));
        }
        if self.depth == 0 || self.depth > SEND_QUEUE_MAX {
            return Err(format!("--tx-depth {}: give 1 to {SEND_QUEUE_MAX}", self.depth));
        }
        match self.until {
            Until::Messages(0) => return Err("--iters 0: give one at least".into()),
            Until::Millis(ms) if ms == 0 || Duration::from_millis(ms) > DURATION_MAX => {
                return Err("--duration: give more than 0 and 86400 s at most".into());
            }
            _ => {}
        }
        if self.mode == Mode::Latency {
            if self.qps != 1 {
                return Err(format!("--lat has one QP: --qp {} does not go with it", self.qps));
            }
            if self.bidirectional {
                return Err("--lat goes back and forth: --bidirectional does not go with it".into());
            }
            if self.sizes.contains(&0) && !self.immediate {
                return Err("--lat looks for the last byte of a message, and one of 0 bytes has none: add --imm".into());
            }
        }
        let memory = self.area().saturating_mul(self.qps);
        if memory > MEMORY_MAX {
            return Err(format!(
                "{} QPs with messages of these sizes need {} GiB of memory, and {} is the most: give fewer QPs or smaller sizes",
                self.qps,
                memory.div_ceil(1 << 30),
                MEMORY_MAX >> 30
            ));
        }
        Ok(())
    }

    /// Places that the messages of a QP take in turn.
    pub(super) fn places(&self, size: u32) -> usize {
        match self.mode {
            Mode::Latency => 1,
            Mode::Bandwidth => {
                let bytes = if self.verify { VERIFIED_PLACES_BYTES } else { PLACES_BYTES };
                (bytes / (size as usize).max(1)).clamp(1, self.depth)
            }
        }
    }

    /// Bytes of memory of each QP.
    pub(super) fn area(&self) -> usize {
        let of = |&size: &u32| self.places(size).saturating_mul(size as usize);
        self.sizes.iter().map(of).max().unwrap_or(0).max(1).next_multiple_of(ALIGN)
    }

    /// What the messages are, for people.
    pub(super) fn messages(&self) -> String {
        let kind = if self.immediate { "Writes with Immediate" } else { "Writes" };
        let qps = if self.qps == 1 { "1 QP".to_owned() } else { format!("{} QPs", self.qps) };
        match self.mode {
            Mode::Latency => format!("latency of {kind}, one at a time, back and forth"),
            Mode::Bandwidth if self.bidirectional => {
                format!("{kind} in both directions, {qps} with {} in flight each", self.depth)
            }
            Mode::Bandwidth => format!("{kind}, {qps} with {} in flight each", self.depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_agrees_with_what_its_own_options_leave_open_and_names_both_ends_where_they_differ() {
        let client = Asked { sizes: Some(vec![64, 4096]), qps: Some(2), ..Asked::default() }.settle();
        assert_eq!(Asked::default().agrees(&client), Ok(()));
        assert_eq!(Asked { qps: Some(2), ..Asked::default() }.agrees(&client), Ok(()));
        let differs = |asked: Asked| asked.agrees(&client).unwrap_err();
        assert!(
            differs(Asked { qps: Some(3), ..Asked::default() })
                .starts_with("--qp is 2 at the client and 3 at the server:")
        );
        let sizes = differs(Asked { sizes: Some(vec![8]), ..Asked::default() });
        assert!(sizes.starts_with("--size is 64,4096 at the client and 8 at the server"), "{sizes}");
        let mode = differs(Asked { mode: Some(Mode::Latency), ..Asked::default() });
        assert!(mode.starts_with("what is measured is bandwidth at the client and latency (--lat) at the server"));
        let until = differs(Asked { until: Some(Until::Messages(5)), ..Asked::default() });
        assert!(until.contains("is 2 s (--duration) at the client and 5 messages (--iters) at the server"), "{until}");
        assert!(
            differs(Asked { immediate: Some(true), ..Asked::default() }).contains("--imm is not given at the client")
        );
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_with_the_way_out() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Asked::default().settle();
            assert_eq!(settings.check(), Ok(()));
            change(&mut settings);
            settings.check().unwrap_err()
        };
        assert!(refused(|s| s.sizes.clear()).contains("1 to 64"));
        assert!(refused(|s| s.sizes[0] = MESSAGE_MAX + 1).contains("1 GiB"));
        assert!(refused(|s| s.qps = 0).contains("--qp 0"));
        assert!(refused(|s| s.depth = 40_000).contains("--tx-depth 40000: give 1 to 32768"));
        assert!(refused(|s| s.until = Until::Messages(0)).contains("--iters 0"));
        assert!(refused(|s| s.until = Until::Millis(0)).contains("--duration"));
        assert!(refused(|s| (s.mode, s.qps) = (Mode::Latency, 2)).contains("one QP"));
        assert!(refused(|s| (s.mode, s.bidirectional) = (Mode::Latency, true)).contains("--bidirectional"));
        assert!(refused(|s| (s.mode, s.sizes[0]) = (Mode::Latency, 0)).contains("add --imm"));
        assert!(refused(|s| (s.qps, s.sizes[0]) = (64, 1 << 30)).contains("64 GiB"));
    }

    #[test]
    fn messages_take_turns_in_a_page_and_where_they_are_verified_in_a_few_mebibytes() {
        let sizes = [0, 64, 4096, 1 << 20, 1 << 24];
        for (verify, places) in [(None, [128, 64, 1, 1, 1]), (Some(true), [128, 128, 128, 4, 1])] {
            let settings = Asked { sizes: Some(sizes.to_vec()), verify, ..Asked::default() }.settle();
            assert_eq!(sizes.map(|size| settings.places(size)), places);
            assert_eq!(settings.area(), 1 << 24);
        }
    }
}
