//! NSCC: a window that follows queueing delay and ECN marks (UEC NSCC, in the form of the Scala MRC NIC documentation).
//!
//! Arithmetic: what happens for each SACK is done in integers, and saturates. Gains and averages are binary fractions, since on slow
//! links whole bytes would be off by percents: gains have 32 bits behind the point, the average delay and its weight 16. Floating
//! point is used once, when gains are computed from multipliers, which are given as such. So no value is ever not a number, and the same
//! signals give the same window on every machine. What is clipped is beyond what a network shows: RTTs and delays at 4.29 s, bytes of
//! one SACK at 4 GiB, windows at [`WINDOW_MAX`].

mod gains;
mod params;
#[cfg(test)]
mod tests;

pub use params::{NsccError, NsccParams};

use super::{Congestion, SackSignal};
use crate::Ns;
use gains::{Gains, gained, part_of};

/// Largest window in bytes, 1 TiB: room to add to it without overflow.
pub const WINDOW_MAX: u64 = 1 << 40;
/// Bits behind the point of the average delay, and of the weight of a sample in it.
const DELAY_BITS: u32 = 16;
/// Longest time in ns that is told from longer ones, 4.29 s: the product of two fits 64 bits.
const TIME_MAX: u64 = u32::MAX as u64;
/// Full packets after whose receipt the window is updated before the period is over (UEC NSCC).
const ADJUST_PACKETS: u64 = 8;

/// What the last SACK, NACK or loss did to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Rule {
    /// Nothing: no RTT sample, or a mark with little delay, or one too soon after a decrease.
    #[default]
    None,
    /// Not marked, delay below the target: it grows in proportion to what is missing.
    ProportionalIncrease,
    /// Not marked, delay at the target or above: it grows, and for everybody alike.
    FairIncrease,
    /// A whole window came back with hardly any delay: it grows with every byte that does.
    FastIncrease,
    /// Marked, and the average delay is above the target: it shrinks by the excess, to a half at most.
    MultiplicativeDecrease,
    /// It became what was achieved lately.
    QuickAdapt,
    /// After quick adapt: what was in flight then is not heard.
    Ignoring,
    /// A trimmed packet was taken off it.
    Trimmed,
    /// A lost packet was taken off it.
    Lost,
    /// The receiving host is under pressure.
    Penalty,
    /// The pressure is over, and the window what it was before.
    Restore,
}

impl Rule {
    /// Its name in records and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rule::None => "none",
            Rule::ProportionalIncrease => "proportional_increase",
            Rule::FairIncrease => "fair_increase",
            Rule::FastIncrease => "fast_increase",
            Rule::MultiplicativeDecrease => "multiplicative_decrease",
            Rule::QuickAdapt => "quick_adapt",
            Rule::Ignoring => "ignoring",
            Rule::Trimmed => "trimmed",
            Rule::Lost => "lost",
            Rule::Penalty => "penalty",
            Rule::Restore => "restore",
        }
    }
}

/// What can be seen of [`Nscc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NsccSnapshot {
    /// The window in bytes, whether it limits or not (`PassThrough`).
    pub cwnd: u64,
    /// The largest window in bytes.
    pub max_window: u64,
    /// Base RTT in ns.
    pub base_rtt_ns: u64,
    /// Average queueing delay in ns.
    pub average_delay_ns: u64,
    /// What the last event did.
    pub rule: Rule,
}

/// NSCC's state for one window.
#[derive(Clone, Debug)]
pub struct Nscc {
    cwnd: u64,
    max_wnd: u64,
    base_rtt: u64,
    /// Average queueing delay in ns, with [`DELAY_BITS`].
    average: u64,
    /// Growth that is not yet in the window: bytes times bytes, to be divided by the window.
    inc: u64,
    /// Bytes since the last update of the window.
    received: u64,
    last_adjust: Ns,
    last_decrease: Ns,
    /// Bytes that came back with hardly any delay.
    fast_count: u64,
    fast: bool,
    /// The window before the receiving host came under pressure.
    saved: Option<u64>,
    quick: QuickAdapt,
    rule: Rule,
    gains: Gains,
}

/// State of quick adapt.
#[derive(Clone, Debug, Default)]
struct QuickAdapt {
    /// End of the observation window; the first one begins with the first event.
    end: Option<Ns>,
    /// Bytes received in the observation window.
    achieved: u64,
    /// A packet was trimmed in it.
    trimmed: bool,
    /// Bytes heard of since quick adapt acted.
    ignored: u64,
    /// Bytes that were in flight then.
    to_ignore: u64,
}

impl Nscc {
    /// A window at its maximum, for a link of `rate_bps` bits a second and full packets of `full` bytes (MSS + 60).
    ///
    /// `params` are expected to be valid ([`NsccParams::validate`]); with others the window keeps its bounds all the same.
    #[must_use]
    pub fn new(params: &NsccParams, rate_bps: u64, full: u32, trimming: bool, now: Ns) -> Nscc {
        let full = u64::from(full.max(1));
        let gains = Gains::new(params, rate_bps, full, trimming);
        let given = params.max_window_bytes.or(params.override_max_window.map(|packets| u64::from(packets) * full));
        let max_wnd = given.map_or_else(|| gains.window(gains.config_base_rtt), |bytes| bytes.clamp(full, WINDOW_MAX));
        Nscc {
            cwnd: max_wnd,
            max_wnd,
            base_rtt: gains.config_base_rtt,
            average: 0,
            inc: 0,
            received: 0,
            last_adjust: now,
            last_decrease: now,
            fast_count: 0,
            fast: false,
            saved: None,
            quick: QuickAdapt::default(),
            rule: Rule::None,
            gains,
        }
    }

    /// What can be seen of it.
    #[must_use]
    pub const fn snapshot(&self) -> NsccSnapshot {
        NsccSnapshot {
            cwnd: self.cwnd,
            max_window: self.max_wnd,
            base_rtt_ns: self.base_rtt,
            average_delay_ns: self.average >> DELAY_BITS,
            rule: self.rule,
        }
    }

    /// All that a SACK does, in UEC's order.
    #[inline]
    fn sack(&mut self, now: Ns, signal: &SackSignal, before: u64, inflight: u64) -> Rule {
        let new_bytes = signal.new_bytes.min(u64::from(u32::MAX));
        self.quick.ignored = self.quick.ignored.saturating_add(new_bytes);
        self.quick.achieved = self.quick.achieved.saturating_add(new_bytes);
        self.received = self.received.saturating_add(new_bytes);
        let host = self.heed_host(signal, new_bytes, before);
        let Some(rtt) = signal.rtt else { return host };
        let rtt = rtt.min(TIME_MAX);
        if rtt < self.base_rtt {
            self.lower_base_rtt(rtt);
        }
        let delay = rtt - self.base_rtt;
        self.average_in(delay);
        if let Some(rule) = self.quick_adapt(now, signal.ecn, delay, inflight) {
            return rule;
        }
        let network = self.heed_network(now, signal, new_bytes, delay);
        self.update(now);
        match (host, network) {
            (Rule::None, _) | (_, Rule::MultiplicativeDecrease) => network,
            _ => host,
        }
    }

    /// Pressure on the receiving host: 64 in each SACK of an RTT halves the window, 127 takes it down to one packet.
    #[inline]
    fn heed_host(&mut self, signal: &SackSignal, new_bytes: u64, before: u64) -> Rule {
        if signal.penalty > 0 {
            if self.saved.is_none() {
                self.saved = Some(self.cwnd);
                self.cwnd = self.cwnd.min(before);
            }
            self.shrink((u64::from(signal.penalty) * new_bytes) >> 7);
            return Rule::Penalty;
        }
        match self.saved.take() {
            Some(saved) if signal.restore => {
                self.cwnd = saved.min(self.max_wnd);
                Rule::Restore
            }
            _ => Rule::None,
        }
    }

    #[cold]
    fn lower_base_rtt(&mut self, rtt: u64) {
        self.base_rtt = rtt;
        if !self.gains.max_is_given {
            self.max_wnd = self.gains.window(rtt);
            self.cwnd = self.cwnd.min(self.max_wnd);
        }
    }

    #[inline]
    fn average_in(&mut self, delay: u64) {
        let weight = self.gains.weight;
        self.average = weight * delay + ((((1 << DELAY_BITS) - weight) * self.average) >> DELAY_BITS);
    }

    /// Marked or not, much delay or little.
    #[inline]
    fn heed_network(&mut self, now: Ns, signal: &SackSignal, new_bytes: u64, delay: u64) -> Rule {
        let target = self.gains.target;
        match (signal.ecn, delay >= target) {
            (false, _) if signal.penalty > 0 => Rule::None,
            (false, true) => {
                self.inc = self.inc.saturating_add(gained(self.gains.fair, new_bytes));
                Rule::FairIncrease
            }
            (false, false) => {
                if self.fast_increase(new_bytes, delay) {
                    return Rule::FastIncrease;
                }
                self.inc = self.inc.saturating_add(gained(self.gains.proportional, new_bytes * (target - delay)));
                Rule::ProportionalIncrease
            }
            (true, true) => {
                self.fast = false;
                self.fast_count = 0;
                self.decrease(now)
            }
            (true, false) => Rule::None,
        }
    }

    #[inline]
    fn fast_increase(&mut self, new_bytes: u64, delay: u64) -> bool {
        if delay >= self.gains.margin {
            self.fast = false;
            self.fast_count = 0;
            return false;
        }
        self.fast_count = self.fast_count.saturating_add(new_bytes);
        self.fast |= self.fast_count > self.cwnd;
        if self.fast {
            self.grow(gained(self.gains.fast, new_bytes));
        }
        self.fast
    }

    /// Shrinks the window by gamma (0.8) of the average delay's excess over the target, to a half or what else was set at most, and once a base
    /// RTT.
    #[inline]
    fn decrease(&mut self, now: Ns) -> Rule {
        let target = self.gains.target << DELAY_BITS;
        if self.average <= target || now.since(self.last_decrease) <= self.base_rtt {
            return Rule::None;
        }
        let excess = ((self.average - target) << DELAY_BITS) / self.average;
        let cut = part_of(self.gains.gamma, u128::from(self.cwnd) * u128::from(excess)) >> DELAY_BITS;
        self.shrink(cut.min(part_of(self.gains.max_decrease, self.cwnd.into())));
        self.last_decrease = now;
        Rule::MultiplicativeDecrease
    }

    /// The window takes in what was earned: once a period, and earlier when much was received.
    #[inline]
    fn update(&mut self, now: Ns) {
        let period = now.since(self.last_adjust) >= self.gains.period;
        if !period && self.received <= self.gains.adjust_bytes {
            return;
        }
        let mut growth = self.inc / self.cwnd;
        if period {
            self.last_adjust = now;
            growth = growth.saturating_add(self.gains.eta);
        }
        self.grow(growth);
        self.inc = 0;
        self.received = 0;
    }

    /// Where packets are trimmed or delay is excessive, and little came through in the last observation window, the window becomes that
    /// little. Then what was in flight is ignored while it comes back marked. `None` when none of this is the case.
    #[inline]
    fn quick_adapt(&mut self, now: Ns, ecn: bool, delay: u64, inflight: u64) -> Option<Rule> {
        let quick = &mut self.quick;
        if !self.gains.quick_adapt {
            return None;
        }
        let mut rule = None;
        if ecn && quick.ignored < quick.to_ignore {
            rule = Some(Rule::Ignoring);
        } else if quick.end.is_none_or(|end| now >= end) {
            let triggered = quick.trimmed || delay > self.gains.delay_trigger;
            if quick.end.is_some() && triggered && quick.achieved < self.max_wnd >> self.gains.gate {
                self.cwnd = quick.achieved.max(self.gains.full);
                quick.to_ignore = inflight;
                quick.ignored = 0;
                rule = Some(Rule::QuickAdapt);
            }
            quick.trimmed = false;
            quick.achieved = 0;
            quick.end = Some(now + self.base_rtt + self.gains.target);
        }
        if rule.is_some() {
            self.inc = 0;
            self.received = 0;
        }
        rule
    }

    #[inline]
    fn grow(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(self.max_wnd);
    }

    #[inline]
    fn shrink(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_sub(bytes).max(self.gains.full);
    }
}

impl Congestion for Nscc {
    #[inline]
    fn window(&self) -> u64 {
        if self.gains.pass_through { u64::MAX } else { self.cwnd }
    }

    #[inline]
    fn computed(&self) -> u64 {
        self.cwnd
    }

    #[inline]
    fn on_sack(&mut self, now: Ns, signal: &SackSignal, before: u64, inflight: u64) {
        self.rule = self.sack(now, signal, before, inflight);
    }

    #[inline]
    fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool, inflight: u64) {
        self.rule = Rule::None;
        if !trimmed {
            return;
        }
        // Counted as a sample, since there is none: the queue was full.
        self.average_in(self.gains.config_base_rtt);
        self.quick.ignored = self.quick.ignored.saturating_add(u64::from(nominal));
        self.quick.trimmed = true;
        self.rule = match self.quick_adapt(now, true, 0, inflight) {
            Some(rule) => rule,
            None => {
                self.shrink(u64::from(nominal));
                Rule::Trimmed
            }
        };
    }

    #[inline]
    fn on_loss(&mut self, _now: Ns, nominal: u32) {
        self.shrink(u64::from(nominal));
        self.quick.ignored = self.quick.ignored.saturating_add(u64::from(nominal));
        self.rule = Rule::Lost;
    }
}
